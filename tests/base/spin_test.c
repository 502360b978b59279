/* SPDX-License-Identifier: MIT */
/* How long a pause takes, by a clock that the test moves. The program is linked with
 * --wrap=clock_gettime. */
#include "clock.h"
#include "unit.h"

#define near__pause_for pause_for_of_test /* the library has its own */
#include "base/spin.c"

/* How far the clock moves between two readings: with pauses in between, and with hardly any.
 * Volatile: the C library's clock_gettime is declared to access no variable of this file. */
static volatile int64_t with_pauses, without, shown;
static volatile unsigned readings;

static int64_t clock_of_test(clockid_t clock)
{
	(void)clock;
	errno = EPERM;
	shown += readings++ < 2 * SAMPLES ? with_pauses : without;
	return shown;
}

static uint32_t measure_with(int64_t with_ns, int64_t without_ns)
{
	readings = 0;
	with_pauses = with_ns;
	without = without_ns;
	return pause_measure();
}

static void a_pause_of_10_ns(void **state)
{
	assert_int_equal(measure_with(25 + 10 * SAMPLE_PAUSES, 25), 1024 / 10);
}

/* What it varies by is more than the pauses take. */
static void a_clock_that_is_slow_to_read(void **state)
{
	assert_int_equal(measure_with(2001, 2000), SAMPLE_PAUSES * 1024 / 250);
	assert_int_equal(measure_with(2000, 2300), SAMPLE_PAUSES * 1024 / 250);
}

/* Or that a filter of system calls forbids. */
static void a_clock_that_stands_still(void **state)
{
	errno = 0;
	assert_int_equal(measure_with(0, 0), 1);
	assert_int_equal(errno, 0);
}

UNIT_MAIN(a_pause_of_10_ns, a_clock_that_is_slow_to_read, a_clock_that_stands_still)
