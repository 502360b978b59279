/* SPDX-License-Identifier: MIT */
/* cache: a key-value server. Values from 64 bytes to 4 KB are replaced, most often those that were
 * used last; each request has a buffer and an answer. */
#include "malloc/pattern.h"

#define ITEMS 16384 /* of all threads */

struct item {
	char *key, *value;
	size_t size;
};

static void cache_drop(struct worker *w, struct item *item)
{
	w_free(w, item->key);
	block_free(w, item->value);
}

static void store(struct worker *w, struct item *item)
{
	size_t key = random_between(w, 16, 48);

	if (item->key)
		cache_drop(w, item);
	item->key = w_malloc(w, key);
	memset(item->key, 'k', key);
	item->size = random_log(w, 6, 12);
	item->value = block_new(w, item->size);
}

static void cache_answer(struct worker *w, const struct item *item)
{
	char *buffer = w_malloc(w, item->size + 64);

	if (!item->value)
		die("an item has no value");
	memset(buffer, ' ', 64);
	memcpy(buffer + 64, item->value, item->size);
	w_free(w, buffer);
}

static void cache_work(struct worker *w)
{
	uint32_t count = ITEMS / w->run->threads + 1;
	struct item *items = w_calloc(w, count * sizeof(*items));

	for (uint32_t i = 0; i < count; i++)
		store(w, &items[i]);
	meet(w);
	for (uint64_t i = 0; i < w->rounds; i++) {
		uint32_t least = random_below(w, count), at = random_below(w, least + 1);
		char *request = w_malloc(w, random_between(w, 64, 512));

		memset(request, 'r', 64);
		if (random_below(w, 4) == 0)
			store(w, &items[at]);
		else
			cache_answer(w, &items[at]);
		w_free(w, request);
	}
	meet(w);
	for (uint32_t i = 0; i < count; i++)
		cache_drop(w, &items[i]);
	w_free(w, items);
}

PATTERN(cache, "cache", 2000000, cache_work);
