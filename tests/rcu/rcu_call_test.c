/* SPDX-License-Identifier: MIT */
/* near_rcu's callbacks: when and where they run, and what waits for them. The program is linked
 * with --wrap=pthread_create. */
#define RCU_NO_THREADS
#include "no_memory.h"
#include "rcus.h"

#define MANY 1000u

static struct near_rcu d; /* a new one in each test */
static struct rcu_called calls[MANY];

static int make(void **state)
{
	memset(calls, 0, sizeof(calls));
	KEEPS_ERRNO(assert_int_equal(near_rcu_init(&d, NULL), 0));
	return 0;
}

static int destroy(void **state)
{
	__atomic_store_n(&rcu_no_threads, false, __ATOMIC_RELAXED);
	if (d.slots)
		KEEPS_ERRNO(near_rcu_destroy(&d));
	return 0;
}

static void make_slow(void)
{
	const struct near_rcu_options o = {.interval_us = 3600000000u,
					   .lazy_interval_us = 3600000000u};

	near_rcu_destroy(&d);
	assert_int_equal(near_rcu_init(&d, &o), 0);
}

static void assert_all_ran(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(rcu_times(&calls[i]), 1);
}

static void a_callback_runs_after_a_grace_period(void **state)
{
	struct rcu_reader r;

	rcu_reader_start(&r, &d, true);
	rcu_call(&d, &calls[0], 100);
	assert_int_equal(rcu_now(&d).pending_calls, 1);
	assert_int_equal(rcu_now(&d).pending_bytes, 100);
	UNTIL(rcu_slept(&d));
	assert_int_equal(rcu_times(&calls[0]), 0);
	rcu_reader_end(&r);
	KEEPS_ERRNO(near_rcu_barrier(&d));
	assert_int_equal(rcu_times(&calls[0]), 1);
	assert_true(calls[0].tid != (pid_t)syscall(SYS_gettid));
	assert_int_equal(rcu_now(&d).calls, 1);
	assert_int_equal(rcu_now(&d).pending_calls, 0);
	assert_int_equal(rcu_now(&d).pending_bytes, 0);
}

static void without_a_barrier(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		rcu_call(&d, &calls[i], 1);
		UNTIL(rcu_times(&calls[i]));
	}
	KEEPS_ERRNO(near_rcu_call_lazy(&d, &calls[3].head, rcu_count, 1));
	near_rcu_call_lazy(&d, &calls[4].head, rcu_count, 1);
	UNTIL(rcu_times(&calls[3]) && rcu_times(&calls[4]));
	near_rcu_call_lazy(&d, &calls[5].head, rcu_count, 1);
	rcu_call(&d, &calls[6], 1); /* it does not wait for the lazy one */
	UNTIL(rcu_times(&calls[5]) && rcu_times(&calls[6]));
	assert_all_ran(7);
}

/* With an interval of an hour: barriers hurry. */
static void a_barrier_does_not_wait_for_intervals(void **state)
{
	make_slow();
	for (unsigned i = 0; i < 4; i++) {
		rcu_call(&d, &calls[i], 1);
		near_rcu_call_lazy(&d, &calls[10 + i].head, rcu_count, 1);
		near_rcu_barrier(&d);
		assert_all_ran(i + 1);
		assert_int_equal(rcu_times(&calls[10 + i]), 1);
	}
	near_rcu_barrier(&d); /* of nothing */
	rcu_call(&d, &calls[4], 1);
}

static void call_in_section(unsigned i)
{
	near_rcu_token t = near_rcu_enter(&d);

	near_rcu_read_lock(&d);
	rcu_call(&d, &calls[i], 1);
	near_rcu_read_unlock(&d);
	near_rcu_exit(&d, t);
}

static void *call_half(void *first)
{
	for (unsigned i = *(unsigned *)first; i < MANY; i += 2)
		call_in_section(i);
	near_rcu_barrier(&d);
	for (unsigned i = *(unsigned *)first; i < MANY; i += 2)
		CHECK(rcu_times(&calls[i]) == 1);
	return NULL;
}

static void many_calls_of_two_threads(void **state)
{
	unsigned first[] = {0, 1};

	unit_run(call_half, first, sizeof(*first), 2);
	assert_all_ran(MANY);
	assert_int_equal(rcu_now(&d).calls, MANY);
}

