/* SPDX-License-Identifier: MIT */
/* near_queue: how elements are found; src/queue/queue.h has the argument. */
#include "queue/queue.h"

#include <errno.h>
#include <limits.h>

#include "queue/calls.h"

/* One get in this many begins with another slot than its own and the last. Which ones: a multiple
 * of the golden ratio decides, so that no queue is left out, in whichever rhythm a thread gets from
 * several. */
#define TURN 32
#define NO_TAILS UINT64_MAX      /* no sum of tails becomes so great */
#define GOLDEN_RATIO 0x9e3779b9u /* its fraction, of 2^32 */

/* Takes up to n elements of one ring. 0: it was empty when *tail was loaded. If `out` is NULL, it
 * takes none and returns 1. */
static size_t ring_take_from(const struct near_queue *q, unsigned slot, void **out, size_t n,
			     uint64_t *tail)
{
	struct ring *r = ring_of(q, slot);
	/* Acquire: the tail is loaded later. */
	uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE), end;
	size_t k;

	do {
		/* Acquire, of both: pairs with the release of the put that stored the tail. */
		end = __atomic_load_n(&r->seen, __ATOMIC_ACQUIRE);
		if (end < head + n) {
			end = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
			*tail = end;
			if (end <= head)
				return 0;
			__atomic_store_n(&r->seen, end, __ATOMIC_RELEASE);
		}
		if (!out)
			return 1;
		k = end - head < n ? end - head : n;
		/* Relaxed: the CAS fails if a put has overwritten one. */
		out[0] = __atomic_load_n(&r->cells[head & q->mask], __ATOMIC_RELAXED);
		for (size_t i = 1; i < k; i++)
			out[i] = __atomic_load_n(&r->cells[(head + i) & q->mask], __ATOMIC_RELAXED);
		/* Sequentially consistent, as is the next load: pairs with wait_for_room. */
	} while (!__atomic_compare_exchange_n(&r->head, &head, head + k, false, __ATOMIC_SEQ_CST,
					      __ATOMIC_ACQUIRE));
	if (NEAR__UNLIKELY(__atomic_load_n(&r->putters, __ATOMIC_SEQ_CST)))
		near__queue_wake(&r->putters, PUTTERS, k);
	NEAR__TSAN_ACQUIRE(q);
	return k;
}

/* All slots in use, from one on and around; *from is then the one that had elements. 0: each was
 * empty as it was visited. */
static size_t rings_scan(const struct near_queue *q, unsigned *from, void **out, size_t n,
			 uint64_t *tails)
{
	uint64_t tail = 0;
	unsigned first = *from;

	*tails = 0;
	for (int pass = 0; pass < 2; pass++) {
		unsigned end = pass ? first : UINT_MAX;

		for (unsigned s = pass ? 0 : first; near_percpu_next(q->p, &s) && s < end; s++) {
			size_t k = ring_take_from(q, s, out, n, &tail);

			if (k) {
				*from = s;
				return k;
			}
			*tails += tail;
		}
	}
	return 0;
}

/* Acquire: all loads of a scan come before those of the next. */
static uint64_t sum_of_tails(const struct near_queue *q)
{
	uint64_t sum = 0;

	for (unsigned s = 0; near_percpu_next(q->p, &s); s++)
		sum += __atomic_load_n(&ring_of(q, s)->tail, __ATOMIC_ACQUIRE);
	return sum;
}

/* Remembers that a get found the queue empty; the sum of its tails only if the one before did, too:
 * a thread that gets what there is and finds it empty once is not slowed down. What is remembered
 * is true for whoever reads it, but two threads that share storage could write halves of it. */
static void note_empty(const struct near_queue *q, struct near__queue_thread *mine, bool again,
		       uint64_t tails)
{
	if (!near__storage_is_own())
		return;
	mine->empty = q->number;
	mine->empty_tails = again ? tails : NO_TAILS;
}

static bool is_still_empty(const struct near_queue *q, const struct near__queue_thread *mine,
			   uint64_t *tails)
{
	if (mine->empty_tails == NO_TAILS)
		return false;
	*tails = sum_of_tails(q);
	return *tails == mine->empty_tails;
}

/* 0: all rings were empty at one moment, and *tails is the sum of their tails. */
static size_t rings_take(struct near_queue *q, void **out, size_t n, uint64_t *tails)
{
	struct near__queue_thread none = {0}, *mine = near__queue_thread_own();
	unsigned own, from;
	bool was_empty = false;
	size_t k;

	mine = mine ? mine : &none;
	if (NEAR__UNLIKELY(mine->empty == q->number)) {
		if (is_still_empty(q, mine, tails))
			return 0;
		was_empty = true;
		mine->empty = 0;
	}
	from = mine->slot; /* where it found an element last; a hint */
	own = near__thread_live() ? near__index_now() : from;
	mine->turn += GOLDEN_RATIO;
	if (mine->turn < UINT32_MAX / TURN)
		from++;
	else if (own < near__process.slots && (k = ring_take_from(q, own, out, n, tails)))
		return k;
	do {
		k = rings_scan(q, &from, out, n, tails);
		if (k) {
			mine->slot = from;
			return k;
		}
	} while (sum_of_tails(q) != *tails);
	note_empty(q, mine, was_empty, *tails);
	return 0;
}

/* A get that finds the queue empty while it is being closed completes the close: so once a put was
 * refused, no get reports that an element may follow. */
long near__queue_get(struct near_queue *q, void **out, size_t n, uint64_t *tails)
{
	near__queue_check(q);
	n = n < q->capacity ? n : q->capacity;
	while (n) {
		/* Acquire, and before the scan: pairs with the release in near_queue_close. */
		bool closed = __atomic_load_n(&q->state, __ATOMIC_ACQUIRE) & CLOSED;
		size_t k = rings_take(q, out, n, tails);

		if (k)
			return (long)k;
		if (closed)
			return -EPIPE;
		if (near__queue_is_open(q))
			return -EAGAIN;
		near_queue_close(q);
	}
	return 0;
}

long near_queue_try_get_many(struct near_queue *q, void **elements, size_t n)
{
	uint64_t tails;

	return near__queue_get(q, elements, n, &tails);
}

int near_queue_try_get(struct near_queue *q, void **element)
{
	return result_of_one(near_queue_try_get_many(q, element, 1));
}
