/* SPDX-License-Identifier: MIT */
/* The row of ck_ht, whose objects are freed by ck_epoch. It takes one writer at a time: a
 * pthread_mutex. The table has keys and addresses of objects. */
#define MAP_CHOOSE 0
#include "map/rows.h"

#include <ck_epoch.h>
#include <ck_ht.h>
#include <pthread.h>
#include <stddef.h>

struct object {
	uint64_t key, value;
	ck_epoch_entry_t epoch;
};

static ck_ht_t map;
static ck_epoch_t epoch;
static __thread ck_epoch_record_t *record;
static __thread unsigned writes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void ck_hash(ck_ht_hash_t *h, const void *key, size_t length, uint64_t seed)
{
	(void)length, (void)seed;
	h->value = hash_of(*(const uintptr_t *)key);
}

/* What a table that grew leaves would be freed later; here it is made large enough. */
static void *allocate(size_t size) { return malloc(size); }

static void ck_release(void *p, size_t size, bool defer)
{
	(void)size;
	if (!defer)
		free(p);
}

static struct ck_malloc allocator = {.malloc = allocate, .free = ck_release};

static void ck_begin(void)
{
	ck_epoch_init(&epoch);
	if (!ck_ht_init(&map, CK_HT_MODE_DIRECT, ck_hash, &allocator, 1 << 18, 0))
		window_give_up("error", "not enough memory");
}

static void ck_begin_thread(void)
{
	record = ck_epoch_recycle(&epoch, NULL);
	if (record)
		return;
	if (posix_memalign((void **)&record, LINE, sizeof(*record)))
		abort();
	ck_epoch_register(&epoch, record, NULL);
}

static void ck_end_thread(void)
{
	ck_epoch_barrier(record);
	ck_epoch_unregister(record);
}

static inline bool ck_read(uint64_t key)
{
	ck_ht_hash_t h = {.value = hash_of(key)};
	ck_ht_entry_t entry;
	bool right;

	ck_epoch_begin(record, NULL);
	ck_ht_entry_key_set_direct(&entry, key);
	right = ck_ht_get_spmc(&map, h, &entry) &&
		((struct object *)ck_ht_entry_value_direct(&entry))->value == value_of(key);
	ck_epoch_end(record, NULL);
	return right;
}

static void free_object(ck_epoch_entry_t *e) { free((char *)e - offsetof(struct object, epoch)); }

static void ck_write(uint64_t key)
{
	struct object *o = map_object(sizeof(*o)), *old;
	ck_ht_hash_t h = {.value = hash_of(key)};
	ck_ht_entry_t entry;

	o->key = key;
	o->value = value_of(key);
	ck_ht_entry_set_direct(&entry, h, key, (uintptr_t)o);
	pthread_mutex_lock(&lock);
	if (!ck_ht_set_spmc(&map, h, &entry))
		abort();
	pthread_mutex_unlock(&lock);
	if (ck_ht_entry_empty(&entry))
		return;
	old = (struct object *)ck_ht_entry_value_direct(&entry);
	if (old == o)
		return;
	ck_epoch_call(record, &old->epoch, free_object);
	if (++writes % 64 == 0)
		ck_epoch_poll(record);
}

__attribute__((visibility("default"))) extern const struct window_row map_row;
MAP_ROW(map_row, "ck", ck)
