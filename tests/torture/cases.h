/* SPDX-License-Identifier: MIT */
/* What the files of torture_test share. */
#ifndef NEARCPU_TESTS_TORTURE_CASES_H
#define NEARCPU_TESTS_TORTURE_CASES_H

#include <nearcpu/torture.h>

#include "live.h"

/* Cross builds run their tests where nothing is live, and say so. */
static inline void need_live(void)
{
	if (!is_live())
		skip();
}

static inline bool has_two_cpus(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > 1;
}

/* near_torture, where it knows what this program knows. */
static inline int prove(const struct near_torture *t, struct near_torture_result *r)
{
	return near_torture(t, sizeof(*t), r, r ? sizeof(*r) : 0);
}

/* The highest value reported, by the sequence of near_seq(7): `report_peak` gets a pointer to
 * one. */
extern void *peak;
extern uint64_t highest, values[3]; /* 5, a lower and a higher one */
extern const struct near_torture peak_torture;
void peak_setup(void *arg);
void report_peak(void *value);
uint64_t peak_now(void);

/* right.c */
void sequence_of_near_seq(void **state);
void counter_of_the_library(void **state);
void stack_of_the_library(void **state);
void queue_of_the_library(void **state);

/* wrong.c */
void faults_are_named(void **state);
void registration_that_is_taken_away(void **state);
void operation_that_stays_in_sequences(void **state);
void sound_one_passes_the_same(void **state);

#endif
