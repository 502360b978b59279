/* SPDX-License-Identifier: MIT */
/* sim: a scheduler of simulated CPUs, tasks and processes, and the interface of an id policy.
 *
 * world.c has the objects and what is counted; sched.c runs tasks, with its choice of CPUs in
 * place.c; loads.c has what tasks do. Equal parameters and seed give equal results.
 */
#ifndef NEARCPU_SIM_H
#define NEARCPU_SIM_H

#include "sim/bits.h"
#include "sim/events.h"
#include "sim/heap.h"

#include <nearcpu/idspace.h>
#include <stddef.h>

#define SIM_NODES 64
#define SIM_NO_ID (-1)

/* The rows of the source's profile, all of whose percentages have the same base: their sum. */
enum sim_row {
	ROW_SINGLE,   /* the id of a process with one thread */
	ROW_TRANSFER, /* handed over by the thread before, of the same process */
	ROW_HIT,      /* the id that the CPU, or the thread, has kept */
	ROW_EVICT,    /* given back, for the place in the cache */
	ROW_DISCARD,  /* given back, as it was of another node, old or too high */
	ROW_ALLOCATE,
	ROW_EXIT,    /* given back by a thread that ends */
	ROW_MIGRATE, /* given back as its thread moved */
	ROW_RELEASE, /* given back when its thread stopped running: without the optimizations */
	ROW_COUNT,
};

struct sim_task;
struct sim_mm;
struct sim_cpu;
struct sim;

/* An id policy. Each call is under the run queue lock in a kernel. A policy sets `id` of tasks that
 * run, and takes and drops ids by sim_id_take and sim_id_drop, which count; what happened is
 * counted by sim_row. What is NULL does nothing.
 *
 * A policy that calls an allocator of its own, with the CPU as its slot, has the space in mm->state
 * (made in mm_init), acquires in switch_to for `next`, releases or hands over for `prev`, and
 * reports what it took and dropped by the same calls. policies.c lists it. */
struct sim_policy {
	const char *name;
	const char *about;
	unsigned flags; /* its own */
	/* A process begins. `state` is for the policy: freed at the end. */
	void (*mm_init)(struct sim *s, struct sim_mm *mm);
	/* The last thread has gone, or the simulation ends. */
	void (*mm_exit)(struct sim *s, struct sim_mm *mm);
	/* `child` was made, and is counted in its process's users. `parent` is the thread that
	 * runs and made it, or NULL: a process's first. */
	void (*fork)(struct sim *s, struct sim_task *parent, struct sim_task *child);
	/* `t`, which runs, ends; still counted in users. */
	void (*exit)(struct sim *s, struct sim_task *t);
	/* `t`, which does not run, gets another CPU; t->cpu is the one before. */
	void (*migrate)(struct sim *s, struct sim_task *t, unsigned to);
	/* cpu->curr is `next` already. Either may have no process, or have ended. */
	void (*switch_to)(struct sim *s, struct sim_cpu *cpu, struct sim_task *prev,
			  struct sim_task *next);
	void (*tick)(struct sim *s, struct sim_cpu *cpu);
};

enum sim_state { SIM_BLOCKED, SIM_QUEUED, SIM_RUNNING, SIM_ENDED };

struct sim_channel;

/* What each event reads comes first. */
struct sim_task {
	/* Of the load. */
	bool (*step)(struct sim *s, struct sim_task *t); /* false: it blocks */
	uint64_t left;                                   /* to run until its next step, ns */
	struct sim_channel *channel;
	unsigned turn;
	/* Of the scheduler, in ns. */
	enum sim_state state;
	uint64_t vruntime, stopped_at, queued_at;
	struct sim_mm *mm; /* NULL: an idle task or a kernel thread */
	unsigned cpu;      /* where it runs, or ran last */
	int id;            /* while it runs in user space, else SIM_NO_ID */
	bool has_ids;      /* until it ends */
	/* What is counted: its id and CPU of last time. */
	int last_id;
	unsigned last_cpu;
	/* Of the policy. */
	bool owns;
	unsigned cid;
	int last_cid;
	struct near_worker worker;
	struct sim_task *mm_next, *mm_prev;
	struct heap_node queued, timer;
	bool (*go)(struct sim *s, struct sim_task *t); /* its step once all tasks are made */
	struct sim_task *partner, *next_waiter;
	unsigned made;
};

struct sim_mm {
	unsigned number, users;
	struct sim_task *tasks;
	struct bits ids; /* taken: in use, or kept for a CPU or a thread */
	void *state;     /* of the policy */
	/* Of policies with data by CPU, in parts of 16 CPUs: see sim_pcpu. */
	struct sim_pcpu **pcpu;
	/* What is counted. */
	bool counted;
	struct bits running, ids_used, cpus_used;
	struct bits *node_ids[SIM_NODES]; /* ids that were used on the node */
	uint8_t *node_of;                 /* by id: the node of its last use */
	unsigned node_running[SIM_NODES];
	unsigned threads_most, ids_most;
	uint64_t ids_time, ids_since; /* ids taken, times ns */
};

/* What a process has for a CPU. */
struct sim_pcpu {
	unsigned cid, recent;
	uint64_t time;
};

/* CPUs near a CPU: those that share a cache (at most 32 of the node), those of the node, all. */
enum { SPAN_CACHE, SPAN_NODE, SPAN_ALL, SPANS };

struct sim_cpu {
	struct sim_task *curr;
	uint64_t since, next_tick;
	unsigned number, node;
	bool resched;
	struct heap queue;
	uint64_t clock; /* the last switch: what others see of the time of an idle CPU */
	uint64_t slice_from, min_vruntime, idle_from, idle_mean;
	void *state; /* of the policy; freed at the end */
	struct sim_span {
		unsigned from, to;
	} span[SPANS];
	struct sim_task idle, kthread;
};

