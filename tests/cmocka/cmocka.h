/* SPDX-License-Identifier: MIT */
/* The part of cmocka's interface that the tests use, for C libraries and CPUs that the system's
 * cmocka is not built for. Same names, same output, no mocks. */
#ifndef NEARCPU_TESTS_CMOCKA_H
#define NEARCPU_TESTS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);

struct CMUnitTest {
	const char *name;
	CMUnitTestFunction test_func;
	CMFixtureFunction setup_func;
	CMFixtureFunction teardown_func;
	void *initial_state;
};

enum mini_verdict { MINI_PASSED, MINI_FAILED, MINI_SKIPPED };

/* Weak: one for all files of a test. */
__attribute__((weak)) jmp_buf mini_test_end;

static inline void mini_end_test(enum mini_verdict how)
{
	fflush(stdout);
	longjmp(mini_test_end, (int)how);
}

static inline void __attribute__((format(printf, 1, 2))) print_message(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
}

static inline void __attribute__((format(printf, 1, 2))) print_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
}

#define fail_msg(...)                                                                              \
	do {                                                                                       \
		print_error("%s:%d: error: ", __FILE__, __LINE__);                                 \
		print_error(__VA_ARGS__);                                                          \
		print_error("\n");                                                                 \
		mini_end_test(MINI_FAILED);                                                        \
	} while (0)
#define fail() fail_msg("failed")
#define MINI_ALL_SKIPPED 77 /* as a status */
#define skip() mini_end_test(MINI_SKIPPED)

#define mini_assert(holds, ...)                                                                    \
	do {                                                                                       \
		if (!(holds))                                                                      \
			fail_msg(__VA_ARGS__);                                                     \
	} while (0)
#define mini_assert_compare(a, op, b)                                                              \
	do {                                                                                       \
		unsigned long long a_ = (unsigned long long)(a);                                   \
		unsigned long long b_ = (unsigned long long)(b);                                   \
                                                                                                   \
		mini_assert(a_ op b_, "%s %s %s: %#llx and %#llx", #a, #op, #b, a_, b_);           \
	} while (0)

#define assert_true(c) mini_assert(c, "%s is false", #c)
#define assert_false(c) mini_assert(!(c), "%s is true", #c)
#define assert_null(p) mini_assert((p) == NULL, "%s is not NULL", #p)
#define assert_non_null(p) mini_assert((p) != NULL, "%s is NULL", #p)
#define assert_int_equal(a, b) mini_assert_compare(a, ==, b)
#define assert_int_not_equal(a, b) mini_assert_compare(a, !=, b)
#define assert_ptr_equal(a, b) mini_assert_compare((uintptr_t)(a), ==, (uintptr_t)(b))
#define assert_ptr_not_equal(a, b) mini_assert_compare((uintptr_t)(a), !=, (uintptr_t)(b))
#define assert_string_equal(a, b) mini_assert(!strcmp(a, b), "%s is \"%s\", not \"%s\"", #a, a, b)
#define assert_string_not_equal(a, b) mini_assert(strcmp(a, b), "%s is \"%s\"", #a, a)
#define assert_memory_equal(a, b, n)                                                               \
	mini_assert(!memcmp(a, b, n), "%s and %s differ in memory", #a, #b)
#define assert_memory_not_equal(a, b, n)                                                           \
	mini_assert(memcmp(a, b, n), "%s and %s are equal in memory", #a, #b)
#define assert_in_range(v, low, high)                                                              \
	do {                                                                                       \
		long long mini_value = (long long)(v); /* once: it may be a call */                \
                                                                                                   \
		mini_assert_compare(mini_value, >=, low);                                          \
		mini_assert_compare(mini_value, <=, high);                                         \
	} while (0)
#define assert_return_code(rc, error)                                                              \
	mini_assert((long long)(rc) >= 0, "%s is %lld: %s", #rc, (long long)(rc), strerror(error))

/* clang-format off */
#define cmocka_unit_test_prestate_setup_teardown(f, up, down, state) { #f, f, up, down, state }
#define cmocka_unit_test_setup_teardown(f, up, down) { #f, f, up, down, NULL }
#define cmocka_unit_test_setup(f, up) { #f, f, up, NULL, NULL }
#define cmocka_unit_test_teardown(f, down) { #f, f, NULL, down, NULL }
#define cmocka_unit_test_prestate(f, state) { #f, f, NULL, NULL, state }
#define cmocka_unit_test(f) { #f, f, NULL, NULL, NULL }
/* clang-format on */

/* Runs one of test and fixture; an assertion in either comes back to the setjmp. */
static inline enum mini_verdict mini_guard(CMUnitTestFunction test, CMFixtureFunction fixture,
					   void **state)
{
	int how = setjmp(mini_test_end);

	if (how)
		return (enum mini_verdict)how;
	if (test)
		test(state);
	if (fixture && fixture(state)) {
		print_error("a fixture failed\n");
		return MINI_FAILED;
	}
	return MINI_PASSED;
}

static inline enum mini_verdict mini_run_test(const struct CMUnitTest *test, void *shared)
{
	static const char *const words[] = {"       OK ", "  FAILED  ", "  SKIPPED "};
	void *state = test->initial_state ? test->initial_state : shared;
	enum mini_verdict how;

	printf("[ RUN      ] %s\n", test->name);
	fflush(stdout);
	how = mini_guard(NULL, test->setup_func, &state);
	if (how == MINI_PASSED)
		how = mini_guard(test->test_func, NULL, &state);
	if (mini_guard(NULL, test->teardown_func, &state) == MINI_FAILED)
		how = MINI_FAILED;
	printf("[%s] %s\n", words[how], test->name);
	fflush(stdout);
	return how;
}

/* Returns the number of failed tests, as cmocka does; if all were skipped, the status for that. */
static inline int mini_run_group(const char *name, const struct CMUnitTest *tests, size_t n,
				 CMFixtureFunction up, CMFixtureFunction down)
{
	size_t count[3] = {0, 0, 0};
	void *state = NULL;

	printf("[==========] %s: Running %zu test(s).\n", name, n);
	if (mini_guard(NULL, up, &state) == MINI_FAILED)
		return (int)n;
	for (size_t i = 0; i < n; i++)
		count[mini_run_test(&tests[i], state)]++;
	if (mini_guard(NULL, down, &state) == MINI_FAILED)
		count[MINI_FAILED]++;
	printf("[==========] %s: %zu passed, %zu failed, %zu skipped.\n", name, count[MINI_PASSED],
	       count[MINI_FAILED], count[MINI_SKIPPED]);
	return count[MINI_SKIPPED] == n ? MINI_ALL_SKIPPED : (int)count[MINI_FAILED];
}

#define cmocka_run_group_tests_name(name, tests, up, down)                                         \
	mini_run_group(name, tests, sizeof(tests) / sizeof((tests)[0]), up, down)
#define cmocka_run_group_tests(tests, up, down) cmocka_run_group_tests_name(#tests, tests, up, down)

#endif
