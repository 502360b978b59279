/* SPDX-License-Identifier: MIT */
/* The long stress of the locks (locks/stress.h).
 *
 *     locks_stress_test [--seconds N | --minutes N] [--patience N] [--scenario NAME]
 *
 * takes NEAR_STRESS_SECONDS by default, or 5 seconds. A wait that lasts longer than the patience,
 * 30 seconds by default, is taken for one that does not end. */
#include "stress.h"

#define ROUND_MS 1500
#define PATIENCE 30

static const struct scenario *const scenarios[] = {
	&scenario_sections, &scenario_turns, &scenario_signals,  &scenario_queue,
	&scenario_permits,  &scenario_ring,  &scenario_barriers, &scenario_desks,
	&scenario_sleepers, &scenario_forks, &scenario_tables,   &scenario_pair,
};

static unsigned duration_ms = 5000, patience = PATIENCE;
static const struct scenario *only; /* NULL: all */

/* All scenarios together, where threads wait for a CPU most of the time; then two of them, then
 * one, where the threads interleave often. */
static void rounds(void **state)
{
	unsigned n = duration_ms / ROUND_MS < 2 ? 2 : duration_ms / ROUND_MS;
	uint64_t random = 1;

	stress.patience = patience * (getenv("NEAR_TEST_SLOW") || unit_emulated() ? 8 : 1);
	for (unsigned i = 0; i < n; i++) {
		const struct scenario *two[2];
		unsigned first = unit_random(&random) % LENGTH(scenarios);
		unsigned next = 1 + unit_random(&random) % (LENGTH(scenarios) - 1);

		two[0] = scenarios[first];
		two[1] = scenarios[(first + next) % LENGTH(scenarios)];
		if (only)
			stress_run(&only, 1, duration_ms / n);
		else if (i % 3)
			stress_run(two, 3 - i % 3, duration_ms / n);
		else
			stress_run(scenarios, LENGTH(scenarios), duration_ms / n);
	}
}

static const struct scenario *find_scenario(const char *name)
{
	for (size_t i = 0; i < LENGTH(scenarios); i++)
		if (strcmp(scenarios[i]->name, name) == 0)
			return scenarios[i];
	return NULL;
}

static bool read_option(const char *name, const char *value)
{
	int n = atoi(value);

	if (strcmp(name, "--scenario") == 0)
		return (only = find_scenario(value)) != NULL;
	if (n <= 0 || n > 10000)
		return false;
	if (strcmp(name, "--seconds") == 0)
		duration_ms = (unsigned)n * 1000;
	else if (strcmp(name, "--minutes") == 0)
		duration_ms = (unsigned)n * 60000;
	else if (strcmp(name, "--patience") == 0)
		patience = (unsigned)n;
	else
		return false;
	return true;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(rounds)};
	const char *seconds = getenv("NEAR_STRESS_SECONDS");

	if (seconds)
		read_option("--seconds", seconds);
	for (int i = 1; i < argc; i += 2) {
		if (i + 1 == argc || !read_option(argv[i], argv[i + 1])) {
			fputs("usage: locks_stress_test [--seconds N | --minutes N] "
			      "[--patience N] [--scenario NAME]\n",
			      stderr);
			return 2;
		}
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
