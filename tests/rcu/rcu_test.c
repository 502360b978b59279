/* SPDX-License-Identifier: MIT */
/* near_rcu, step by step: what a grace period waits for, and which threads wait together. The
 * program is linked with --wrap=near__fence and --wrap=pthread_create. */
#define RCU_NO_THREADS
#include "rcus.h"

#include "fences.h"

static struct near_rcu d, other; /* new ones in each test */

static int make(void **state)
{
	memset(&d, 0x5a, sizeof(d));
	memset(&other, 0x5a, sizeof(other));
	KEEPS_ERRNO(assert_int_equal(near_rcu_init(&d, NULL), 0));
	KEEPS_ERRNO(assert_int_equal(near_rcu_init(&other, NULL), 0));
	return 0;
}

static int destroy(void **state)
{
	assert_int_equal(rcu_now(&d).readers, 0);
	KEEPS_ERRNO(near_rcu_destroy(&other));
	KEEPS_ERRNO(near_rcu_destroy(&d));
	return 0;
}

/* ---- one section, one grace period ---- */

static void sections_that_have_ended_delay_nobody(void **state)
{
	near_rcu_token t[3];

	for (unsigned i = 0; i < 5; i++) {
		for (unsigned n = 0; n < 3; n++)
			KEEPS_ERRNO(t[n] = near_rcu_enter(&d));
		assert_int_equal(rcu_now(&d).readers, 3);
		for (unsigned n = 0; n < 3; n++)
			KEEPS_ERRNO(near_rcu_exit(&d, t[n]));
		KEEPS_ERRNO(near_rcu_read_lock(&d));
		KEEPS_ERRNO(near_rcu_read_unlock(&d));
		assert_int_equal(rcu_now(&d).readers, 0);
		KEEPS_ERRNO(near_rcu_synchronize(&d));
		assert_int_equal(rcu_now(&d).periods, i + 1);
	}
	assert_int_equal(rcu_now(&d).slept, 0);
}

static void delays(bool wrapper)
{
	uint64_t slept = rcu_slept(&d), periods = rcu_now(&d).periods, waited;
	struct rcu_reader r;
	pthread_t waits;

	rcu_reader_start(&r, &d, wrapper);
	near_rcu_synchronize(&other); /* of another domain */
	waits = unit_start(rcu_synchronize_run, &d);
	UNTIL(rcu_slept(&d) > slept);
	assert_int_equal(rcu_now(&d).periods, periods);
	assert_int_equal(rcu_now(&d).readers, 1);
	waited = rcu_now(&d).waits_ns;
	UNTIL(rcu_now(&d).waits_ns > waited);
	assert_true(waited > 0);
	rcu_reader_end(&r);
	unit_join(waits);
	assert_int_equal(rcu_now(&d).waits_ns, 0);
	assert_int_equal(rcu_now(&d).periods, periods + 1);
}

static void a_section_delays_a_grace_period(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		delays(false);
		delays(true);
	}
}

static void *exit_run(void *token)
{
	near_rcu_exit(&d, *(near_rcu_token *)token);
	return NULL;
}

/* As a fiber does that is moved to another thread. */
static void another_thread_may_end_a_section(void **state)
{
	near_rcu_token t = near_rcu_enter(&d);
	pthread_t waits = unit_start(rcu_synchronize_run, &d);

	UNTIL(rcu_slept(&d));
	unit_join(unit_start(exit_run, &t));
	unit_join(waits);
}

static void sections_nest(void **state)
{
	pthread_t waits;

	assert_false(near_rcu_is_reading(&d));
	for (unsigned i = 0; i < 10; i++) {
		near_rcu_read_lock(&d);
		assert_true(near_rcu_is_reading(&d));
		assert_false(near_rcu_is_reading(&other));
	}
	assert_int_equal(rcu_now(&d).readers, 1);
	near_rcu_read_lock(&other);
	waits = unit_start(rcu_synchronize_run, &d);
	for (unsigned i = 0; i < 9; i++)
		near_rcu_read_unlock(&d);
	UNTIL(rcu_slept(&d));
	assert_int_equal(rcu_now(&d).periods, 0);
	near_rcu_read_unlock(&d);
	assert_false(near_rcu_is_reading(&d));
	unit_join(waits);
	near_rcu_synchronize(&d); /* within a section of another domain */
	near_rcu_read_unlock(&other);
}

/* ---- what is between the steps of a grace period ---- */

static near_rcu_token in_hook;
static pthread_t leaver;

static void enter_in_hook(void)
{
	in_hook = near_rcu_enter(&d);
}

