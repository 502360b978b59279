/* SPDX-License-Identifier: MIT */
/* near_torture(3) as a case of a test. */
#ifndef NEARCPU_TESTS_TORTURED_H
#define NEARCPU_TESTS_TORTURED_H

#include <nearcpu/torture.h>

#include "unit.h"

/* Fails if something goes wrong, or if fewer than `sequences` sequences run. */
static inline void expect_tortured(const struct near_torture *t, unsigned sequences)
{
	struct near_torture_result r;

	assert_int_equal(near_torture(t, sizeof(*t), &r, sizeof(r)), 0);
	print_message("%u sequences, %lu runs, %lu aborts\n", r.sequences, r.runs, r.aborts);
	assert_true(r.sequences >= sequences);
}

#endif