static void callbacks_call(void **state)
{
	calls[0].more = 5;
	rcu_call(&d, &calls[0], 1);
	UNTIL(rcu_times(&calls[0]) == 6);
}

/* Whatever the worker is doing when the domain is destroyed. */
static void destroy_waits_for_callbacks_that_call(void **state)
{
	for (unsigned i = 0; i < unit_scale(100); i++) {
		memset(calls, 0, sizeof(*calls));
		calls[0].more = 3;
		rcu_call(&d, &calls[0], 1);
		if (i % 3 == 1)
			UNTIL(rcu_times(&calls[0]));
		KEEPS_ERRNO(near_rcu_destroy(&d));
		assert_int_equal(rcu_times(&calls[0]), 4);
		make(NULL);
	}
}

static void synchronize_in_callback(struct near_rcu_head *head)
{
	near_rcu_synchronize(&d);
	near_rcu_synchronize_lazy(&d);
	near_rcu_wait(&d, near_rcu_poll_start(&d));
	rcu_count(head);
}

static void callbacks_wait_for_grace_periods(void **state)
{
	near_rcu_call(&d, &calls[0].head, synchronize_in_callback, 1);
	near_rcu_barrier(&d);
	assert_int_equal(rcu_times(&calls[0]), 1);
}

/* ---- bounded ---- */

#define EACH 100u
#define MOST 1000u

static void call_bounded(unsigned i)
{
	KEEPS_ERRNO(near_rcu_call_bounded(&d, &calls[i].head, rcu_count, EACH, MOST));
}

static void *bounded_calls(void *unused)
{
	for (unsigned i = 0; i < MANY; i++) {
		call_bounded(i);
		CHECK(rcu_now(&d).pending_bytes <= MOST + 31 * EACH);
	}
	return unused;
}

/* Each thread checks at its first call. */
static void a_bound_is_kept(void **state)
{
	make_slow();
	unit_join(unit_start(bounded_calls, NULL));
	near_rcu_barrier(&d);
	assert_all_ran(MANY);
	assert_true(calls[0].tid != (pid_t)syscall(SYS_gettid));
}

static void bounded_in_callback(struct near_rcu_head *head)
{
	rcu_count(head);
	for (unsigned i = 1; i < 100; i++)
		near_rcu_call_bounded(&d, &calls[i].head, rcu_count, EACH, 0);
}

static void a_callback_does_not_wait(void **state)
{
	near_rcu_call(&d, &calls[0].head, bounded_in_callback, 1);
	near_rcu_barrier(&d);
	near_rcu_barrier(&d);
	assert_all_ran(100);
}

/* ---- no thread can be created ---- */

static void no_thread(void)
{
	__atomic_store_n(&rcu_no_threads, true, __ATOMIC_RELAXED);
}

static void callbacks_wait_for_a_thread(void **state)
{
	no_thread();
	rcu_call(&d, &calls[0], 1);
	KEEPS_ERRNO(assert_int_equal(near_rcu_start(&d), -EAGAIN));
	assert_int_equal(rcu_times(&calls[0]), 0);
	__atomic_store_n(&rcu_no_threads, false, __ATOMIC_RELAXED);
	rcu_call(&d, &calls[1], 1);
	UNTIL(rcu_times(&calls[0]) && rcu_times(&calls[1]));
	assert_int_equal(near_rcu_start(&d), 0);
}

static void a_barrier_runs_them_itself(void **state)
{
	no_thread();
	calls[1].more = 1;
	rcu_call(&d, &calls[0], 1);
	rcu_call(&d, &calls[1], 1);
	near_rcu_barrier(&d);
	assert_all_ran(1);
	assert_int_equal(calls[0].tid, syscall(SYS_gettid));
	near_rcu_call(&d, &calls[2].head, bounded_in_callback, 1);
	near_rcu_barrier(&d);
	assert_int_equal(rcu_times(&calls[1]), 2);
	near_rcu_call_bounded(&d, &calls[200].head, rcu_count, EACH, 0);
	near_rcu_call_lazy(&d, &calls[201].head, rcu_count, EACH);
	near_rcu_destroy(&d);
	assert_int_equal(rcu_times(&calls[200]), 1);
	assert_int_equal(rcu_times(&calls[201]), 1);
}

/* ---- a worker that is behind ---- */

