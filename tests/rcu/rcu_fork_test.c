/* SPDX-License-Identifier: MIT */
/* near_rcu in the children of fork and vfork: sections, grace periods that wait, callbacks that are
 * pending, taken or in execution. The program is linked with --wrap=pthread_create. */
#define RCU_NO_THREADS
#include "rcus.h"

#define MANY 300u

static struct near_rcu d; /* a new one in each test */
static struct rcu_called calls[MANY];

static int make(void **state)
{
	memset(calls, 0, sizeof(calls));
	assert_int_equal(near_rcu_init(&d, NULL), 0);
	return 0;
}

static int destroy(void **state)
{
	assert_int_equal(rcu_now(&d).readers, 0);
	near_rcu_destroy(&d);
	return 0;
}

/* With sanitizers a child of threads cannot start any: barriers then run callbacks themselves. */
static void begin_child(void)
{
	rcu_no_threads = UNIT_SANITIZED;
}

static void use_all(void)
{
	static struct rcu_called last;
	unsigned times = rcu_times(&last);
	near_rcu_token t = near_rcu_enter(&d);

	near_rcu_read_lock(&d);
	near_rcu_read_unlock(&d);
	near_rcu_exit(&d, t);
	near_rcu_synchronize(&d);
	rcu_call(&d, &last, 1);
	near_rcu_barrier(&d);
	CHECK(rcu_times(&last) == times + 1);
	CHECK(rcu_now(&d).readers == 0);
	CHECK(rcu_now(&d).pending_calls == 0);
	CHECK(rcu_now(&d).pending_bytes == 0);
}

/* ---- sections ---- */

static void unlock_twice(void)
{
	pthread_t waits = {0};
	uint64_t slept = rcu_slept(&d);

	CHECK(near_rcu_is_reading(&d));
	CHECK(rcu_now(&d).readers == 1);
	if (!UNIT_SANITIZED) {
		waits = unit_start(rcu_synchronize_run, &d);
		UNTIL(rcu_slept(&d) > slept);
	}
	near_rcu_read_unlock(&d);
	near_rcu_read_unlock(&d);
	CHECK(!near_rcu_is_reading(&d));
	if (!UNIT_SANITIZED)
		unit_join(waits);
	use_all();
}

static void in_grandchild(void)
{
	IN_CHILD()
		unlock_twice();
}

/* In each phase, and in the child of a child. */
static void a_section_of_the_wrapper_survives(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		near_rcu_read_lock(&d);
		near_rcu_read_lock(&d);
		IN_CHILD() {
			begin_child();
			in_grandchild();
			unlock_twice();
		}
		unlock_twice();
	}
}

static void sections_of_other_threads_do_not(void **state)
{
	struct rcu_reader readers[2];
	pthread_t waits;

	near_rcu_synchronize(&d);
	rcu_reader_start(&readers[0], &d, true);
	rcu_reader_start(&readers[1], &d, false);
	IN_CHILD() {
		begin_child();
		CHECK(rcu_now(&d).readers == 0);
		use_all();
		near_rcu_destroy(&d);
	}
	/* While a thread drives a grace period, which waits for them. */
	waits = unit_start(rcu_synchronize_run, &d);
	UNTIL(rcu_slept(&d));
	IN_CHILD() {
		uint64_t period = rcu_now(&d).periods;

		begin_child();
		CHECK(!near_rcu_poll(&d, period + 1));
		near_rcu_synchronize(&d);
		CHECK(near_rcu_poll(&d, period + 1));
		use_all();
	}
	/* While this thread is in a section, too. */
	near_rcu_read_lock(&d);
	IN_CHILD() {
		begin_child();
		near_rcu_read_lock(&d);
		unlock_twice();
	}
	near_rcu_read_unlock(&d);
	rcu_reader_end(&readers[0]);
	rcu_reader_end(&readers[1]);
	unit_join(waits);
}

/* ---- callbacks ---- */

static void expect_all(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		CHECK(rcu_times(&calls[i]) == 1);
}