struct sim_counts {
	uint64_t switches, user_switches, rows[ROW_COUNT], atomics;
	uint64_t returns, kept;      /* switches to a thread that had an id; it was the same */
	uint64_t uses, node_changes; /* switches to an id that was used before; on another node */
	uint64_t migrations, node_migrations, waits, wait_ns;
	uint64_t work;       /* messages, or requests */
	uint64_t violations; /* an id twice at one moment, or none below the limit */
};

struct sim_params {
	const struct sim_policy *policy;
	const struct sim_load *load;
	unsigned cpus, nodes, groups, threads;
	const struct bits *cpuset; /* never empty */
	uint64_t switches, seed;
	bool prefer; /* a migration prefers nodes that have ids of the process */
};

struct sim {
	struct sim_params params;
	const struct sim_policy *policy;
	bool ending;
	uint64_t now, random;
	unsigned cpu_count, allowed_count;
	struct sim_cpu *cpus;
	struct bits allowed, idle, loaded; /* CPUs: of the cpuset; idle; with tasks that wait */
	unsigned node_idle[SIM_NODES], last_new[SIM_NODES];
	struct events events;
	struct heap timers;
	struct sim_task **tasks;
	unsigned task_count, alive;
	struct sim_mm **mms;
	unsigned mm_count;
	struct sim_channel **channels;
	unsigned channel_count;
	struct sim_counts counts;
};

/* world.c */

void sim_set_idle(struct sim *s, struct sim_cpu *cpu, bool idle);
/* A world without processes. */
void sim_begin(struct sim *s, const struct sim_params *params);
void sim_end(struct sim *s);
struct sim_mm *sim_mm_new(struct sim *s);
/* A blocked task in `mm`. `parent` as of the policy. */
struct sim_task *sim_fork(struct sim *s, struct sim_task *parent, struct sim_mm *mm);
/* The task, which runs, will not return to user space. */
void sim_exit(struct sim *s, struct sim_task *t);
void sim_migrate(struct sim *s, struct sim_task *t, unsigned to);
/* A context switch, with what is counted about it. */
void sim_switch(struct sim *s, struct sim_cpu *cpu, struct sim_task *next);
uint64_t sim_random(struct sim *s);
/* Around `mean`, 3/4 to 5/4 of it. */
uint64_t sim_about(struct sim *s, uint64_t mean);

static inline unsigned sim_node(const struct sim *s, unsigned cpu)
{
	return s->cpus[cpu].node;
}

static inline unsigned sim_node_begin(const struct sim *s, unsigned node)
{
	return (unsigned)(((uint64_t)node * s->cpu_count + s->params.nodes - 1) / s->params.nodes);
}

static inline struct sim_task *sim_queued(const struct heap_entry *entry)
{
	return (struct sim_task *)((char *)entry->node - offsetof(struct sim_task, queued));
}

static inline bool sim_is_user(const struct sim_task *t)
{
	return t->mm && t->has_ids;
}

/* For policies. */
static inline void sim_row(struct sim *s, enum sim_row row)
{
	s->counts.rows[row]++;
}
void sim_id_take(struct sim *s, struct sim_mm *mm, unsigned id);
void sim_id_drop(struct sim *s, struct sim_mm *mm, unsigned id);
struct sim_pcpu *sim_pcpu(struct sim_mm *mm, unsigned cpu);
/* For each CPU that sim_pcpu was called for. */
void sim_each_pcpu(struct sim *s, struct sim_mm *mm,
		   void (*call)(struct sim *s, struct sim_mm *mm, unsigned cpu, struct sim_pcpu *p,
				unsigned arg),
		   unsigned arg);

/* sched.c */

/* Runs until the load has ended. */
void sim_run(struct sim *s);
void sim_wake(struct sim *s, struct sim_task *t, const struct sim_task *waker);
void sim_sleep(struct sim *s, struct sim_task *t, uint64_t ns);
void sim_start(struct sim *s, struct sim_task *t);
void sim_enqueue(struct sim *s, struct sim_task *t, unsigned cpu, bool wakes);
void sim_dequeue(struct sim *s, struct sim_task *t);

/* place.c: which CPU a task gets, and which task a CPU. */
unsigned sim_place_new(struct sim *s);
unsigned sim_place_woken(struct sim *s, const struct sim_task *t, const struct sim_task *waker);
/* The CPU has nothing to run: moves a task to it, if there is one. */
void sim_pull_idle(struct sim *s, struct sim_cpu *cpu);
void sim_balance(struct sim *s, struct sim_cpu *cpu);
/* A task goes to an idle CPU, which is returned and has to be scheduled; or NULL. */
struct sim_cpu *sim_push_idle(struct sim *s, struct sim_cpu *cpu);

/* loads.c */

struct sim_load {
	const char *name, *about;
	bool affine; /* a wake-up is of one partner */
	void (*begin)(struct sim *s);
	/* Of processes with threads: what makes the `i`th thread; how many processes; the number
	 * of groups or threads is divided by `share`, for each process. */
	void (*make)(struct sim *s, struct sim_task *t, unsigned i, struct sim_channel **last);
	unsigned processes, share;
};
extern const struct sim_load sim_loads[];

/* policies.c: the `i`th policy; false behind the last. Or that of a name. */
bool sim_policy(unsigned i, struct sim_policy *out);
bool sim_find_policy(const char *name, struct sim_policy *out);

enum { SIM_NO_SINGLE = 1, SIM_NO_TRANSFER = 2, SIM_NO_CACHE = 4, SIM_LOCAL = 8 };
extern const struct sim_policy sim_policy_2022, sim_policy_64, sim_policy_619, sim_policy_idspace;

#endif
