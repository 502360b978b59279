/* SPDX-License-Identifier: MIT */
/* near_once and near_barrier. Many threads at a barrier are in scenarios_test.c. */
#include "waiters.h"

#include "locks/owner.h"

/* ---- once ---- */

struct work {
	struct near_once once;
	unsigned calls, failures;
	int begun, may_end;
	int done; /* written by the function alone */
};

static int do_work(void *arg)
{
	struct work *w = arg;
	unsigned call = __atomic_add_fetch(&w->calls, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&w->begun, 1, __ATOMIC_RELEASE);
	UNTIL(__atomic_load_n(&w->may_end, __ATOMIC_ACQUIRE));
	if (call <= w->failures)
		return -4000 - (int)call;
	w->done++;
	return 0;
}

static void it_is_done_once(void **state)
{
	struct work w = {.may_end = 1};
	int result = 1;

	assert_false(near_once_is_done(&w.once));
	assert_int_equal(near_once_call(&w.once, do_work, &w), 0);
	assert_true(near_once_is_done(&w.once));
	assert_int_equal(near_once_call(&w.once, do_work, &w), 0);
	assert_int_equal(near_once_call_until(&w.once, do_work, &w, &result, 0, NULL, NULL), 0);
	assert_int_equal(result, 0);
	assert_int_equal(w.calls, 1);
	assert_int_equal(w.done, 1);
}

static void a_failure_is_tried_again(void **state)
{
	struct work w = {.may_end = 1, .failures = 2};
	int result;

	assert_int_equal(near_once_call(&w.once, do_work, &w), -4001);
	assert_false(near_once_is_done(&w.once));
	assert_int_equal(near_once_call_until(&w.once, do_work, &w, &result, 0, NULL, NULL), 0);
	assert_int_equal(result, -4002);
	assert_int_equal(near_once_call(&w.once, do_work, &w), 0);
	assert_int_equal(w.calls, 3);
	assert_int_equal(w.done, 1);
}

static unsigned failed_calls;

static void *call_it(void *arg)
{
	struct work *w = *(struct work **)arg;
	int r = near_once_call(&w->once, do_work, w);

	if (r)
		__atomic_fetch_add(&failed_calls, 1, __ATOMIC_RELAXED);
	else
		CHECK(w->done == 1);
	return NULL;
}