static void enter_after_the_flip(void)
{
	fence_hook = enter_in_hook;
}

static void *leave_when_slept(void *unused)
{
	UNTIL(rcu_slept(&d));
	CHECK(rcu_now(&d).periods == 0);
	near_rcu_exit(&d, in_hook);
	return unused;
}

static void enter_before_the_flip(void)
{
	enter_in_hook();
	leaver = unit_start(leave_when_slept, NULL);
}

static void a_section_after_the_flip_delays_nobody(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		fence_hook = enter_after_the_flip;
		near_rcu_synchronize(&d);
		assert_int_equal(rcu_now(&d).readers, 1);
		near_rcu_exit(&d, in_hook);
	}
	assert_int_equal(rcu_now(&d).slept, 0);
}

static void a_section_before_the_flip_delays(void **state)
{
	fence_hook = enter_before_the_flip;
	near_rcu_synchronize(&d);
	unit_join(leaver);
	assert_int_equal(rcu_now(&d).periods, 1);
}

static void a_grace_period_fences_twice(void **state)
{
	fences_made();
	near_rcu_synchronize(&d);
	assert_int_equal(fences_made(), 2);
}

/* ---- threads that wait together ---- */

#define SHARERS 6

static void waiters_share_a_grace_period(void **state)
{
	pthread_t threads[SHARERS];
	struct rcu_reader r;

	rcu_reader_start(&r, &d, false);
	for (unsigned i = 0; i < SHARERS; i++) {
		threads[i] = unit_start(rcu_synchronize_run, &d);
		UNTIL(rcu_slept(&d));
	}
	UNTIL(__atomic_load_n(&d.waiters, __ATOMIC_SEQ_CST) == SHARERS - 1);
	rcu_reader_end(&r);
	for (unsigned i = 0; i < SHARERS; i++)
		unit_join(threads[i]);
	assert_int_equal(rcu_now(&d).periods, 2);
	assert_int_equal(d.waiters, 0);
}

static void *synchronize_often(void *domain)
{
	for (unsigned i = 0; i < unit_scale(2000); i++)
		near_rcu_synchronize(domain);
	return NULL;
}

/* Nobody sleeps for ever. */
static void many_wait_often(void **state)
{
	pthread_t threads[4];

	for (unsigned i = 0; i < 4; i++)
		threads[i] = unit_start(synchronize_often, &d);
	for (unsigned i = 0; i < 4; i++)
		unit_join(threads[i]);
	assert_in_range(rcu_now(&d).periods, unit_scale(2000), 4 * unit_scale(2000));
	assert_int_equal(d.waiters, 0);
}

static void polled(void **state)
{
	struct rcu_reader r;
	uint64_t first, second;

	rcu_reader_start(&r, &d, true);
	KEEPS_ERRNO(first = near_rcu_poll_start(&d));
	assert_false(near_rcu_poll(&d, first));
	UNTIL(rcu_slept(&d)); /* the worker has begun it */
	second = near_rcu_poll_start(&d);
	assert_int_equal(second, first + 1);
	assert_false(near_rcu_poll(&d, first));
	rcu_reader_end(&r);
	UNTIL(near_rcu_poll(&d, first));
	KEEPS_ERRNO(near_rcu_wait(&d, second));
	assert_true(near_rcu_poll(&d, second));
	near_rcu_wait(&d, first);
	assert_false(near_rcu_poll(&d, rcu_now(&d).periods + 1));
}

static void *lazily(void *unused)
{
	KEEPS_ERRNO(near_rcu_synchronize_lazy(&d));
	return unused;
}

static void lazy_waiters_share_a_grace_period(void **state)
{
	const struct near_rcu_options o = {.lazy_interval_us = 20000};
	pthread_t threads[SHARERS];

	near_rcu_destroy(&d);
	assert_int_equal(near_rcu_init(&d, &o), 0);
	for (unsigned i = 0; i < SHARERS; i++)
		threads[i] = unit_start(lazily, NULL);
	for (unsigned i = 0; i < SHARERS; i++)
		unit_join(threads[i]);
	assert_in_range(rcu_now(&d).periods, 1, SHARERS);
}

static void lazily_without_a_thread(void **state)
{
	__atomic_store_n(&rcu_no_threads, true, __ATOMIC_RELAXED);
	lazily(NULL);
	assert_int_equal(near_rcu_start(&d), -EAGAIN);
	__atomic_store_n(&rcu_no_threads, false, __ATOMIC_RELAXED);
	assert_int_equal(rcu_now(&d).periods, 1);
}

/* ---- readers without a slot ---- */

