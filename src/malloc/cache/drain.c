/* SPDX-License-Identifier: MIT */
/* drain: takes what another slot has in its caches.
 *
 * An entry is closed by exchanging its list and the number of its stash for values that no sequence
 * goes on with. A sequence that had loaded the old values may still commit, until the fence; then
 * one of the two is not what it was set to, what was committed is the truth, and the entry is
 * closed once more, which returns it. One that begins after the exchange commits nothing. So a
 * round fails only if a sequence was under way at the moment of the exchange. Entries that nobody
 * used yet hold nothing, and are left alone: whoever begins one meanwhile (front.c) begins an empty
 * one.
 *
 * After the fence nobody else has what was taken. Each entry is opened by its two words, first the
 * stash, whose lists are read by then. */
#include "malloc/cache/cache.h"

#define CLOSED_STASH UINT32_MAX

/* Held from the first close to the last open, so that nobody forks in between. */
static struct near_lock lock;

struct drain {
	struct near__front *front;
	uint64_t lists[NEAR__SIZES + 1];
	uint32_t stashed[NEAR__SIZES + 1];
	uint8_t open[NEAR__SIZES]; /* classes still to be closed */
	unsigned n;
};

static bool is_closed(const struct near__front *f, unsigned class)
{
	return __atomic_load_n(&f->entries[class].list, __ATOMIC_RELAXED) == NEAR__CLOSED_LIST &&
	       __atomic_load_n(&f->stashed[class], __ATOMIC_RELAXED) == CLOSED_STASH;
}

/* What is found closed was not touched since the round before. */
static void close_entry(struct drain *d, unsigned class)
{
	struct near__entry *e = &d->front->entries[class];
	uint32_t stashed =
		__atomic_exchange_n(&d->front->stashed[class], CLOSED_STASH, __ATOMIC_ACQ_REL);
	uint64_t list = __atomic_exchange_n(&e->list, NEAR__CLOSED_LIST, __ATOMIC_ACQ_REL);

	if (stashed != CLOSED_STASH)
		d->stashed[class] = stashed;
	if (list != NEAR__CLOSED_LIST)
		d->lists[class] = list;
}

static void close_all(struct drain *d)
{
	while (d->n) {
		unsigned left = 0;

		for (unsigned i = 0; i < d->n; i++)
			close_entry(d, d->open[i]);
		near__fence();
		__atomic_fetch_add(&near__drains.fences, 1, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < d->n; i++)
			if (!is_closed(d->front, d->open[i]))
				d->open[left++] = d->open[i];
		d->n = left;
	}
}

static void give_class(struct drain *d, unsigned class)
{
	struct near__entry *e = &d->front->entries[class];
	uint32_t n = d->stashed[class];

	for (uint32_t i = 0; i + 1 < n; i++)
		near__central_give(class, d->front->stash[class][i]);
	if (!near__list_is_empty(d->lists[class]))
		near__central_give(class, d->lists[class]);
	__atomic_store_n(&d->front->stashed[class], 1, __ATOMIC_RELEASE);
	/* Release: the stash was read, and the blocks are no longer ours. */
	__atomic_store_n(&e->list, NEAR__EMPTY_LIST, __ATOMIC_RELEASE);
}

struct near__drains near__drains;

void near__drain_slot(unsigned slot)
{
	struct drain d = {.front = near_percpu_at(near__heap.front, slot)};
	uint8_t closed[NEAR__SIZES];
	unsigned n = 0;

	near_lock_lock(&lock);
	for (unsigned c = 1; c <= NEAR__SIZES; c++)
		if (__atomic_load_n(&d.front->entries[c].list, __ATOMIC_RELAXED))
			closed[n++] = d.open[d.n++] = (uint8_t)c;
	close_all(&d);
	for (unsigned i = 0; i < n; i++)
		give_class(&d, closed[i]);
	near__stash_emptied(d.front);
	__atomic_fetch_add(&near__drains.slots, 1, __ATOMIC_RELAXED);
	near_lock_unlock(&lock);
}

NEAR__RUN_EARLY void near__drain_fork(near__fork_step *step)
{
	step(&lock);
}

void near__drain_all(void)
{
	if (!near__heap.front)
		return;
	for (unsigned s = 0; near_percpu_next(near__heap.front, &s); s++) {
		if (s >= near__process.slots)
			break;
		near__drain_slot(s);
	}
}
