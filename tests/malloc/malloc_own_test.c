/* SPDX-License-Identifier: MIT */
/* near_malloc besides the program's own malloc: what the functions return, two heaps that do not
 * know each other's blocks, threads, fork, statistics. */
#include "unit.h"

#include <nearcpu/malloc.h>

#define THREADS 4
#define ROUNDS 10000u

/* With malloc_check:1, as with AddressSanitizer, blocks wait before they are free. */
static bool are_checked(void)
{
	const char *conf = getenv("NEAR_CONF");

	return (UNIT_SANITIZED && !UNIT_THREAD_SANITIZER) || (conf && strstr(conf, "check:1"));
}

static uint64_t in_use(void)
{
	struct near_malloc_stats s;

	CHECK(near_malloc_stats(&s, sizeof(s)) == 0);
	return are_checked() || !unit_can_peek() ? 0 : s.in_use;
}

static void blocks_have_their_sizes(void **state)
{
	for (size_t n = 0; n < 3000000; n = n * 2 + 1) {
		char *p = near_malloc(n), *q;

		assert_non_null(p);
		assert_int_equal((uintptr_t)p % (n > 8 ? 16 : 8), 0);
		assert_true(near_usable_size(p) >= n);
		memset(p, 7, n);
		q = near_realloc(p, 2 * n + 1);
		assert_non_null(q);
		for (size_t i = 0; i < n; i += 1 + n / 100)
			assert_int_equal(q[i], 7);
		near_free(q);
	}
	assert_int_equal(near_usable_size(NULL), 0);
	near_free(NULL);
}

static void calloc_clears(void **state)
{
	for (size_t n = 1; n < 300000; n *= 3) {
		char *p = near_malloc(n);

		memset(p, 1, n);
		near_free(p);
		p = near_calloc(n, 1);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(p[i], 0);
		near_free(p);
	}
}

static void alignments_are_powers_of_two(void **state)
{
	static const size_t wrong[] = {0, 3, 24, SIZE_MAX, SIZE_MAX / 2};

	for (size_t align = 1; align <= 1 << 21; align *= 2)
		for (size_t n = 0; n < 5000; n = n * 4 + 1) {
			char *p = near_aligned_alloc(align, n);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % align, 0);
			memset(p, 1, n);
			near_free(p);
		}
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		errno = 0;
		assert_null(near_aligned_alloc(wrong[i], 8));
		assert_int_equal(errno, EINVAL);
	}
}

static volatile size_t huge = PTRDIFF_MAX, half = SIZE_MAX / 2;

#define REFUSED(call)                                                                              \
	do {                                                                                       \
		errno = 0;                                                                         \
		assert_null(call);                                                                 \
		assert_int_equal(errno, ENOMEM);                                                   \
	} while (0)

static void what_cannot_be_had_is_refused(void **state)
{
	char *p = near_malloc(100);

	memset(p, 3, 100);
	REFUSED(near_malloc(huge));
	REFUSED(near_calloc(half, 4));
	REFUSED(near_calloc(huge, 1));
	REFUSED(near_aligned_alloc(64, huge));
	REFUSED(near_realloc(p, huge));
	assert_int_equal(p[99], 3);
	assert_null(near_realloc(p, 0)); /* frees it */
}

/* Whether the statistics are those of near_malloc alone. */
static void the_heaps_are_apart(void **state)
{
	static char *theirs[1000], *ours[1000];
	void *one = near_malloc(1);
	uint64_t before = in_use();

	for (size_t i = 0; i < LENGTH(theirs); i++)
		assert_non_null(theirs[i] = malloc(1000));
	assert_int_equal(in_use(), before);
	for (size_t i = 0; i < LENGTH(ours); i++)
		assert_non_null(ours[i] = near_malloc(1000));
	assert_true(in_use() >= before + 1000 * 1000 || !before);
	for (size_t i = 0; i < LENGTH(ours); i++) {
		near_free(ours[i]);
		free(theirs[i]);
	}
	assert_int_equal(in_use(), before);
	near_free(one);
}

static void free_it(void *p)
{
	near_free(p);
}

static void resize_it(void *p)
{
	CHECK(near_realloc(p, 200));
}

static void measure_it(void *p)
{
	CHECK(near_usable_size(p));
}

static void stops(void (*run)(void *), void *p, const char *what)
{
	char text[200], line[100];
	int signal = 0;

	assert_int_equal(unit_capture(run, p, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGABRT);
	snprintf(line, sizeof(line), "nearcpu-malloc: %s of a pointer that is not from here: %p\n",
		 what, p);
	text[strcspn(text, "\n") + 1] = '\0'; /* qemu-user adds a line of its own */
	assert_string_equal(text, line);
}

static void a_block_of_another_heap_stops_the_program(void **state)
{
	static char data[64];
	char *theirs = malloc(100);

	for (int i = 0; i < 2; i++) { /* before the first block, and after it */
		stops(free_it, theirs, "free");
		stops(free_it, data, "free");
		stops(resize_it, theirs, "use");
		stops(measure_it, theirs, "use");
		near_free(near_malloc(1));
	}
	free(theirs);
}

/* ---- threads ---- */

/* Blocks on their way from thread to thread. */
static unsigned char *passed[64];

static void *pass_blocks(void *number)
{
	unsigned seed = *(unsigned *)number + 1;

	for (unsigned i = 0; i < unit_scale(ROUNDS); i++) {
		size_t n = 1 + (seed = seed * 1103515245 + 12345) / 65536 % 2000;
		unsigned char *p = near_malloc(n), *theirs = malloc(n);

		CHECK(p && theirs);
		memset(p, (int)n, n);
		memset(theirs, 0, n);
		p[0] = (unsigned char)n;
		p = __atomic_exchange_n(&passed[seed / 65536 % LENGTH(passed)], p,
					__ATOMIC_ACQ_REL);
		if (p)
			CHECK(near_usable_size(p) >= p[0]);
		near_free(p);
		free(theirs);
	}
	return NULL;
}

static void run_threads(void)
{
	unsigned numbers[THREADS] = {0, 1, 2, 3};

	unit_run(pass_blocks, numbers, sizeof(numbers[0]), THREADS);
	for (size_t i = 0; i < LENGTH(passed); i++) {
		near_free(passed[i]);
		passed[i] = NULL;
	}
}

static void threads_pass_blocks(void **state)
{
	uint64_t before = in_use();

	run_threads();
	assert_int_equal(in_use(), before);
}

static void in_child(void *block)
{
	near_free(block);
	if (!UNIT_THREAD_SANITIZER) /* it allows no threads there */
		run_threads();
	near_free(near_malloc(5000000));
}

static bool over;

static void *allocate_until(void *unused)
{
	while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
		void *p = near_malloc(100), *q = near_malloc(70000);

		near_free(p);
		near_free(q);
	}
	return unused;
}

static void fork_while_threads_allocate(void **state)
{
	pthread_t threads[2];

	over = false;
	for (size_t i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(allocate_until, NULL);
	for (unsigned i = 0; i < unit_scale(5); i++) {
		void *block = near_malloc(100);

		assert_int_equal(unit_wait(unit_fork(in_child, block), NULL), 0);
		near_free(block);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (size_t i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_block_of_another_heap_stops_the_program),
		cmocka_unit_test(blocks_have_their_sizes),
		cmocka_unit_test(calloc_clears),
		cmocka_unit_test(alignments_are_powers_of_two),
		cmocka_unit_test(what_cannot_be_had_is_refused),
		cmocka_unit_test(the_heaps_are_apart),
		cmocka_unit_test(threads_pass_blocks),
		cmocka_unit_test(fork_while_threads_allocate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
