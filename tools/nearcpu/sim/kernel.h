/* SPDX-License-Identifier: MIT */
/* kernel: the running kernel's ids next to those of the policy that simulates it.
 *
 * A process with more threads than CPUs sends messages while its switches are traced. Its threads
 * record their ids around each call that blocks. The same switches, migrations, forks and ends
 * are then given to the policy, so that nothing but the policy differs. Of both, only the stretches
 * of time are counted in which a thread recorded an id.
 */
#ifndef NEARCPU_SIM_KERNEL_H
#define NEARCPU_SIM_KERNEL_H

#include "sim/sim.h"

/* ---- load: kernel_load.c ---- */

#define KERNEL_THREADS 130
#define KERNEL_SAMPLES 65536

/* What the threads record, in memory that both processes share. */
struct kernel_samples {
	unsigned threads;
	struct kernel_thread {
		int tid;
		unsigned count;
		struct kernel_sample {
			uint64_t time; /* CLOCK_MONOTONIC, ns */
			unsigned cid;
		} at[KERNEL_SAMPLES];
	} thread[KERNEL_THREADS];
};

/* 0 or a negative errno. To be freed by kernel_samples_free. */
int kernel_samples_new(struct kernel_samples **out, unsigned cpus);
void kernel_samples_free(struct kernel_samples *s);
/* Runs the load in a child. Its process id, or a negative errno. */
int kernel_load(struct kernel_samples *s, unsigned seconds);

/* ---- trace: tracefs.c ---- */

enum kernel_event { KERNEL_SWITCH, KERNEL_MIGRATE, KERNEL_FORK, KERNEL_EXIT, KERNEL_EVENTS };

struct kernel_record {
	uint64_t time;
	enum kernel_event event;
	unsigned cpu, order; /* order: among those of the CPU */
	/* prev and next; task, from and to; parent and child; task. */
	int value[3];
};

struct kernel_trace {
	char path[200]; /* of the instance; "": none */
	unsigned cpus;
	struct kernel_record *records;
	size_t count;
	unsigned ids[KERNEL_EVENTS], offsets[KERNEL_EVENTS][3];
};

/* Starts; stops, reads what was recorded, in the order of time, and leaves tracefs as it was;
 * frees. 0 or a negative errno; *why is the step that failed. */
int kernel_trace_start(struct kernel_trace *t, unsigned cpus, const char **why);
int kernel_trace_stop(struct kernel_trace *t, const char **why);
void kernel_trace_free(struct kernel_trace *t);

/* ---- comparison: replay.c, kernel.c ---- */

struct kernel_figures {
	double mean;    /* ids in use: that threads ran with, within WINDOW_NS */
	double most;    /* of them, in any window */
	double highest; /* id */
	double kept;    /* % of the switches to a thread: it has the id of before */
};

#define KERNEL_OTHERS 2

struct kernel_result {
	const char *policy;
	unsigned threads;
	size_t records, switches; /* of all tasks; to threads of the load */
	size_t compared;          /* of these, with an id recorded */
	double same;              /* % of these with the same id */
	uint64_t violations;
	struct kernel_figures kernel, simulated;
	struct {
		const char *policy;
		double same;
		struct kernel_figures figures;
	} others[KERNEL_OTHERS]; /* what the other kernels' policies make of the records */
};

/* 0; -EINVAL if the records do not have the process from its start. */
int kernel_replay(const struct kernel_trace *t, const struct kernel_samples *s, int pid,
		  const struct sim_policy *policy, struct kernel_result *out);
/* All of it. 0; -ENOTSUP: this kernel or user cannot; a negative errno. *why is what failed. */
int kernel_compare(unsigned seconds, struct kernel_result *out, const char **why);

#define WINDOW_NS 10000000ull

/* kernel_compare.c: for the command. An exit status. */
int sim_compare(unsigned seconds, const char *json);

#endif