static uint32_t wakes; /* as the callback finds it */

static void call_behind(struct near_rcu_head *head)
{
	wakes = __atomic_load_n(&d.call_wakes, __ATOMIC_RELAXED);
	for (unsigned i = 1; i <= 100; i++)
		(i % 2 ? near_rcu_call : near_rcu_call_lazy)(&d, &calls[i].head, rcu_count, 1);
}

static void calls_yield_to_a_worker_that_is_behind(void **state)
{
	near_rcu_call(&d, &calls[0].head, call_behind, (size_t)65 << 20);
	near_rcu_barrier(&d);
	assert_int_equal(wakes, NEAR__RCU_BEHIND);
	near_rcu_barrier(&d);
	for (unsigned i = 1; i <= 100; i++)
		assert_int_equal(rcu_times(&calls[i]), 1);
	near_rcu_call(&d, &calls[0].head, call_behind, (size_t)63 << 20);
	near_rcu_barrier(&d);
	assert_int_equal(wakes, NEAR__RCU_NO_CALL);
}

/* ---- a domain without a thread ---- */

static void make_threadless(void)
{
	const struct near_rcu_options o = {.flags = NEAR_RCU_NO_THREAD};

	near_rcu_destroy(&d);
	assert_int_equal(near_rcu_init(&d, &o), 0);
}

static void work_runs_callbacks_here(void **state)
{
	uint64_t period;

	make_threadless();
	KEEPS_ERRNO(assert_int_equal(near_rcu_start(&d), -EINVAL));
	KEEPS_ERRNO(assert_false(near_rcu_work(&d)));
	calls[1].more = 1;
	rcu_call(&d, &calls[0], 1);
	rcu_call(&d, &calls[1], 1);
	assert_int_equal(d.worker, NEAR__RCU_ABSENT);
	KEEPS_ERRNO(assert_true(near_rcu_work(&d)));
	assert_all_ran(2);
	assert_int_equal(calls[0].tid, syscall(SYS_gettid));
	assert_true(near_rcu_work(&d)); /* it called again */
	assert_int_equal(rcu_times(&calls[1]), 2);
	assert_false(near_rcu_work(&d));
	period = near_rcu_poll_start(&d);
	assert_false(near_rcu_poll(&d, period));
	assert_true(near_rcu_work(&d));
	assert_true(near_rcu_poll(&d, period));
	near_rcu_synchronize_lazy(&d);
	near_rcu_call_bounded(&d, &calls[2].head, rcu_count, EACH, 0);
	assert_int_equal(rcu_times(&calls[2]), 1);
	rcu_call(&d, &calls[3], 1); /* for destroy */
	near_rcu_destroy(&d);
	assert_int_equal(rcu_times(&calls[3]), 1);
	assert_int_equal(near_rcu_init(&d, &(struct near_rcu_options){.flags = 2}), -EINVAL);
}

static void *work_half(void *first)
{
	for (unsigned i = *(unsigned *)first; i < MANY; i += 2) {
		rcu_call(&d, &calls[i], 1);
		near_rcu_work(&d);
	}
	return NULL;
}

static void threads_work_in_turn(void **state)
{
	unsigned first[] = {0, 1};

	make_threadless();
	unit_run(work_half, first, sizeof(first[0]), 2);
	near_rcu_barrier(&d);
	assert_all_ran(MANY);
	IN_CHILD() {
		rcu_call(&d, &calls[0], 1);
		CHECK(near_rcu_work(&d) && rcu_times(&calls[0]) == 2);
	}
}

static void work_in_callback(struct near_rcu_head *head)
{
	near_rcu_work(&d);
}

static void work_is_not_for_callbacks(void **state)
{
	DIES("near_rcu_work: called by a callback of the domain") {
		make_threadless();
		near_rcu_call(&d, &calls[0].head, work_in_callback, 1);
		near_rcu_work(&d);
	}
}

/* ---- objects without a head ---- */

static void count_object(void *object)
{
	__atomic_fetch_add((unsigned *)object, 1, __ATOMIC_RELEASE);
}

