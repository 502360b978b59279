/* SPDX-License-Identifier: MIT */
/* Stress tests: many threads on few CPUs use everything while they are moved, signalled, forked;
 * sums and owners are checked. A supplement to the tests that stop sequences one instruction at a
 * time: it finds what nobody thought of.
 *
 *     storm_test [--minutes N]      as long as a test should take, or N minutes */
#include "unit.h"

#include <nearcpu/rseq.h>

#include "beside.h"
#include "killed.h"
#include "release.h"

#define FEW 3           /* workers, so that each runs most of the time, and is signalled there */
#define PARTS 4         /* tests that share the time */
#define SLOW_WORKERS 12 /* on an emulated machine, where each fence takes milliseconds */

static unsigned duration_ms = 6000;

static unsigned part(void)
{
	return duration_ms / PARTS;
}

static void sleep_on(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static bool is_started(unsigned thread)
{
	return thread < storm.workers || thread >= STORM_WORKERS + STORM_CHURN;
}

static void start_workers(void)
{
	for (unsigned i = 0; i < STORM_THREADS; i++)
		if (is_started(i))
			storm.threads[i].thread =
				unit_start(i < storm.workers ? storm_worker : storm_vforker,
					   &storm.threads[i]);
}

static void join_workers(void)
{
	for (unsigned i = 0; i < STORM_THREADS; i++)
		if (is_started(i))
			unit_join(storm.threads[i].thread);
}

static void print_storm(void)
{
	unsigned long signals = 0;

	for (unsigned i = 0; i < STORM_THREADS; i++)
		signals += storm.threads[i].signals;
	print_message(
		"%lld adds, %lu signals, %u threads came and went, %u moved, %u forks, %u vforks, "
		"%u drains, %u kills\n",
		(long long)near_counter_read(&storm.count), signals, storm.churned, storm.moved,
		storm.forked, storm.vforked, storm.drained, storm.killed);
}

static void storm_of(unsigned workers)
{
	static void *(*const beside[])(void *) = {storm_churner, storm_forker, storm_mover,
						  storm_closer, storm_reader};
	pthread_t threads[LENGTH(beside)];

	storm_begin(workers);
	storm_catch_signals();
	start_workers();
	for (size_t i = 0; i < LENGTH(beside); i++)
		threads[i] = unit_start(beside[i], NULL);
	sleep_on(part());
	__atomic_store_n(&storm.stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < LENGTH(beside); i++)
		unit_join(threads[i]);
	join_workers();
	print_storm();
	storm_end();
}

/* With the churn, the closers and the others: 64 threads. */
static void many_threads(void **state)
{
	storm_of(getenv("NEAR_TEST_SLOW") ? SLOW_WORKERS : STORM_WORKERS);
}

static void few_threads(void **state)
{
	storm_of(FEW);
}

static void releases(void **state)
{
	print_message("%u releases\n", release_storm(part()));
}

static void killed_processes(void **state)
{
	print_message("%u killed\n", killed_storm(part()));
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], KILLED_ADDER) == 0)
		return killed_adder(argv + 2);
	if (argc == 3 && strcmp(argv[1], "--minutes") == 0 && atoi(argv[2]) > 0) {
		duration_ms = (unsigned)atoi(argv[2]) * 60000;
	} else if (argc != 1) {
		fputs("usage: storm_test [--minutes N]\n", stderr);
		return 2;
	}
	return UNIT_TESTS(many_threads, few_threads, releases, killed_processes);
}
