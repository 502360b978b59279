/* SPDX-License-Identifier: MIT */
/* compare: the measures of nearcpu run --compare, and their tables. */
#ifndef NEARCPU_RUN_COMPARE_H
#define NEARCPU_RUN_COMPARE_H

#include "common/spread.h"
#include "run/run.h"

enum run_side { RUN_SYSTEM, RUN_OURS, RUN_SIDES };
enum run_measure { RUN_CPU, RUN_WALL, RUN_MEMORY, RUN_FAULTS, RUN_MEASURES };

enum run_verdict { RUN_UNKNOWN, RUN_SAME, RUN_BETTER, RUN_WORSE };

struct run_comparison {
	const struct run_options *options;
	unsigned runs;                                      /* of each side */
	double values[RUN_SIDES][RUN_MEASURES][MAX_REPEAT]; /* seconds, bytes, pages */
	bool output_differs, output_varies; /* varies: from run to run of one side */
};

/* Ours over the system's, run by run; false: a divisor is 0. */
bool run_ratio(const struct run_comparison *c, enum run_measure m, struct spread *out);
enum run_verdict run_verdict(const struct run_comparison *c, enum run_measure m);

/* table.c */
void run_print(const struct run_comparison *c);
json_t *run_json(const struct run_comparison *c);

#endif
