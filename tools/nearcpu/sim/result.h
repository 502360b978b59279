/* SPDX-License-Identifier: MIT */
/* result: the figures of a run, and what prints them. */
#ifndef NEARCPU_SIM_RESULT_H
#define NEARCPU_SIM_RESULT_H

#include "sim/sim.h"

struct sim_result {
	struct sim_policy policy;
	const struct sim_load *load;
	bool prefer;
	struct sim_counts counts;
	double row[ROW_COUNT];         /* % of their sum */
	double atomics;                /* bit operations and exchanges, per switch */
	double kept, node_changes;     /* % */
	double ids_mean;               /* of a process */
	unsigned ids_most, id_highest; /* of a process */
	unsigned processes;            /* that are counted */
	uint64_t by_cpu, by_thread, by_id, by_node_id; /* copies, of all processes */
	double ms, wait_us;
	double work; /* per ms */
};

/* 0 or a negative errno. */
int sim_result(const struct sim_params *params, struct sim_result *out);

#define SIM_RUNS 5

/* The open question: figures with several seeds, without and with the preference. */
struct sim_answer {
	unsigned runs;
	struct sim_side {
		double by_node_id, by_id, node_changes, node_migrations, wait_us, work;
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

extern const char *const sim_row_names[ROW_COUNT], *const sim_row_keys[ROW_COUNT];

void sim_print(const struct sim_report *r);
struct sim_side sim_side_mean(const struct sim_answer *a, unsigned with);
/* The sentence that follows from the answers. */
void sim_conclude(const struct sim_report *r, char *out, size_t size);

#endif
