/* SPDX-License-Identifier: MIT */
/* Every symbol of libatomic against plain copies: each size on each offset within two lines, all
 * orders, and what programs pass that they need not. */
#include <fenv.h>

#include "arena.h"
#include "plain.h"
#include "wide_modes.h"

/* The distance of offsets: 1, or where all would take too long, of_slow_ones. */
static size_t step(size_t of_slow_ones)
{
	return unit_emulated() || UNIT_SANITIZED || getenv("NEAR_TEST_SLOW") ? of_slow_ones : 1;
}

/* ---- of any size ---- */

static void test_each_size_at_each_offset(void **state)
{
	for (size_t n = 0; n <= 80; n++)
		generic_grid(n, UNIT_THREAD_SANITIZER ? 3 : 1);
}

static void test_larger_sizes(void **state)
{
	static const size_t sizes[] = {100, 127, 128, 129, 255, 256, 1000, 4095, 4096};

	for (size_t i = 0; i < LENGTH(sizes); i++)
		generic_grid(sizes[i], step(7));
}

/* A lock stands for every 16 KiB. */
static void test_sizes_beyond_the_table(void **state)
{
	static const size_t sizes[] = {16320, 16383, 16384, 16385, 16448, 20000, 65536};

	for (size_t i = 0; i < LENGTH(sizes); i++)
		generic_grid(sizes[i], step(31));
	generic_grid(1 << 20, 63);
}

static void test_orders(void **state)
{
	static const size_t sizes[] = {0, 1, 2, 3, 4, 7, 8, 12, 16, 24, 64, 65, 128};

	for (size_t i = 0; i < LENGTH(sizes); i++)
		for (size_t at = 0; at < ARENA_LINE; at += 21)
			generic_orders(sizes[i], at);
}

static void test_nothing_at_no_address(void **state)
{
	for (int order = 0; order < CALL_ORDERS; order++) {
		call_load(0, NULL, NULL, order);
		call_store(0, NULL, NULL, order);
		call_exchange(0, NULL, NULL, NULL, order);
		assert_true(call_compare_exchange(0, NULL, NULL, NULL, order, __ATOMIC_RELAXED));
	}
	assert_true(call_is_lock_free(0, NULL));
	assert_true(call_is_lock_free(0, (void *)1));
}

/* True as long as the object lies in one aligned word of 8 bytes. */
static void test_is_lock_free(void **state)
{
	static const size_t large[] = {17, 24, 32, 64, 100, 4096, 65536, SIZE_MAX / 2, SIZE_MAX};

	for (size_t n = 0; n <= 16; n++)
		for (size_t at = 4096; at < 4096 + ARENA_OFFSETS; at++) {
			bool is = n == 0 || (n <= 8 && at % 8 + n <= 8);

			if (call_is_lock_free(n, (void *)at) != is)
				fail_msg("is_lock_free(%zu, %#zx)", n, at);
		}
	for (size_t n = 1; n <= 16; n++)
		assert_int_equal(call_is_lock_free(n, NULL), n <= 8);
	for (size_t i = 0; i < LENGTH(large); i++) {
		assert_false(call_is_lock_free(large[i], NULL));
		assert_false(call_is_lock_free(large[i], (void *)4096));
		assert_false(call_is_lock_free(large[i], (void *)4103));
	}
}

/* ---- of one size ---- */

static void test_sized_moves(void **state)
{
	for (size_t i = 0; i < CALL_SIZES; i++)
		sized_moves(&sized_calls[i]);
}

static void test_sized_ops(void **state)
{
	for (size_t i = 0; i < CALL_SIZES; i++)
		sized_ops(&sized_calls[i]);
}

/* ---- each implementation of 16 bytes ---- */

static void all_of_16(void **state)
{
	for (size_t n = 0; n <= 32; n++)
		generic_grid(n, 1);
	generic_orders(12, 2);
	generic_orders(16, 16);
	sized_moves(&sized_calls[CALL_SIZES - 1]);
	sized_ops(&sized_calls[CALL_SIZES - 1]);
	for (size_t n = 9; n <= 16; n++)
		assert_false(call_is_lock_free(n, (void *)4096));
}

