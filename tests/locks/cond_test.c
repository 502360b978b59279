/* SPDX-License-Identifier: MIT */
/* near_cond: which waiters are woken, and a stress test in which every signal is accounted for. */
#include "waits.h"

#include <nearcpu/cond.h>

struct waiter {
	struct near_cond *c;
	struct near_mutex *m;
	struct near_cancel *cancel;
	const struct timespec *deadline;
	clockid_t clock;
	int result;
	unsigned *order, turn;
	pthread_t thread;
};

static void *wait_there(void *arg)
{
	struct waiter *w = arg;

	near_mutex_lock(w->m);
	errno = UNIT_ERRNO;
	w->result = near_cond_wait_until(w->c, w->m, w->clock, w->deadline, w->cancel);
	CHECK(errno == UNIT_ERRNO);
	CHECK(near_mutex_is_mine(w->m));
	if (w->order)
		w->turn = ++*w->order;
	near_mutex_unlock(w->m);
	return NULL;
}

static unsigned waiting(struct near_cond *c)
{
	return waits_on(c, NEAR__SPACE_COND);
}

static unsigned locking(struct near_mutex *m)
{
	return waits_on(m, NEAR__SPACE_MUTEX);
}

static void start_waiter(struct waiter *w)
{
	unsigned before = waiting(w->c);

	w->thread = unit_start(wait_there, w);
	wait_for_waits(w->c, NEAR__SPACE_COND, before + 1);
}

static void expect(struct waiter *w, int result)
{
	unit_join(w->thread);
	assert_int_equal(w->result, result);
}