static void pending_callbacks_run_in_both(void **state)
{
	struct rcu_reader r;

	rcu_reader_start(&r, &d, false);
	for (unsigned i = 0; i < MANY / 2; i++)
		rcu_call(&d, &calls[i], 3);
	UNTIL(rcu_slept(&d)); /* the worker has taken some of them */
	for (unsigned i = MANY / 2; i < MANY; i++)
		rcu_call(&d, &calls[i], 3);
	for (unsigned i = 0; i < 2; i++)
		IN_CHILD() {
			begin_child();
			if (i)
				near_rcu_synchronize(&d);
			near_rcu_barrier(&d);
			expect_all(0, MANY);
			use_all();
			near_rcu_destroy(&d);
		}
	rcu_reader_end(&r);
	near_rcu_barrier(&d);
	expect_all(0, MANY);
}

static bool executes, continues;

static void stay(struct near_rcu_head *head)
{
	__atomic_store_n(&executes, true, __ATOMIC_SEQ_CST);
	unit_await(&continues);
	rcu_count(head);
}

/* The one that is being executed is the parent's. */
static void a_callback_in_execution(void **state)
{
	executes = continues = false;
	for (unsigned i = 0; i < 10; i++)
		if (i == 5)
			near_rcu_call(&d, &calls[i].head, stay, 1);
		else
			rcu_call(&d, &calls[i], 1);
	unit_await(&executes);
	for (unsigned i = 10; i < 15; i++)
		rcu_call(&d, &calls[i], 1);
	IN_CHILD() {
		begin_child();
		near_rcu_barrier(&d);
		expect_all(0, 5);
		expect_all(6, 9);
		CHECK(rcu_times(&calls[5]) == 0);
		use_all();
	}
	__atomic_store_n(&continues, true, __ATOMIC_SEQ_CST);
	near_rcu_barrier(&d);
	expect_all(0, 15);
}

static pid_t forked;
static unsigned counted;

/* In the child the thread is still the worker. */
static void count_or_exit(struct near_rcu_head *head)
{
	rcu_count(head);
	if (++counted == 8 && !forked) {
		for (unsigned i = 0; i < 8; i++)
			CHECK(rcu_times(&calls[i]) == 1);
		_exit(0);
	}
}

static void fork_in_callback(struct near_rcu_head *head)
{
	rcu_count(head);
	counted++;
	near_rcu_call(&d, &calls[7].head, count_or_exit, 1);
	fflush(NULL);
	forked = fork();
	if (!forked)
		unit_begin_child();
}

static void a_callback_forks(void **state)
{
	counted = 0;
	forked = 1;
	for (unsigned i = 0; i < 7; i++)
		near_rcu_call(&d, &calls[i].head, i == 3 ? fork_in_callback : count_or_exit, 1);
	near_rcu_barrier(&d);
	near_rcu_barrier(&d);
	expect_all(0, 8);
	assert_int_equal(unit_wait(forked, NULL), 0);
}

static void the_child_has_a_worker(void **state)
{
	near_rcu_start(&d);
	IN_CHILD() {
		if (UNIT_SANITIZED)
			_exit(77);
		rcu_call(&d, &calls[0], 1);
		UNTIL(rcu_times(&calls[0]));
		near_rcu_call_lazy(&d, &calls[1].head, rcu_count, 1);
		UNTIL(rcu_times(&calls[1]));
		near_rcu_synchronize_lazy(&d);
		near_rcu_wait(&d, near_rcu_poll_start(&d));
		near_rcu_destroy(&d);
	}
}

/* ---- fork at any moment ---- */

static bool ends;
enum { NOT_CALLED, CALLING, CALLED };
static unsigned char phases[MANY]; /* of each call */

static void *call_all(void *unused)
{
	for (unsigned i = 0; i < MANY; i++) {
		near_rcu_token t = near_rcu_enter(&d);

		__atomic_store_n(&phases[i], CALLING, __ATOMIC_SEQ_CST);
		near_rcu_call(&d, &calls[i].head, rcu_count, 1);
		__atomic_store_n(&phases[i], CALLED, __ATOMIC_SEQ_CST);
		near_rcu_exit(&d, t);
		if (i % 16 == 0)
			near_rcu_synchronize(&d);
	}
	return unused;
}

