/* SPDX-License-Identifier: MIT */
/* near_queue: how sleepers enter the lot and are woken, and when puts stop to fence;
 * src/queue/queue.h has the argument. */
#include "queue/queue.h"

uint32_t near__queue_enter(struct near__waiter *w, uint32_t *flags, uint32_t flag)
{
	struct near__bucket *b = near__lot_lock(flags);
	uint32_t seen;

	w->address = flags;
	w->space = NEAR__SPACE_QUEUE;
	near__lot_append(b, w);
	/* Sequentially consistent: PUTTERS pairs with ring_take_from, JOINERS with
	 * near_queue_done. */
	seen = __atomic_fetch_or(flags, flag, __ATOMIC_SEQ_CST);
	near__lot_unlock(b);
	return seen;
}

/* For each sleeper that was not asleep, and so may be suspended (parking/lot.h), the next one is
 * woken, too. */
bool near__queue_wake(uint32_t *flags, uint32_t flag, size_t n)
{
	struct near__waiter *taken;
	bool others;

	do {
		struct near__bucket *b = near__lot_lock(flags);

		taken = near__lot_take_some(b, flags, NEAR__SPACE_QUEUE, n);
		others = near__lot_first(b, flags, NEAR__SPACE_QUEUE);
		/* Relaxed: the lock of the bucket orders what sets and clears a flag. */
		if (!others && __atomic_load_n(flags, __ATOMIC_RELAXED) & flag)
			__atomic_fetch_and(flags, ~flag, __ATOMIC_RELAXED);
		near__lot_unlock(b);
		n = near__lot_wake_all(taken);
	} while (n && taken);
	return others;
}

/* Puts no longer fence. Not while the thread that set FENCES has not set FENCED. */
static void end_fences(struct near_queue *q)
{
	uint32_t seen = __atomic_load_n(&q->state, __ATOMIC_RELAXED);

	while (near__process.usable && seen & FENCED &&
	       !__atomic_compare_exchange_n(&q->state, &seen, seen & ~(FENCES | FENCED), true,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

void near__queue_notify(struct near_queue *q, size_t n)
{
	struct near__queue_thread none = {0}, *mine;
	uint32_t seen = __atomic_load_n(&q->state, __ATOMIC_RELAXED);

	if (!n || !(seen & (GETTERS | FENCES)))
		return;
	if (seen & FENCES) {
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		seen = __atomic_load_n(&q->state, __ATOMIC_RELAXED);
	}
	mine = near__queue_thread_own();
	mine = mine ? mine : &none;
	if (seen & GETTERS) {
		mine->fenced_puts = 0;
		near__queue_wake(&q->state, GETTERS, n);
	} else if (++mine->fenced_puts >= __atomic_load_n(&q->fence_puts, __ATOMIC_RELAXED)) {
		mine->fenced_puts = 0;
		end_fences(q);
	}
}