static int run_all_of_16(void)
{
	return UNIT_TESTS(all_of_16);
}

UNIT_TEST(test_each_implementation_of_16_bytes, wide_each(run_all_of_16))

/* NEAR_TEST_WIDE is the implementation of the CPU that the test emulates. */
static void test_the_implementation_of_this_cpu(void **state)
{
	const char *known = getenv("NEAR_TEST_WIDE");

	assert_in_range(near__wide_best(), 0, NEAR__WIDE_MODES - 1);
	assert_int_equal(wide_mode(), near__wide_best());
	if (known)
		assert_int_equal(near__wide_best(), atoi(known));
}

/* ---- the rest ---- */

static void test_flags(void **state)
{
	unsigned char bytes[3] = {0x77, 0, 0x77};
	void *flag = &bytes[1];

	assert_false(call_flag_set(flag));
	assert_int_equal(bytes[1], 1);
	assert_true(call_flag_set(flag));
	call_flag_clear(flag);
	assert_int_equal(bytes[1], 0);
	for (int order = 0; order < CALL_ORDERS; order++) {
		assert_false(call_flag_set_in(flag, order));
		assert_int_equal(bytes[1], 1);
		assert_true(call_flag_set_in(flag, order));
		assert_true(call_flag_set(flag));
		call_flag_clear_in(flag, order);
		assert_int_equal(bytes[1], 0);
	}
	assert_int_equal(bytes[0], 0x77);
	assert_int_equal(bytes[2], 0x77);
}

/* What they order, other tests see. */
static void test_fences_return(void **state)
{
	for (int order = 0; order < CALL_ORDERS; order++) {
		call_thread_fence(order);
		call_signal_fence(order);
	}
}

/* Each subset of the exceptions is raised, and no other. */
static void test_feraiseexcept(void **state)
{
#ifdef FE_ALL_EXCEPT
	feraiseexcept(FE_ALL_EXCEPT);
	if (fetestexcept(FE_ALL_EXCEPT) != FE_ALL_EXCEPT) {
		print_message("nothing raises exceptions on this machine\n");
		skip();
	}
	for (int e = 0; e <= FE_ALL_EXCEPT; e++) {
		if (e & ~FE_ALL_EXCEPT)
			continue;
		feclearexcept(FE_ALL_EXCEPT);
		call_feraiseexcept(e);
#ifdef FE_INEXACT
		/* What overflows and underflows may be inexact too. */
		if (!(e & FE_INEXACT) && fetestexcept(FE_ALL_EXCEPT) == (e | FE_INEXACT))
			feclearexcept(FE_INEXACT);
#endif
		assert_int_equal(fetestexcept(FE_ALL_EXCEPT), e);
	}
	/* Those raised before stay. */
	call_feraiseexcept(0);
	assert_int_equal(fetestexcept(FE_ALL_EXCEPT), FE_ALL_EXCEPT);
	feclearexcept(FE_ALL_EXCEPT);
#endif
}

static void test_errno_is_left_alone(void **state)
{
	struct {
		unsigned char bytes[24];
	} a = {{1}}, b = {{2}}, c = {{3}};

	errno = UNIT_ERRNO;
	call_load(24, &a, &b, __ATOMIC_SEQ_CST);
	call_exchange(24, &a, &b, &c, __ATOMIC_SEQ_CST);
	call_compare_exchange(24, &a, &b, &c, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	call_store(24, &a, &b, __ATOMIC_SEQ_CST);
	call_feraiseexcept(0);
	assert_int_equal(errno, UNIT_ERRNO);
}

UNIT_MAIN(test_each_size_at_each_offset, test_larger_sizes, test_sizes_beyond_the_table,
	  test_orders, test_nothing_at_no_address, test_is_lock_free, test_sized_moves,
	  test_sized_ops, test_the_implementation_of_this_cpu, test_each_implementation_of_16_bytes,
	  test_flags, test_fences_return, test_feraiseexcept, test_errno_is_left_alone)
