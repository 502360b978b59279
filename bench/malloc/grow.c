/* SPDX-License-Identifier: MIT */
/* grow: realloc. Several buffers grow side by side: half as arrays do, by half of what they have,
 * half as strings do, by just what is appended.
 * stay: realloc that finds room in the block. usable: malloc_usable_size. */
#include "malloc/pattern.h"

#define BUFFERS 16

struct buffer {
	char *data;
	size_t size, room, limit;
};

static void buffer_begin(struct worker *w, struct buffer *b, bool string)
{
	*b = (struct buffer){.limit = random_log(w, string ? 5 : 8, string ? 12 : 19)};
}

static void end(struct worker *w, struct buffer *b)
{
	if (b->data && b->data[0] != 'b')
		die("realloc lost what was there");
	if (b->data)
		w_free(w, b->data);
}

static void buffer_append(struct worker *w, struct buffer *b, size_t n, bool string)
{
	if (b->size + n > b->room) {
		b->room = b->size + n + (string ? 1 : b->room / 2);
		b->data = w_realloc(w, b->data, b->room);
	}
	touch(b->data, b->size, b->size + n);
	b->data[0] = 'b';
	b->size += n;
}

static void grow_work(struct worker *w)
{
	struct buffer buffers[BUFFERS];

	for (unsigned i = 0; i < BUFFERS; i++)
		buffer_begin(w, &buffers[i], i % 2);
	for (uint64_t i = 0; i < w->rounds; i++) {
		unsigned at = random_below(w, BUFFERS);
		struct buffer *b = &buffers[at];

		if (b->size >= b->limit) {
			end(w, b);
			buffer_begin(w, b, at % 2);
		}
		buffer_append(w, b, at % 2 ? random_between(w, 1, 64) : 16 + b->size / 8, at % 2);
	}
	meet(w);
	for (unsigned i = 0; i < BUFFERS; i++)
		end(w, &buffers[i]);
}

PATTERN(grow, "grow", 3500000, grow_work);

#define LIVE 64

static void stay_work(struct worker *w)
{
	char *blocks[LIVE];

	for (unsigned i = 0; i < LIVE; i++)
		blocks[i] = w_malloc(w, 120);
	meet(w);
	for (uint64_t i = 0; i < w->rounds; i++) {
		char **p = &blocks[i % LIVE];

		*p = w_realloc(w, *p, i / LIVE % 2 ? 120 : 116);
		**p = 's';
	}
	for (unsigned i = 0; i < LIVE; i++)
		w_free(w, blocks[i]);
}

static void usable_work(struct worker *w)
{
	char *blocks[LIVE];
	size_t sum = 0;

	for (unsigned i = 0; i < LIVE; i++)
		blocks[i] = w_malloc(w, 8 + 16 * i);
	meet(w);
	for (uint64_t i = 0; i < w->rounds; i++)
		sum += w_usable(w, blocks[i % LIVE]);
	if (sum < 8 * w->rounds)
		die("malloc_usable_size is too small");
	for (unsigned i = 0; i < LIVE; i++)
		w_free(w, blocks[i]);
}

PATTERN(stay, "stay", 20000000, stay_work);
PATTERN(usable, "usable", 40000000, usable_work);