static void a_signal_ends_the_first_wait(void **state)
{
	struct near_cond c = NEAR_COND_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[3];
	unsigned order = 0;

	near_cond_signal(&c);
	near_cond_broadcast(&c);
	for (unsigned i = 0; i < 3; i++) {
		w[i] = (struct waiter){.c = &c, .m = &m, .order = &order};
		start_waiter(&w[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(c.waited_for, 1);
		if (i % 2) {
			near_mutex_lock(&m);
			near_cond_signal(&c);
			/* Moved, not woken: it waits for the mutex. */
			assert_int_equal(locking(&m), 1);
			near_mutex_unlock(&m);
		} else {
			near_cond_signal(&c);
		}
		expect(&w[i], 0);
		assert_int_equal(w[i].turn, i + 1);
		assert_int_equal(waiting(&c), 2 - i);
	}
	assert_int_equal(c.waited_for, 0);
	assert_int_equal(m.word & NEAR__MUTEX_OWNER, 0);
}

/* True: the mutex was free after the unlock, and the waiter had not had it: nobody gave it. */
static bool signal_and_pass(struct waiter *w)
{
	bool passed = false;

	*w->order = 0;
	start_waiter(w);
	near_mutex_lock(w->m);
	near_cond_signal(w->c);
	near_mutex_unlock(w->m);
	if (near_mutex_try_lock(w->m)) {
		passed = *w->order == 0;
		near_mutex_unlock(w->m);
	}
	expect(w, 0);
	return passed;
}

/* A waiter's age begins with the signal: it is not handed the mutex because it waited for the
 * signal. Unless this thread was away for a millisecond. */
static void a_signalled_waiter_is_young(void **state)
{
	struct near_cond c = NEAR_COND_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	bool passed = false;
	unsigned order;

	for (unsigned i = 0; i < 1000 && !passed; i++) {
		struct waiter w = {.c = &c, .m = &m, .order = &order};

		passed = signal_and_pass(&w);
	}
	assert_true(passed);
}

static void a_broadcast_ends_all(void **state)
{
	struct near_cond c = NEAR_COND_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[8];
	unsigned order = 0;

	for (unsigned round = 0; round < 6; round++) {
		for (unsigned i = 0; i < 8; i++) {
			w[i] = (struct waiter){.c = &c, .m = &m, .order = &order};
			start_waiter(&w[i]);
		}
		if (round % 2)
			near_mutex_lock(&m);
		near_cond_broadcast(&c);
		if (round % 2) {
			assert_int_equal(locking(&m), 8);
			near_mutex_unlock(&m);
		}
		for (unsigned i = 0; i < 8; i++)
			expect(&w[i], 0);
		assert_int_equal(order, 8 * (round + 1));
		assert_int_equal(c.waited_for, 0);
		assert_int_equal(m.word & NEAR__MUTEX_OWNER, 0);
		assert_int_equal(locking(&m), 0);
	}
}

static void deadlines_and_tokens_end_waits(void **state)
{
	static const struct timespec wrong = {1, -1};
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_cond c = NEAR_COND_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w = {.c = &c, .m = &m, .cancel = &token};

	near_mutex_lock(&m);
	for (size_t i = 0; i < LENGTH(wait_clocks); i++) {
		struct timespec soon = wait_in_ms(wait_clocks[i], 10);

		assert_int_equal(near_cond_wait_until(&c, &m, wait_clocks[i], &soon, NULL),
				 -ETIMEDOUT);
		assert_true(wait_is_past(wait_clocks[i], soon));
		assert_true(near_mutex_is_mine(&m));
	}
	assert_int_equal(near_cond_wait_until(&c, &m, CLOCK_MONOTONIC, &wrong, NULL), -EINVAL);
	assert_true(near_mutex_is_mine(&m));
	near_mutex_unlock(&m);
	start_waiter(&w);
	near_cancel_set(&token);
	expect(&w, -ECANCELED);
	assert_int_equal(waiting(&c), 0);
}

/* A waiter that was signalled returns 0, whatever else happens before it has the mutex. */
static void a_signal_comes_before_a_later_deadline(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_cond c = NEAR_COND_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w = {.c = &c, .m = &m, .cancel = &token};

	start_waiter(&w);
	near_mutex_lock(&m);
	near_cond_signal(&c);
	assert_int_equal(locking(&m), 1);
	near_cancel_set(&token);
	usleep(2000);
	near_mutex_unlock(&m);
	expect(&w, 0);
	assert_int_equal(m.word & NEAR__MUTEX_OWNER, 0);
}

/* ---- misuse ---- */

static struct near_cond misused;
static struct near_mutex first, second;

UNIT_CALLS(wait_without_mutex, near_cond_wait(&misused, &first))

static void wait_with_two(void *unused)
{
	struct waiter w = {.c = &misused, .m = &first};

	start_waiter(&w);
	near_mutex_lock(&second);
	near_cond_wait(&misused, &second);
}

static void misuse_stops_with_one_line(void **state)
{
	unit_dies(wait_without_mutex, NULL, "near_cond_wait: this thread does not hold the mutex");
	unit_dies(wait_with_two, NULL, "near_cond_wait: others wait with another mutex");
}

/* ---- stress ---- */

static struct {
	struct near_cond filled, emptied;
	struct near_mutex m;
	unsigned items, put, taken, goal;
	uint64_t seed;
	bool broadcast;
} q;

static void wait_some(struct near_cond *c, uint32_t r)
{
	struct timespec soon = wait_in_ns(r >> 8 & 0xffff);

	if (r % 4)
		near_cond_wait(c, &q.m);
	else
		near_cond_wait_until(c, &q.m, CLOCK_MONOTONIC, &soon, NULL);
}

static void tell(struct near_cond *c)
{
	if (q.broadcast)
		near_cond_broadcast(c);
	else
		near_cond_signal(c);
}

static void *put_items(void *unused)
{
	uint64_t random = __atomic_add_fetch(&q.seed, 1, __ATOMIC_RELAXED);

	near_mutex_lock(&q.m);
	while (q.put < q.goal) {
		while (q.items == 2 && q.put < q.goal)
			wait_some(&q.emptied, unit_random(&random));
		if (q.put < q.goal) {
			q.items++;
			q.put++;
			tell(&q.filled);
		}
		near_mutex_unlock(&q.m);
		near_mutex_lock(&q.m);
	}
	near_cond_broadcast(&q.emptied);
	near_mutex_unlock(&q.m);
	return NULL;
}

static void *take_items(void *unused)
{
	uint64_t random = __atomic_add_fetch(&q.seed, 1, __ATOMIC_RELAXED);

	near_mutex_lock(&q.m);
	while (q.taken < q.goal) {
		while (q.items == 0 && q.taken < q.goal)
			wait_some(&q.filled, unit_random(&random));
		if (q.items > 0) {
			q.items--;
			q.taken++;
		}
		near_mutex_unlock(&q.m);
		tell(&q.emptied); /* without the mutex */
		near_mutex_lock(&q.m);
	}
	near_cond_broadcast(&q.filled);
	near_mutex_unlock(&q.m);
	return NULL;
}

static void *take_part(void *arg)
{
	return *(int *)arg % 2 ? put_items(NULL) : take_items(NULL);
}

/* One lost signal, and the threads that do not use deadlines sleep for ever. */
static void stress_loses_no_signal(void **state)
{
	int parts[8] = {0, 1, 2, 3, 4, 5, 6, 7};

	for (unsigned round = 0; round < 2; round++) {
		memset(&q, 0, sizeof(q));
		q.goal = unit_scale(40000);
		q.broadcast = round;
		unit_run(take_part, parts, sizeof(parts[0]), LENGTH(parts));
		assert_int_equal(q.put, q.goal);
		assert_int_equal(q.taken, q.goal);
		assert_int_equal(waiting(&q.filled) + waiting(&q.emptied) + locking(&q.m), 0);
	}
}

UNIT_MAIN(a_signal_ends_the_first_wait, a_signalled_waiter_is_young, a_broadcast_ends_all,
	  deadlines_and_tokens_end_waits, a_signal_comes_before_a_later_deadline,
	  misuse_stops_with_one_line, stress_loses_no_signal)
