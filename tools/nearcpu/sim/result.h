/* SPDX-License-Identifier: MIT */
/* result: the figures of a run, and what prints them. */
#ifndef NEARCPU_SIM_RESULT_H
#define NEARCPU_SIM_RESULT_H

#include "sim/sim.h"

#include <stdio.h>

/* Data has a copy for each of these. */
enum sim_copy { COPY_CPU, COPY_THREAD, COPY_ID, COPY_NODE_ID, COPY_KINDS };

struct sim_result {
	struct sim_policy policy;
	const struct sim_load *load;
	bool prefer;
	struct sim_counts counts;
	double row[ROW_COUNT];                 /* % of their sum */
	double atomics;                        /* bit operations and exchanges, per switch */
	double kept, node_changes;             /* % */
	double ids_mean, ids_most, id_highest; /* of a process */
	unsigned processes;                    /* that are counted */
	double copies[COPY_KINDS];             /* of all processes */
	double ms, wait_us;
	double work; /* per ms */
};

void sim_result(const struct sim_params *params, struct sim_result *out);

#define SIM_RUNS 5

enum sim_figure {
	SIDE_NODE_ID, /* copies */
	SIDE_ID,
	SIDE_NODE_CHANGES,
	SIDE_NODE_MIGRATIONS,
	SIDE_WAIT,
	SIDE_WORK,
	SIDE_FIGURES
};

/* The open question: figures with several seeds, without and with the preference. */
struct sim_answer {
	unsigned runs;
	struct sim_side {
		double figure[SIDE_FIGURES];
	} sides[SIM_RUNS][2];
};

#define SIM_MOST_POLICIES 16
#define SIM_MOST_LOADS 8

struct sim_report {
	struct sim_params params;
	struct sim_policy policies[SIM_MOST_POLICIES];
	const struct sim_load *loads[SIM_MOST_LOADS];
	unsigned policy_count, load_count, runs; /* runs: for the question; 0: without it */
	uint64_t size;                           /* bytes of a copy */
	struct sim_result results[SIM_MOST_LOADS][SIM_MOST_POLICIES];
	struct sim_answer answers[SIM_MOST_LOADS][SIM_MOST_POLICIES];
};

extern const struct sim_row_name {
	const char *label, *key;
} sim_rows[ROW_COUNT];

void sim_print(const struct sim_report *r);
void sim_plot(const struct sim_report *r, FILE *f); /* as SVG */
struct json_t *sim_json(const struct sim_report *r);
struct sim_side sim_side_mean(const struct sim_answer *a, unsigned with);
/* The sentence that follows from the answers. */
void sim_conclude(const struct sim_report *r, char *out, size_t size);

#endif
