/* SPDX-License-Identifier: MIT */
/* near_rcu: a reader that delays a grace period is reported; a request that comes before the worker
 * sleeps. The program is linked with --wrap=near__now. */
#include "rcus.h"

#include <limits.h>

#include "base/futex.h"
#include "parking/timeout.h"

static struct near_rcu d;

/* The clock, which the test moves. */
static int64_t ahead_ns;
int64_t __real_near__now(clockid_t clock);
int64_t __wrap_near__now(clockid_t clock);

static int request_at; /* 1: a batch is requested when the worker next reads the clock */

int64_t __wrap_near__now(clockid_t clock)
{
	if (near__rcu_works_for(&d) && request_at && --request_at == 0)
		near__rcu_request(&d, NEAR__RCU_NOW);
	return __real_near__now(clock) + __atomic_load_n(&ahead_ns, __ATOMIC_RELAXED);
}

static int make(void **state)
{
	assert_int_equal(near_rcu_init(&d, NULL), 0);
	return 0;
}

static int destroy(void **state)
{
	near_rcu_destroy(&d);
	return 0;
}

#define WAITS_FOR_THREAD                                                                           \
	"nearcpu: near_rcu: a grace period waits for thread %u, in a section begun by %p"
#define WAITS_FOR_TOKEN                                                                            \
	"nearcpu: near_rcu: a grace period waits for a section of near_rcu_enter; "                \
	"NEAR_CONF=rcu_check:1 finds its caller\n"

/* Until the driver has reported, if it does, after 10 s. */
static void report_delay(void)
{
	usleep(1000);
	__atomic_store_n(&ahead_ns, INT64_C(10100000000), __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 20; i++, usleep(500))
		near__futex_wake(&d.sleeps, INT_MAX, false);
}

static void *barrier_run(void *domain)
{
	near_rcu_barrier(domain);
	return NULL;
}

static void nothing(struct near_rcu_head *unused)
{
}

/* The check of the first call. */
static void *bounded_run(void *domain)
{
	static struct near_rcu_head head;

	near_rcu_call_bounded(domain, &head, nothing, 1, 0);
	return NULL;
}

static void *(*wait_run)(void *) = rcu_synchronize_run;

static void delay(bool wrapper)
{
	struct rcu_reader r;
	pthread_t waits;

	rcu_reader_start(&r, &d, wrapper);
	waits = unit_start(wait_run, &d);
	UNTIL(rcu_slept(&d));
	report_delay();
	rcu_reader_end(&r);
	unit_join(waits);
	_exit(0);
}

static void delay_by_wrapper(void *unused)
{
	delay(true);
}

static void delay_by_token(void *unused)
{
	delay(false);
}

static void delay_by_checked_token(void *unused)
{
	near__process.conf.rcu_check = 1; /* as NEAR_CONF=rcu_check:1 */
	CHECK(near_rcu_init(&d, NULL) == 0);
	delay(false);
}

/* A section of each form, and one that begins when the grace period has begun. */
static void delay_by_both(void *unused)
{
	struct rcu_reader both[2], later;
	pthread_t waits;

	for (unsigned i = 0; i < LENGTH(both); i++)
		rcu_reader_start(&both[i], &d, i);
	waits = unit_start(rcu_synchronize_run, &d);
	UNTIL(rcu_slept(&d));
	rcu_reader_start(&later, &d, true);
	report_delay();
	rcu_reader_end(&later);
	for (unsigned i = 0; i < LENGTH(both); i++)
		rcu_reader_end(&both[i]);
	unit_join(waits);
	_exit(0);
}

static void all_that_delay_are_reported_and_nobody_else(void **state)
{
	char text[4096], *second;
	unsigned tid;
	void *site;

	if (unit_capture(delay_by_both, NULL, text, sizeof(text), NULL))
		fail_msg("%s", text);
	assert_int_equal(sscanf(text, WAITS_FOR_THREAD, &tid, &site), 2);
	second = strchr(text, '\n') + 1;
	assert_string_equal(second, WAITS_FOR_TOKEN);
}

static void reports(void (*run)(void *), const char *format, int words)
{
	char text[4096];
	unsigned tid = 0;
	void *site = NULL;

	if (unit_capture(run, NULL, text, sizeof(text), NULL))
		fail_msg("%s", text);
	assert_int_equal(sscanf(text, format, &tid, &site), words);
	if (words)
		assert_non_null(site);
	else
		assert_string_equal(text, format);
	/* Once; the next one comes later. */
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

static void a_delay_is_reported(void **state)
{
	reports(delay_by_wrapper, WAITS_FOR_THREAD, 2);
	reports(delay_by_token, WAITS_FOR_TOKEN, 0);
	reports(delay_by_checked_token,
		"nearcpu: near_rcu: a grace period waits: thread %u is in a section, begun by %p",
		2);
}

static void so_is_that_of_whoever_waits(void **state)
{
	wait_run = barrier_run;
	reports(delay_by_token, WAITS_FOR_TOKEN, 0);
	wait_run = bounded_run;
	reports(delay_by_token, WAITS_FOR_TOKEN, 0);
	wait_run = rcu_synchronize_run;
}

/* ---- the worker ---- */

static bool has_run;

static void run_callback(struct near_rcu_head *head)
{
	__atomic_store_n(&has_run, true, __ATOMIC_RELEASE);
}

/* The request comes after the worker has found none, and before it sleeps for an hour. */
static void a_request_before_a_sleep_counts(void **state)
{
	const struct near_rcu_options o = {.interval_us = 3600000000u,
					   .lazy_interval_us = 3600000000u};
	struct near_rcu_head head;

	near_rcu_destroy(&d);
	assert_int_equal(near_rcu_init(&d, &o), 0);
	request_at = 2; /* the first time is that of the end of the sleep */
	near_rcu_call_lazy(&d, &head, run_callback, 1);
	while (!__atomic_load_n(&has_run, __ATOMIC_ACQUIRE))
		usleep(1000);
	assert_int_equal(request_at, 0);
}

UNIT_MAIN_EACH(make, destroy, a_request_before_a_sleep_counts, a_delay_is_reported,
	       so_is_that_of_whoever_waits, all_that_delay_are_reported_and_nobody_else)
