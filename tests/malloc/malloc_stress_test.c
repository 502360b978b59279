/* SPDX-License-Identifier: MIT */
/* The long stress of the allocator (malloc/stress.h).
 *
 *     malloc_stress_test [--seconds N | --minutes N]
 *
 * takes NEAR_STRESS_SECONDS by default, or 8 seconds. */
#include "stress.h"
#include "trim.h"

#define FEW 3          /* workers, so that each runs most of the time */
#define SLOW_WORKERS 5 /* on an emulated machine */

static unsigned duration_ms = 8000;

static size_t resident(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
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
		print_message("%zu KiB are left\n", resident() >> 10);
		if (i == 1)
			first = resident();
	}
	assert_true(first > 0 && resident() < 2 * first + ((size_t)16 << 20));
}

int main(int argc, char **argv)
{
	const char *seconds = getenv("NEAR_STRESS_SECONDS");

	if (seconds && atoi(seconds) > 0)
		duration_ms = (unsigned)atoi(seconds) * 1000;

	if (argc == 2 && strcmp(argv[1], STRESS_NOTHING) == 0)
		return 0;
	if (argc == 3 && strcmp(argv[1], "--minutes") == 0 && atoi(argv[2]) > 0) {
		duration_ms = (unsigned)atoi(argv[2]) * 60000;
	} else if (argc == 3 && strcmp(argv[1], "--seconds") == 0 && atoi(argv[2]) > 0) {
		duration_ms = (unsigned)atoi(argv[2]) * 1000;
	} else if (argc != 1) {
		fputs("usage: malloc_stress_test [--seconds N | --minutes N]\n", stderr);
		return 2;
	}
	return UNIT_TESTS(rounds);
}
