/* SPDX-License-Identifier: MIT */
/* Stress tests: many threads on few CPUs use everything while they are moved, signalled, forked;
 * sums and owners are checked. A supplement to the tests that stop sequences one instruction at a
 * time: it finds what nobody thought of.
 *
 *     storm_test [--minutes N]      as long as a test should take, or N minutes */
#include "stress.h"

#include <nearcpu/rseq.h>

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
	return thread < stress.workers || thread >= STRESS_WORKERS + STRESS_CHURN;
}

static void start_workers(void)
{
	for (unsigned i = 0; i < STRESS_THREADS; i++)
		if (is_started(i))
			stress.threads[i].thread =
				unit_start(i < stress.workers ? stress_worker : stress_vforker,
					   &stress.threads[i]);
}

static void join_workers(void)
{
	for (unsigned i = 0; i < STRESS_THREADS; i++)
		if (is_started(i))
			unit_join(stress.threads[i].thread);
}

static void print_stress(void)
{
	unsigned long signals = 0;

	for (unsigned i = 0; i < STRESS_THREADS; i++)
		signals += stress.threads[i].signals;
	print_message(
		"%lld adds, %lu signals, %u threads came and went, %u moved, %u forks, %u vforks, "
		"%u drains, %u kills\n",
		(long long)near_counter_read(&stress.count), signals, stress.churned, stress.moved,
		stress.forked, stress.vforked, stress.drained, stress.killed);
}

static void stress_of(unsigned workers)
{
	static void *(*const beside[])(void *) = {stress_churner, stress_forker, stress_mover,
						  stress_closer, stress_reader};
	pthread_t threads[LENGTH(beside)];

	stress_begin(workers);
	stress_catch_signals();
	start_workers();
	for (size_t i = 0; i < LENGTH(beside); i++)
		threads[i] = unit_start(beside[i], NULL);
	sleep_on(part());
	__atomic_store_n(&stress.stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < LENGTH(beside); i++)
		unit_join(threads[i]);
	join_workers();
	print_stress();
	stress_end();
}

/* With the churn, the closers and the others: 64 threads. */
static void many_threads(void **state)
{
	stress_of(getenv("NEAR_TEST_SLOW") ? SLOW_WORKERS : STRESS_WORKERS);
}

static void few_threads(void **state)
{
	stress_of(FEW);
}

static void releases(void **state)
{
	print_message("%u releases\n", release_stress(part()));
}

static void killed_processes(void **state)
{
	print_message("%u killed\n", killed_stress(part()));
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
