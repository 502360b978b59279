/* SPDX-License-Identifier: MIT */
/* Takes what the bins of other slots have.
 *
 * A bin is closed by exchanging its list, and the number of its transfer cache, for values at which
 * every sequence gives up. A sequence that had loaded the old values may still commit, until the
 * fence. One of the two words then differs from the closed value; the committed value is the valid
 * one, and the bin is closed again, which returns it. A sequence that begins after the exchange
 * commits nothing. A round therefore fails only if a sequence was running at the moment of the
 * exchange. Bins that are not in use yet hold nothing, and callers skip them: a thread that begins
 * one concurrently (near__bin_begin) begins an empty one.
 *
 * After the fence no other thread has the lists. A bin is opened by its two words: first the
 * transfer cache, whose lists have been read by then. An array is closed by its one word. */
#include "cache/cache.h"
#include "kernel/kernel.h"

static bool is_closed(const struct near__closing *c)
{
	if (c->number && __atomic_load_n(c->number, __ATOMIC_RELAXED) != NEAR__CLOSED_NUMBER)
		return false;
	return __atomic_load_n(c->word, __ATOMIC_RELAXED) == NEAR__CLOSED_LIST;
}

/* A word that is closed already was not changed since the round before. */
static void close_bin(struct near__closing *c)
{
	uint32_t lists = NEAR__CLOSED_NUMBER;
	uint64_t was;

	if (c->number)
		lists = __atomic_exchange_n(c->number, NEAR__CLOSED_NUMBER, __ATOMIC_ACQ_REL);
	was = __atomic_exchange_n(c->word, NEAR__CLOSED_LIST, __ATOMIC_ACQ_REL);
	if (lists != NEAR__CLOSED_NUMBER)
		c->lists = lists;
	if (was != NEAR__CLOSED_LIST)
		c->was = was;
}

unsigned near__bins_close(struct near__closing *items, unsigned n)
{
	unsigned open = n, fences = 0;

	for (unsigned i = 0; i < n; i++)
		items[i].closed = false;
	while (open) {
		for (unsigned i = 0; i < n; i++)
			if (!items[i].closed)
				close_bin(&items[i]);
		near__fence();
		fences++;
		for (unsigned i = 0; i < n; i++)
			if (!items[i].closed && is_closed(&items[i])) {
				items[i].closed = true;
				open--;
			}
	}
	return fences;
}

void near__bin_open_empty(const struct near__closing *item)
{
	/* Release: what is taken was read before other threads store here. */
	if (item->number)
		__atomic_store_n(item->number, 1, __ATOMIC_RELEASE);
	__atomic_store_n(item->word, NEAR__EMPTY_LIST, __ATOMIC_RELEASE);
}