/* Runs as a thread that is not live. */
static void not_live(void (*run)(void *), void *arg)
{
	struct near__thread saved = near__self;

	near__self.area = &near__dead;
	*(volatile uint32_t *)&near__self.state = NEAR__VFORKED;
	run(arg);
	near__self.area = saved.area;
	*(volatile uint32_t *)&near__self.state = saved.state;
}

static void enter(void *token)
{
	*(near_rcu_token *)token = near_rcu_enter(&d);
}

static void leave(void *token)
{
	near_rcu_exit(&d, *(near_rcu_token *)token);
}

static void try_all(void (*in)(void *), void (*out)(void *))
{
	near_rcu_token t[2];
	pthread_t waits;
	uint64_t slept = rcu_slept(&d);

	in(&t[0]);
	in(&t[1]);
	assert_int_equal(rcu_now(&d).readers, 2);
	waits = unit_start(rcu_synchronize_run, &d);
	UNTIL(rcu_slept(&d) > slept);
	out(&t[0]);
	in(&t[0]); /* in the new phase */
	out(&t[1]);
	unit_join(waits);
	out(&t[0]);
	assert_int_equal(rcu_now(&d).readers, 0);
	near_rcu_synchronize(&d);
}

static void enter_not_live(void *token)
{
	not_live(enter, token);
}

static void leave_not_live(void *token)
{
	not_live(leave, token);
}

static void with_and_without_a_slot(void **state)
{
	try_all(enter, leave);
	try_all(enter_not_live, leave);
	try_all(enter, leave_not_live);
	try_all(enter_not_live, leave_not_live);
}

/* ---- what there is besides ---- */

static void options(void **state)
{
	struct near_rcu_options o = {.interval_us = UINT32_C(3600000001)};
	struct near_rcu third;

	KEEPS_ERRNO(assert_int_equal(near_rcu_init(&third, &o), -EINVAL));
	o = (struct near_rcu_options){.lazy_interval_us = UINT32_C(3600000001)};
	KEEPS_ERRNO(assert_int_equal(near_rcu_init(&third, &o), -EINVAL));
	o = (struct near_rcu_options){.interval_us = UINT32_C(3600000000), .lazy_interval_us = 1};
	KEEPS_ERRNO(assert_int_equal(near_rcu_init(&third, &o), 0));
	near_rcu_destroy(&third);
	KEEPS_ERRNO(assert_int_equal(near_rcu_init(&third, NULL), 0));
	near_rcu_destroy(&third);
}

static struct near_rcu early;
NEAR_EARLY(early, near_rcu_init(&early, NULL));

static bool used_early;

__attribute__((constructor)) static void use_early(void)
{
	near_rcu_token t = near_rcu_enter(&early);

	near_rcu_exit(&early, t);
	near_rcu_read_lock(&early);
	used_early = near_rcu_is_reading(&early);
	near_rcu_read_unlock(&early);
	near_rcu_synchronize(&early);
}

static void before_main(void **state)
{
	assert_true(used_early);
	assert_int_equal(rcu_now(&early).periods, 1);
}

static void *with_a_destroyed_number(void *unused)
{
	struct near_rcu *all = calloc(20, sizeof(*all));

	/* Numbers of read_lock are used again. */
	for (unsigned i = 0; i < 20; i++) {
		CHECK(near_rcu_init(&all[i], NULL) == 0);
		near_rcu_read_lock(&all[i]);
		near_rcu_read_unlock(&all[i]);
		near_rcu_destroy(&all[i]);
	}
	/* Tokens need none. */
	for (unsigned i = 0; i < 20; i++)
		CHECK(near_rcu_init(&all[i], NULL) == 0);
	for (unsigned i = 0; i < 20; i++) {
		near_rcu_token t = near_rcu_enter(&all[i]);

		near_rcu_exit(&all[i], t);
		near_rcu_synchronize(&all[i]);
	}
	for (unsigned i = 0; i < 20; i++)
		near_rcu_destroy(&all[i]);
	free(all);
	return unused;
}

static void many_domains(void **state)
{
	unit_join(unit_start(with_a_destroyed_number, NULL));
}

UNIT_MAIN_EACH(make, destroy, sections_that_have_ended_delay_nobody,
	       a_section_delays_a_grace_period, another_thread_may_end_a_section, sections_nest,
	       a_section_after_the_flip_delays_nobody, a_section_before_the_flip_delays,
	       a_grace_period_fences_twice, waiters_share_a_grace_period, many_wait_often, polled,
	       lazy_waiters_share_a_grace_period, lazily_without_a_thread, with_and_without_a_slot,
	       options, before_main, many_domains)