static void an_object_needs_no_head(void **state)
{
	struct rcu_reader r;
	unsigned objects[100] = {0};
	int result;

	rcu_reader_start(&r, &d, true);
	for (unsigned i = 0; i < LENGTH(objects); i++)
		KEEPS_ERRNO(
			assert_int_equal(near_rcu_retire(&d, &objects[i], count_object, 10), 0));
	KEEPS_ERRNO(assert_int_equal(near_rcu_retire(&d, malloc(8), free, 8), 0));
	assert_int_equal(rcu_now(&d).pending_bytes, 1008);
	UNTIL(rcu_slept(&d));
	assert_int_equal(__atomic_load_n(&objects[0], __ATOMIC_ACQUIRE), 0);
	rcu_reader_end(&r);
	near_rcu_barrier(&d);
	for (unsigned i = 0; i < LENGTH(objects); i++)
		assert_int_equal(objects[i], 1);
	no_memory = true;
	KEEPS_ERRNO(result = near_rcu_retire(&d, &objects[0], count_object, 10));
	no_memory = false;
	assert_int_equal(result, -ENOMEM);
	near_rcu_barrier(&d);
	assert_int_equal(objects[0], 1);
	assert_int_equal(rcu_now(&d).calls, LENGTH(objects) + 1);
}

#define BARRIERS 4u

static void *barriers(void *first)
{
	for (unsigned i = *(unsigned *)first; i < MANY; i += BARRIERS) {
		rcu_call(&d, &calls[i], 1);
		if (i % 3 == 0)
			near_rcu_synchronize_lazy(&d);
		near_rcu_barrier(&d);
		CHECK(rcu_times(&calls[i]) == 1);
	}
	return NULL;
}

/* Nobody sleeps because another thread ran a batch. */
static void barriers_of_many_threads(void **state)
{
	unsigned first[BARRIERS] = {0, 1, 2, 3};
	pthread_t threads[BARRIERS];

	for (unsigned i = 0; i < BARRIERS; i++)
		threads[i] = unit_start(barriers, &first[i]);
	no_thread();
	for (unsigned i = 0; i < BARRIERS; i++)
		unit_join(threads[i]);
	assert_all_ran(MANY);
}

static void statistics(void **state)
{
	struct near_rcu_stats s[2];

	KEEPS_ERRNO(assert_int_equal(near_rcu_stats(&d, &s[0], 0), -EINVAL));
	near_rcu_synchronize(&d);
	memset(s, 0x5a, sizeof(s));
	assert_int_equal(near_rcu_stats(&d, &s[0], sizeof(uint64_t)), 0);
	assert_int_equal(s[0].periods, 1);
	assert_int_equal(s[0].slept, UINT64_C(0x5a5a5a5a5a5a5a5a));
	assert_int_equal(near_rcu_stats(&d, &s[0], sizeof(s)), 0);
	assert_int_equal(s[0].pending_calls, 0);
	assert_int_equal(s[1].periods, 0); /* of a later version */
}

/* ---- signal handlers ---- */

static unsigned handled;

static void call_in_handler(int signal)
{
	unsigned i = handled;

	near_rcu_read_lock(&d);
	if (i < MANY)
		near_rcu_call(&d, &calls[handled++].head, rcu_count, 1);
	near_rcu_read_unlock(&d);
}

static void handlers_call(void **state)
{
	assert_int_equal(near_rcu_start(&d), 0);
	unit_timer(unit_slow() ? 20000 : 200, call_in_handler);
	while (handled < unit_scale(300)) {
		near_rcu_read_lock(&d);
		near_rcu_exit(&d, near_rcu_enter(&d));
		near_rcu_read_unlock(&d);
		near_rcu_synchronize(&d);
	}
	unit_timer(0, NULL);
	near_rcu_barrier(&d);
	assert_all_ran(handled);
	assert_int_equal(rcu_now(&d).readers, 0);
}

UNIT_MAIN_EACH(make, destroy, calls_yield_to_a_worker_that_is_behind, work_runs_callbacks_here,
	       threads_work_in_turn, work_is_not_for_callbacks, an_object_needs_no_head,
	       a_callback_runs_after_a_grace_period, without_a_barrier,
	       a_barrier_does_not_wait_for_intervals, many_calls_of_two_threads, callbacks_call,
	       destroy_waits_for_callbacks_that_call, callbacks_wait_for_grace_periods,
	       a_bound_is_kept, a_callback_does_not_wait, callbacks_wait_for_a_thread,
	       a_barrier_runs_them_itself, barriers_of_many_threads, statistics, handlers_call)