static void *synchronize_all(void *unused)
{
	while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
		near_rcu_read_lock(&d);
		near_rcu_read_unlock(&d);
		near_rcu_synchronize(&d);
	}
	return unused;
}

/* What was called has run, but for one callback that the parent may have been executing. */
static void check_child(void)
{
	unsigned missing = 0;

	begin_child();
	near_rcu_barrier(&d);
	for (unsigned i = 0; i < MANY; i++) {
		CHECK(rcu_times(&calls[i]) <= 1);
		missing += phases[i] == CALLED && !rcu_times(&calls[i]);
	}
	CHECK(missing <= 1);
	near_rcu_synchronize(&d);
	near_rcu_destroy(&d);
}

static void fork_at_any_moment(void **state)
{
	const struct near_rcu_options o = {.interval_us = 20};
	pthread_t caller, waiter;

	if (unit_emulated()) /* qemu's own locks may stay held in the child */
		skip();
	for (unsigned round = 0; round < unit_scale(20); round++) {
		near_rcu_destroy(&d);
		assert_int_equal(near_rcu_init(&d, &o), 0);
		memset(calls, 0, sizeof(calls));
		memset(phases, 0, sizeof(phases));
		__atomic_store_n(&ends, false, __ATOMIC_RELAXED);
		caller = unit_start(call_all, NULL);
		waiter = unit_start(synchronize_all, NULL);
		for (unsigned i = 0; i < 3; i++)
			IN_CHILD()
				check_child();
		unit_join(caller);
		__atomic_store_n(&ends, true, __ATOMIC_RELAXED);
		unit_join(waiter);
		near_rcu_barrier(&d);
		expect_all(0, MANY);
	}
}

/* ---- handlers ---- */

static unsigned handled;

static void fork_in_handler(int signal)
{
	pid_t child;

	near_rcu_read_lock(&d);
	child = fork();
	if (child == 0) {
		CHECK(near_rcu_is_reading(&d));
		near_rcu_read_unlock(&d);
		near_rcu_exit(&d, near_rcu_enter(&d));
		_exit(0);
	}
	near_rcu_read_unlock(&d);
	CHECK(unit_wait(child, NULL) == 0);
	handled++;
}

/* Within sections, and in the middle of a grace period. */
static void handlers_fork(void **state)
{
	if (UNIT_SANITIZED || unit_emulated())
		skip();
	unit_timer(unit_slow() ? 50000 : 3000, fork_in_handler);
	while (handled < unit_scale(40)) {
		near_rcu_read_lock(&d);
		near_rcu_read_lock(&d);
		near_rcu_exit(&d, near_rcu_enter(&d));
		near_rcu_read_unlock(&d);
		near_rcu_read_unlock(&d);
		near_rcu_synchronize(&d);
	}
	unit_timer(0, NULL);
	near_rcu_synchronize(&d);
}

/* ---- vfork ---- */

__attribute__((noinline)) static pid_t read_in_vfork_child(near_rcu_token *begun,
							   near_rcu_token *left)
{
	pid_t child = vfork();

	if (child == 0) {
		near_rcu_exit(&d, *begun);
		near_rcu_read_lock(&d);
		near_rcu_read_lock(&d);
		*left = near_rcu_enter(&d);
		near_rcu_read_unlock(&d);
		near_rcu_read_unlock(&d);
		_exit(0);
	}
	return child;
}

/* Its memory is the parent's: a section of one may end in the other. */
static void vfork_children_read(void **state)
{
	if (unit_emulated()) /* vfork is fork there */
		skip();
	for (unsigned i = 0; i < 4; i++) {
		near_rcu_token begun = near_rcu_enter(&d), left;

		assert_int_equal(unit_wait(read_in_vfork_child(&begun, &left), NULL), 0);
		assert_false(near_rcu_is_reading(&d));
		assert_int_equal(rcu_now(&d).readers, 1);
		near_rcu_exit(&d, left);
		near_rcu_synchronize(&d);
	}
}

UNIT_MAIN_EACH(make, destroy, a_section_of_the_wrapper_survives, sections_of_other_threads_do_not,
	       pending_callbacks_run_in_both, a_callback_in_execution, a_callback_forks,
	       the_child_has_a_worker, fork_at_any_moment, handlers_fork, vfork_children_read)