static void *let_it_end(void *arg)
{
	struct work *w = arg;

	wait_for_waits(&w->once, NEAR__SPACE_ONCE, 7);
	__atomic_store_n(&w->may_end, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Eight call, seven wait. Each failure is one caller's, and one of the waiters tries next. */
static void others_wait_and_see_it(void **state)
{
	for (unsigned failures = 0; failures < 3; failures++) {
		struct work w = {.failures = failures}, *all[8];
		pthread_t t = unit_start(let_it_end, &w);

		for (unsigned i = 0; i < 8; i++)
			all[i] = &w;
		failed_calls = 0;
		unit_run(call_it, all, sizeof(all[0]), 8);
		unit_join(t);
		assert_int_equal(failed_calls, failures);
		assert_int_equal(w.calls, failures + 1);
		assert_int_equal(w.done, 1);
	}
}

static struct near_cancel stopping;

static struct waiter waiter_of(struct work *w)
{
	return (struct waiter){.kind = &wait_once, .on = &w->once, .cancel = &stopping};
}

/* It is done, and the thread that did it has not woken the others yet: by hand, as the time between
 * is short. */
static void what_is_done_cannot_be_canceled(void **state)
{
	struct work work = {.once = {near__owner_now()}};
	struct waiter w = waiter_of(&work);

	start_waiter(&w);
	__atomic_store_n(&work.once.word, NEAR__ONCE_DONE, __ATOMIC_RELEASE);
	near_cancel_set(&stopping);
	expect(&w, 0);
}

/* It is done while a thread is about to enter the queue: a waiter checks again. */
static void nobody_sleeps_after_it_is_done(void **state)
{
	struct work work = {.once = {near__owner_now()}};
	struct waiter w = waiter_of(&work);
	struct near__bucket *b = near__lot_lock(&work.once);

	w.thread = unit_start(run_waiter, &w);
	UNTIL(__atomic_load_n(&work.once.word, __ATOMIC_RELAXED) != near__owner_now());
	__atomic_store_n(&work.once.word, NEAR__ONCE_DONE, __ATOMIC_RELEASE);
	near__lot_unlock(b);
	expect(&w, 0);
}

static struct near_once recursive;

static int call_again(void *unused)
{
	return near_once_call(&recursive, call_again, unused);
}

static void recursion_stops_with_one_line(void **state)
{
	DIES("near_once_call: called by its own function")
		near_once_call(&recursive, call_again, NULL);
}

/* The fork does not copy the thread that is doing it. */
static void a_child_does_what_its_parent_had_not_finished(void **state)
{
	struct work w = {0}, *arg = &w;
	pthread_t t = unit_start(call_it, &arg);

	UNTIL(__atomic_load_n(&w.begun, __ATOMIC_ACQUIRE));
	IN_CHILD() {
		w.may_end = 1;
		CHECK(near_once_call(&w.once, do_work, &w) == 0);
		CHECK(w.calls == 2 && w.done == 1);
	}
	__atomic_store_n(&w.may_end, 1, __ATOMIC_RELEASE);
	unit_join(t);
	assert_int_equal(w.calls, 1);
	assert_true(near_once_is_done(&w.once));
}

/* ---- cancellation ---- */

static int wait_for_ever(void *begun)
{
	__atomic_store_n((bool *)begun, true, __ATOMIC_RELEASE);
	/* Not in a call that sleeps: ThreadSanitizer would take it to go on. */
	while (sched_yield() == 0)
		pthread_testcancel();
	return 0;
}

static struct {
	struct near_once once;
	bool begun;
} cut;

static void *call_and_be_cancelled(void *unused)
{
	near_once_call(&cut.once, wait_for_ever, &cut.begun);
	return unused;
}

static void *call_after_that(void *work)
{
	near_once_call(&cut.once, do_work, work);
	return NULL;
}

/* As pthread_once: the next one calls it. */
static void a_cancelled_call_has_failed(void **state)
{
	pthread_t t = unit_start(call_and_be_cancelled, NULL), waiter;
	struct work next = {.may_end = 1};

	UNTIL(__atomic_load_n(&cut.begun, __ATOMIC_ACQUIRE));
	waiter = unit_start(call_after_that, &next);
	wait_for_waits(&cut.once, NEAR__SPACE_ONCE, 1);
	assert_int_equal(pthread_cancel(t), 0);
	pthread_join(t, NULL);
	unit_join(waiter);
	assert_int_equal(next.calls, 1);
	assert_true(near_once_is_done(&cut.once));
}

/* ---- barrier ---- */

static void one_thread_meets_itself(void **state)
{
	struct near_barrier b = NEAR_BARRIER_INIT(1);
	struct timespec past = {0, 0};

	assert_int_equal(near_barrier_wait(&b), 1);
	assert_int_equal(near_barrier_wait_until(&b, CLOCK_MONOTONIC, &past, NULL), 1);
}

static void a_waiter_that_leaves_is_not_counted(void **state)
{
	static const struct timespec past = {0, 0};
	struct near_barrier b = {47, 11};
	struct waiter w = {.kind = &wait_barrier, .on = &b}, late = w;

	near_barrier_init(&b, 3);
	start_waiter(&w);
	assert_int_equal(near_barrier_wait_until(&b, CLOCK_MONOTONIC, &past, NULL), -ETIMEDOUT);
	assert_int_equal(b.arrived, 1);
	start_waiter(&late);
	assert_int_equal(near_barrier_wait_until(&b, CLOCK_MONOTONIC, &past, NULL), 1);
	expect(&w, 0);
	expect(&late, 0);
}

/* Those without a token sleep on one futex, those with one on futexes of their own. */
static void all_kinds_of_waiters_meet(void **state)
{
	static const struct timespec far = {TIME_MAX, 0};
	struct near_barrier b = NEAR_BARRIER_INIT(5);
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct waiter w[4] = {{.kind = &wait_barrier, .on = &b},
			      {.kind = &wait_barrier, .on = &b, .cancel = &token},
			      {.kind = &wait_barrier, .on = &b, .deadline = &far},
			      {.kind = &wait_barrier, .on = &b}};

	for (unsigned i = 0; i < LENGTH(w); i++)
		start_waiter(&w[i]);
	assert_int_equal(near_barrier_wait(&b), 1);
	for (unsigned i = 0; i < LENGTH(w); i++)
		expect(&w[i], 0);
}

/* They sleep on one futex. */
static void another_barrier_of_the_bucket_goes_on_waiting(void **state)
{
	static struct near_barrier b[64 * NEAR__BUCKETS];
	struct near_barrier *other = &b[1];
	struct waiter w = {.kind = &wait_barrier, .on = &b[0]}, v = {.kind = &wait_barrier};

	while (near__lot_bucket(other) != near__lot_bucket(&b[0]))
		assert_true(++other < &b[LENGTH(b)]);
	b[0] = *other = (struct near_barrier)NEAR_BARRIER_INIT(2);
	v.on = other;
	start_waiter(&w);
	start_waiter(&v);
	assert_int_equal(near_barrier_wait(&b[0]), 1);
	expect(&w, 0);
	assert_int_equal(other->arrived, 1);
	assert_int_equal(near_barrier_wait(other), 1);
	expect(&v, 0);
}

/* A waiter that is awake returns as soon as its word is set, and may free the barrier. Here the
 * word of a waiter is the memory of the barrier's count. */
static void the_last_thread_takes_waiters_last(void **state)
{
	struct near__waiter w = {.space = NEAR__SPACE_BARRIER};
	struct near_barrier *b = (struct near_barrier *)(void *)&w.space;
	struct near__bucket *bucket = near__lot_lock(b);

	_Static_assert(offsetof(struct near__waiter, word) - offsetof(struct near__waiter, space) ==
			       offsetof(struct near_barrier, arrived),
		       "they overlap");
	w.address = b;
	w.group = &bucket->group;
	near__lot_append(bucket, &w);
	w.word = NEAR__SPACE_BARRIER - 1;
	near__lot_unlock(bucket);
	assert_int_equal(near_barrier_wait(b), 1);
	assert_int_equal(w.word, NEAR__WOKEN);
}

UNIT_MAIN(it_is_done_once, a_failure_is_tried_again, others_wait_and_see_it,
	  nobody_sleeps_after_it_is_done, what_is_done_cannot_be_canceled,
	  recursion_stops_with_one_line, a_child_does_what_its_parent_had_not_finished,
	  a_cancelled_call_has_failed, one_thread_meets_itself, a_waiter_that_leaves_is_not_counted,
	  all_kinds_of_waiters_meet, another_barrier_of_the_bucket_goes_on_waiting,
	  the_last_thread_takes_waiters_last)
