/* SPDX-License-Identifier: MIT */
/* A program that runs one of its cases: `program CASE`. */
#ifndef NEARCPU_TESTS_DROPIN_CASES_H
#define NEARCPU_TESTS_DROPIN_CASES_H

#include <string.h>
#include <sys/resource.h>

static void (*current_case)(void);

/* A step of a case. It is inline, since reports of faults name the function of the case. */
#define STEP static inline __attribute__((always_inline))

/* Runs the case of this name. The names come as one text, separated by commas. */
static int case_run(const char *wanted, const char *names, void (*const *cases)(void))
{
	struct rlimit none = {0, 0};
	char copy[2048];

	setrlimit(RLIMIT_CORE, &none);
	strncpy(copy, names, sizeof(copy) - 1);
	for (char *name = strtok(copy, ", "); name; name = strtok(NULL, ", "), cases++)
		if (strcmp(name, wanted) == 0) {
			current_case = *cases;
			current_case();
			return 0;
		}
	return 2;
}

#define CASE(name, ...)                                                                            \
	static void name(void)                                                                     \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
#define CASES_MAIN(...)                                                                            \
	int main(int argc, char **argv)                                                            \
	{                                                                                          \
		static void (*const cases[])(void) = {__VA_ARGS__};                                \
                                                                                                   \
		return argc == 2 ? case_run(argv[1], #__VA_ARGS__, cases) : 2;                     \
	}

#endif
