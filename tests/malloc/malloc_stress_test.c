/* SPDX-License-Identifier: MIT */
/* The long stress of the allocator (malloc/stress.h).
 *
 *     malloc_stress_test [--seconds N]
 *
 * takes NEAR_STRESS_SECONDS by default, or 8 seconds. */
#include "stress.h"
#include "use.h"

#define FEW 3          /* workers, so that each runs most of the time */
#define SLOW_WORKERS 5 /* on an emulated machine */

static unsigned duration_ms = 8000;

static size_t resident(void)
{
	return KB * kernel_number("/proc/self/status", "VmRSS:", 0);
}

/* Rounds of one size and the other: what all of them leave behind must not add up. */
static void rounds(void **state)
{
	unsigned slow = getenv("NEAR_TEST_SLOW") ? SLOW_WORKERS : STRESS_WORKERS;
	unsigned n = duration_ms / 4000 < 2 ? 2 : duration_ms / 4000;
	size_t first = 0;

	for (unsigned i = 0; i < n; i++) {
		stress_run(i % 2 ? slow : FEW, duration_ms / n);
		malloc_trim(0);
		print_message("%zu KiB are left\n", resident() / KB);
		if (i == 1)
			first = resident();
	}
	assert_true(first > 0 && resident() < 2 * first + (16 * MB));
}

int main(int argc, char **argv)
{
	const char *seconds = getenv("NEAR_STRESS_SECONDS");

	if (argc == 2 && strcmp(argv[1], STRESS_NOTHING) == 0)
		return 0;
	if (argc == 3 && strcmp(argv[1], "--seconds") == 0) {
		seconds = argv[2];
	} else if (argc != 1) {
		fputs("usage: malloc_stress_test [--seconds N]\n", stderr);
		return 2;
	}
	if (seconds && atoi(seconds) > 0)
		duration_ms = (unsigned)atoi(seconds) * 1000;
	return UNIT_TESTS(rounds);
}
