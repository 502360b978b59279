/* SPDX-License-Identifier: MIT */
/* The clock of sequences, against near_clock(). Not exactly: CPUs' counters may differ. */
#include "unit.h"

#include <nearcpu/seq.h>

#include "kernel/kernel.h"

#if NEAR__HAS_SEQ

static struct near__area pretended = {.cpu_id = 1, .mm_cid = 0}; /* as in seq_test.c */

static int set_up(void **state)
{
	if (!near__thread_live()) {
		near__self.area = &pretended;
		near__self.index_mode = 0;
	}
	return 0;
}

static bool seq_clock(uint64_t *out)
{
	uint64_t at, time;

	return NEAR_SEQ(
		NEAR_INDEX(at)
		NEAR_CLOCK(time)
		NEAR_COMMIT8(time, out, 0),
		NEAR_OUT_CLOCK(time, at), NEAR_IN(out));
}

/* A sequence may be aborted at any time: it is tried again. */
static uint64_t read_clock(void)
{
	uint64_t time = 0;

	for (int tries = 0; !seq_clock(&time); tries++)
		CHECK(tries < 10000);
	return time;
}

static void it_is_that_of_c(void **state)
{
	uint64_t first = read_clock(), distance = near_clock() - first;

	CHECK(first != 0 && distance + (UINT64_C(1) << 40) < UINT64_C(1) << 41);
}

static void it_advances(void **state)
{
	uint64_t first = read_clock(), second = first;

	for (int i = 0; i < 1000 && second <= first; i++)
		second = read_clock();
	CHECK(second > first);
}

int main(void)
{
	return UNIT_GROUP(set_up, NULL, NULL, it_is_that_of_c, it_advances);
}

#else

int main(void)
{
	puts("this CPU has no sequences");
	return 77;
}

#endif
