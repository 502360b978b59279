/* SPDX-License-Identifier: MIT */
/* near_queue: threads that wait; src/queue/queue.h has the argument. */
#include "queue/queue.h"

#include <errno.h>

#include "queue/calls.h"

/* A fence in each put costs about this much, a sleeper's membarrier as much as is measured. Puts
 * fence from the first sleep that comes after fewer puts than outweigh two membarriers, until as
 * many puts of one thread have found no sleeper: so whatever the threads do, both together cost at
 * most a few times what the better of the two would. */
#define PUT_FENCE_NS 10
#define FENCE_PUTS_MIN 250
#define FENCE_PUTS_MAX 1000000

/* Waits awake until the call gives another result, for a while. */
#define TRY_AGAIN(r, call)                                                                         \
	(near__pause_for(FIRST_PAUSE_NS),                                                          \
	 NEAR__SPIN_UNTIL((r = (call)) != -EAGAIN) || NEAR__YIELD_UNTIL((r = (call)) != -EAGAIN))

/* ---- get ---- */

static uint32_t wait_outweighs(int64_t ns)
{
	int64_t puts = ns * 2 / PUT_FENCE_NS;

	if (puts < FENCE_PUTS_MIN)
		return FENCE_PUTS_MIN;
	return puts < FENCE_PUTS_MAX ? (uint32_t)puts : FENCE_PUTS_MAX;
}

/* Called by a getter that has found `state` as it set GETTERS. */
static void fence_puts(struct near_queue *q, uint32_t state, bool often)
{
	int64_t began;
	bool sets;

	if (state & FENCED) {
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		return;
	}
	sets = often && !(__atomic_fetch_or(&q->state, FENCES, __ATOMIC_RELAXED) & FENCES);
	began = near__now(CLOCK_MONOTONIC);
	near__fence();
	__atomic_store_n(&q->fence_puts, wait_outweighs(near__now(CLOCK_MONOTONIC) - began),
			 __ATOMIC_RELAXED);
	/* Release: pairs with the getter that finds it as it sets GETTERS. */
	if (sets)
		__atomic_fetch_or(&q->state, FENCED, __ATOMIC_RELEASE);
}

/* Whether sleeps are frequent. `puts`: so far. */
static bool sleeps_often(struct near_queue *q, uint64_t puts)
{
	uint64_t since = puts - __atomic_load_n(&q->slept_at, __ATOMIC_RELAXED);

	__atomic_store_n(&q->slept_at, puts, __ATOMIC_RELAXED);
	return since < __atomic_load_n(&q->fence_puts, __ATOMIC_RELAXED);
}

/* Sleeps until an element is put, unless there is one. 0: try again. */
static int wait_for_element(struct near_queue *q, uint64_t puts, const struct near__timeout *t)
{
	struct near__waiter w = {0};
	bool often = sleeps_often(q, puts);

	fence_puts(q, near__queue_enter(&w, &q->state, GETTERS), often);
	if (near__queue_get(q, NULL, 1, &puts) == -EAGAIN)
		return near__lot_sleep(&w, t);
	near__lot_leave(&w);
	return 0;
}

static long queue_get(struct near_queue *q, void **out, size_t n, const struct near__timeout *t)
{
	uint64_t puts;
	long r = near__queue_get(q, out, n, &puts);
	int ended = 0;

	if (r != -EAGAIN || TRY_AGAIN(r, near__queue_get(q, out, n, &puts)))
		return r;
	while (r == -EAGAIN && !ended) {
		ended = wait_for_element(q, puts, t);
		r = near__queue_get(q, out, n, &puts);
	}
	return r == -EAGAIN ? ended : r;
}

long near_queue_get_many_until(struct near_queue *q, void **elements, size_t n, int clock,
			       const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : queue_get(q, elements, n, &timeout);
}

int near_queue_get_until(struct near_queue *q, void **element, int clock,
			 const struct timespec *deadline, struct near_cancel *cancel)
{
	return result_of_one(near_queue_get_many_until(q, element, 1, clock, deadline, cancel));
}

int near_queue_get(struct near_queue *q, void **element)
{
	return result_of_one(queue_get(q, element, 1, &NEAR__NO_TIMEOUT));
}

/* An armed watch is a getter that sleeps. If it gets an element after all, a put may have notified
 * it since, for another element, for which this thread does not search: disarming passes that on.
 */
int near_queue_get_or_arm(struct near_queue *q, void **element, struct near_watch *watch)
{
	uint64_t puts;
	long r;

	near__watch_reset(watch);
	r = near__queue_get(q, element, 1, &puts);
	if (r == -EAGAIN) {
		bool often = sleeps_often(q, puts);

		fence_puts(q, near__watch_arm(watch, &q->state), often);
		r = near__queue_get(q, element, 1, &puts);
		if (r != -EAGAIN)
			near_watch_disarm(watch);
	}
	return result_of_one(r);
}

/* ---- put ---- */

/* Sleeps until an element is taken from the ring, unless it has room. 0: try again. */
static int wait_for_room(struct near_queue *q, struct ring *r, const struct near__timeout *t)
{
	struct near__waiter w = {0};

	near__queue_enter(&w, &r->putters, PUTTERS);
	if (near__queue_is_full(q, r) && near__queue_is_open(q))
		return near__lot_sleep(&w, t);
	near__lot_leave(&w);
	return 0;
}

/* Puts an element when there is room. */
static int queue_put(struct near_queue *q, void *element, const struct near__timeout *t)
{
	struct ring *full, *slept_for = NULL;
	int r = near__queue_put(q, element, &full), ended = 0;

	if (r != -EAGAIN || TRY_AGAIN(r, near__queue_put(q, element, &full)))
		return r;
	for (;;) {
		r = near__queue_put(q, element, &full);
		/* Relaxed: a thread that set it has not slept yet if this does not find it. */
		if (slept_for && __atomic_load_n(&slept_for->putters, __ATOMIC_RELAXED) &&
		    !near__queue_is_full(q, slept_for))
			near__queue_wake(&slept_for->putters, PUTTERS, 1);
		if (r != -EAGAIN)
			return r;
		if (ended)
			return ended;
		ended = wait_for_room(q, full, t);
		slept_for = full;
	}
}

long near_queue_try_put_many(struct near_queue *q, void *const *elements, size_t n)
{
	struct ring *full;
	size_t done = 0;
	int r = 0;

	while (done < n && !r) {
		r = near__queue_put(q, elements[done], &full);
		done += !r;
	}
	near__queue_notify(q, done);
	return done ? (long)done : r;
}

static int put_one(struct near_queue *q, void *element, const struct near__timeout *t)
{
	int r = queue_put(q, element, t);

	near__queue_notify(q, !r);
	return r;
}

int near__queue_try_put_slow(struct near_queue *q, void *element)
{
	return result_of_one(near_queue_try_put_many(q, &element, 1));
}

int near_queue_put_until(struct near_queue *q, void *element, int clock,
			 const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	return r ? r : put_one(q, element, &timeout);
}

int near_queue_put(struct near_queue *q, void *element)
{
	return put_one(q, element, &NEAR__NO_TIMEOUT);
}
