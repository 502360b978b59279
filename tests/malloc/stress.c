/* SPDX-License-Identifier: MIT */
/* The stress test: its workers, and the end. */
#include "stress.h"

#include <time.h>

struct stress stress;

static void sleep_on(unsigned ms)
{
	struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static void free_shelves(void)
{
	for (unsigned i = 0; i < STRESS_SHELVES; i++)
		blocks_free(&stress.shelves[i].block);
}

static void print_stress(void)
{
	unsigned long steps = 0;

	for (unsigned i = 0; i < stress.n_workers; i++)
		steps += stress.workers[i].steps;
	print_message("%lu steps, %u signals, %u threads came and went, %u moved, %u forks, "
		      "%u vforks, %u trims\n",
		      steps, stress.signals, stress.churned, stress.moved, stress.forked,
		      stress.vforked, stress.trimmed);
}

static void start_workers(unsigned n, uint64_t seed)
{
	memset(&stress, 0, sizeof(stress));
	stress.slow = blocks_slow = getenv("NEAR_TEST_SLOW") || unit_emulated();
	stress.n_workers = n;
	stress_catch_signals();
	for (unsigned i = 0; i < n; i++) {
		struct stress_worker *w = &stress.workers[i];

		stress_set_up(w, seed * 1000 + i);
		w->thread = unit_start(stress_work, w);
	}
}

static void on_hang(int signal)
{
	static const char line[] = "the stress does not end: a thread or a child hangs\n";

	if (write(STDERR_FILENO, line, sizeof(line) - 1) < 0)
		_exit(3);
	_exit(1);
}

/* This detects children that hang, too, since a thread waits for them. */
static void watch(unsigned ms)
{
	signal(SIGALRM, on_hang);
	alarm(2 * ms / 1000 + (stress.slow ? 200 : 30));
}

void stress_run(unsigned workers, unsigned ms)
{
	static struct stress_worker vforker;
	static uint64_t seed;
	static void *(*const all[])(void *) = {stress_churn, stress_trim,   stress_move,
					       stress_fork,  stress_signal, stress_vfork};
	/* ThreadSanitizer knows no child of vfork that does more than exec. */
	size_t n = UNIT_THREAD_SANITIZER ? 5 : LENGTH(all);
	pthread_t threads[LENGTH(all)];

	start_workers(workers, ++seed);
	watch(ms);
	stress_set_up(&vforker, seed);
	for (size_t i = 0; i < n; i++)
		threads[i] = unit_start(all[i], all[i] == stress_vfork ? &vforker : NULL);
	sleep_on(ms);
	__atomic_store_n(&stress.stop, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < n; i++)
		unit_join(threads[i]);
	for (unsigned i = 0; i < workers; i++)
		unit_join(stress.workers[i].thread);
	alarm(0);
	free_shelves();
	print_stress();
}
