/* SPDX-License-Identifier: MIT */
/* near_queue: the end of all tasks; queue.h has the argument. */
#include <nearcpu/counter.h>

#include "queue/queue.h"

/* Whether all that was put was done at one moment. `done` is loaded first, by acquire, which pairs
 * with the release in near_queue_done. */
static bool is_all_done(const struct near_queue *q)
{
	uint64_t done = 0, put = 0;

	for (unsigned s = 0; near_percpu_next(q->p, &s); s++)
		done += (uint64_t)__atomic_load_n(&ring_of(q, s)->done, __ATOMIC_ACQUIRE);
	for (unsigned s = 0; near_percpu_next(q->p, &s); s++)
		put += __atomic_load_n(&ring_of(q, s)->tail, __ATOMIC_ACQUIRE);
	if (NEAR__UNLIKELY((int64_t)(put - done) < 0))
		near__die("near_queue_done: more are done than were put");
	return put == done;
}

/* True: something is left to take, so that this is not the end; it spares the sums. The thread that
 * is done with that element sums: it took it before its own fence, so if this thread, after its
 * fence, does not find it taken, that thread finds what this one has added. */
static bool has_element(const struct near_queue *q)
{
	for (unsigned s = 0; near_percpu_next(q->p, &s); s++) {
		const struct ring *r = ring_of(q, s);
		uint64_t head = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE);

		/* Relaxed: a later tail is another element, which is done later, too. */
		if (__atomic_load_n(&r->tail, __ATOMIC_RELAXED) > head)
			return true;
	}
	return false;
}

void near_queue_done(struct near_queue *q, size_t n)
{
	near__queue_check(q);
	NEAR__TSAN_RELEASE(&q->joiners);
	/* Release: pairs with the acquire in is_all_done. */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	near__counter_add_slow(&((struct ring *)q->p)->done, (int64_t)n);
	/* Pairs with the fence in queue_join: one of the two finds what the other stored. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&q->joiners, __ATOMIC_RELAXED) && !has_element(q) && is_all_done(q))
		near__queue_wake(&q->joiners, JOINERS, SIZE_MAX);
}

/* A thread that is woken sums again: what the waker found was perhaps before the last put. */
static int queue_join(struct near_queue *q, const struct near__timeout *t)
{
	int r = 0;

	near__queue_check(q);
	while (!is_all_done(q) && !r) {
		struct near__waiter w = {0};

		near__queue_enter(&w, &q->joiners, JOINERS);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (is_all_done(q))
			near__lot_leave(&w);
		else
			r = near__lot_sleep(&w, t);
	}
	NEAR__TSAN_ACQUIRE(&q->joiners);
	return r;
}

int near_queue_join_until(struct near_queue *q, int clock, const struct timespec *deadline,
			  struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : queue_join(q, &timeout);
}

void near_queue_join(struct near_queue *q)
{
	queue_join(q, &NEAR__NO_TIMEOUT);
}
