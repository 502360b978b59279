/* SPDX-License-Identifier: MIT */
/* Gives the kernel's records to a policy, and compares its ids with those of the threads. */
#include "common/memory.h"
#include "sim/kernel.h"

#include <errno.h>
#include <sched.h>

#define TICK_NS 4000000 /* HZ=250; the scan of 6.4 is every 25th */

/* A stretch of time that a thread ran without a switch. */
struct stretch {
	uint64_t from, to; /* to: 0 while it goes on */
	unsigned task;
	int ids[2]; /* simulated, kernel's; SIM_NO_ID: not recorded */
};

struct replay {
	struct sim sim;
	struct sim_mm *mm;
	struct replay_task {
		int tid;
		struct sim_task *task;
		bool ran;
	} tasks[2 * KERNEL_THREADS];
	unsigned task_count;
	struct stretch *stretches;
	size_t count;
	size_t open[SIM_CPUS]; /* of a CPU: index + 1 of the stretch that goes on */
};

/* ---- records ---- */

static struct replay_task *replay_find(struct replay *r, int tid)
{
	for (unsigned i = 0; i < r->task_count; i++)
		if (r->tasks[i].tid == tid && r->tasks[i].task->state != SIM_ENDED)
			return &r->tasks[i];
	return NULL;
}

static void add_task(struct replay *r, struct sim_task *parent, int tid, unsigned cpu)
{
	struct sim *s = &r->sim;
	struct sim_task *t;

	if (r->task_count == sizeof(r->tasks) / sizeof(r->tasks[0]))
		return;
	t = sim_fork(s, parent, r->mm);
	t->cpu = cpu;
	r->tasks[r->task_count++] = (struct replay_task){.tid = tid, .task = t};
}

static void replay_forked(struct replay *r, const struct kernel_record *k, int pid)
{
	struct replay_task *parent = replay_find(r, k->value[0]);

	if (!r->mm && k->value[1] == pid) {
		r->mm = sim_mm_new(&r->sim);
		add_task(r, NULL, pid, k->cpu);
	} else if (parent) {
		add_task(r, parent->task, k->value[1], k->cpu);
	}
}

static void begin_stretch(struct replay *r, unsigned cpu, unsigned task, int id)
{
	APPEND(r->stretches, r->count,
	       (struct stretch){.from = r->sim.now, .task = task, .ids = {id, SIM_NO_ID}});
	r->open[cpu] = r->count;
}

static void switched(struct replay *r, const struct kernel_record *k)
{
	struct sim *s = &r->sim;
	struct sim_cpu *cpu = &s->cpus[k->cpu];
	struct replay_task *t = replay_find(r, k->value[1]);
	struct sim_task *next = t ? t->task : k->value[1] ? &cpu->kthread : &cpu->idle;

	if (r->open[k->cpu])
		r->stretches[r->open[k->cpu] - 1].to = s->now;
	r->open[k->cpu] = 0;
	if (next == cpu->curr)
		return;
	if (t && !t->ran)
		next->cpu = k->cpu;
	else if (next->cpu != k->cpu)
		sim_migrate(s, next, k->cpu);
	sim_switch(s, cpu, next);
	if (t && next->has_ids) {
		t->ran = true;
		begin_stretch(r, k->cpu, (unsigned)(t - r->tasks), next->id);
	}
}

/* What the policy does at the ticks until then, on the CPUs that run threads. */
static void tick_until(struct replay *r, uint64_t time)
{
	struct sim *s = &r->sim;

	if (!s->policy->tick || !r->mm)
		return;
	for (s->now = (s->now / TICK_NS + 1) * TICK_NS; s->now < time; s->now += TICK_NS)
		for (unsigned i = 0; i < s->cpu_count; i++)
			if (sim_is_user(s->cpus[i].curr))
				s->policy->tick(s, &s->cpus[i]);
}

static void replay_take(struct replay *r, const struct kernel_record *k, int pid)
{
	struct sim *s = &r->sim;
	struct replay_task *t = replay_find(r, k->value[0]);

	tick_until(r, k->time);
	s->now = k->time;
	if (k->event == KERNEL_FORK)
		replay_forked(r, k, pid);
	else if (k->event == KERNEL_SWITCH)
		switched(r, k);
	else if (k->event == KERNEL_MIGRATE && t && t->ran && k->value[2] >= 0 &&
		 (unsigned)k->value[2] < s->cpu_count)
		sim_migrate(s, t->task, (unsigned)k->value[2]);
	else if (k->event == KERNEL_EXIT && t && t->task == s->cpus[k->cpu].curr)
		sim_exit(s, t->task);
}

/* ---- the kernel's ids ---- */

static int by_task(const void *a, const void *b)
{
	const struct stretch *left = a, *right = b;

	if (left->task != right->task)
		return left->task < right->task ? -1 : 1;
	return left->from < right->from ? -1 : left->from > right->from;
}

static int by_start(const void *a, const void *b)
{
	const struct stretch *left = a, *right = b;

	return left->from < right->from ? -1 : left->from > right->from;
}

/* The stretches are in the order of tasks and times, the samples in that of times. */
static void match(struct replay *r, const struct kernel_samples *samples)
{
	size_t at = 0;

	for (unsigned task = 0; task < r->task_count; task++) {
		const struct kernel_thread *t = samples->thread;
		unsigned n = 0;

		while (t < samples->thread + samples->threads && t->tid != r->tasks[task].tid)
			t++;
		for (; at < r->count && r->stretches[at].task == task; at++) {
			struct stretch *s = &r->stretches[at];

			if (t == samples->thread + samples->threads)
				continue;
			while (n < t->count && t->at[n].time < s->from)
				n++;
			if (n < t->count && t->at[n].time < s->to)
				s->ids[1] = (int)t->at[n].cid;
		}
	}
}

/* ---- figures ---- */

/* The stretches are in the order of their begin. */
static void count_windows(const struct replay *r, int which, struct kernel_figures *f)
{
	struct bits seen = {0};
	uint64_t end = 0;
	unsigned windows = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct stretch *s = &r->stretches[i];

		if (s->ids[1] < 0 || s->ids[which] < 0 || s->ids[which] >= SIM_CPUS)
			continue;
		if (s->from >= end) {
			f->mean += seen.count;
			windows += seen.count != 0;
			seen = (struct bits){0};
			end = s->from + WINDOW_NS;
		}
		bits_set(&seen, (unsigned)s->ids[which]);
		if (seen.count > f->most)
			f->most = seen.count;
		if (s->ids[which] > f->highest)
			f->highest = s->ids[which];
	}
	windows += seen.count != 0;
	f->mean = windows ? (f->mean + seen.count) / windows : 0;
}

static void count_kept(const struct replay *r, int which, struct kernel_figures *f)
{
	int last[2 * KERNEL_THREADS];
	size_t kept = 0, returns = 0;

	memset(last, 255, sizeof(last));
	for (size_t i = 0; i < r->count; i++) {
		const struct stretch *s = &r->stretches[i];

		if (s->ids[1] < 0)
			continue;
		returns += last[s->task] >= 0;
		kept += last[s->task] == s->ids[which];
		last[s->task] = s->ids[which];
	}
	f->kept = returns ? 100.0 * (double)kept / (double)returns : 0;
}

static void replay_fill(struct replay *r, struct kernel_result *out)
{
	size_t same = 0;

	out->compared = 0;
	out->kernel = out->simulated = (struct kernel_figures){.most = 0};
	for (size_t i = 0; i < r->count; i++) {
		out->compared += r->stretches[i].ids[1] >= 0;
		same += r->stretches[i].ids[1] >= 0 &&
			r->stretches[i].ids[0] == r->stretches[i].ids[1];
	}
	out->switches = r->count;
	out->same = out->compared ? 100.0 * (double)same / (double)out->compared : 0;
	out->violations = r->sim.counts.violations;
	count_windows(r, 0, &out->simulated);
	count_windows(r, 1, &out->kernel);
	count_kept(r, 0, &out->simulated);
	count_kept(r, 1, &out->kernel);
}

static void replay_begin(struct replay *r, const struct sim_policy *policy, unsigned cpus)
{
	struct bits set = {0};
	struct sim_params params = {
		.policy = policy, .cpus = cpus, .nodes = 1, .cpuset = &set, .seed = 1};
	cpu_set_t allowed;

	/* A set of more CPUs than cpu_set_t has is taken as all. */
	bool all = sched_getaffinity(0, sizeof(allowed), &allowed);

	for (unsigned i = 0; i < cpus; i++)
		if (all || (i < CPU_SETSIZE && CPU_ISSET(i, &allowed)))
			bits_set(&set, i);
	sim_begin(&r->sim, &params);
}

int kernel_replay(const struct kernel_trace *t, const struct kernel_samples *s, int pid,
		  const struct sim_policy *policy, struct kernel_result *out)
{
	struct replay *r = allocate_zeros(1, sizeof(*r));
	int err = 0;

	replay_begin(r, policy, t->cpus);
	out->policy = policy->name;
	out->threads = s->threads;
	out->records = t->count;
	for (size_t i = 0; i < t->count; i++)
		replay_take(r, &t->records[i], pid);
	if (r->count) {
		qsort(r->stretches, r->count, sizeof(*r->stretches), by_task);
		match(r, s);
		qsort(r->stretches, r->count, sizeof(*r->stretches), by_start);
		replay_fill(r, out);
	} else {
		err = -EINVAL;
	}
	sim_end(&r->sim);
	free(r->stretches);
	free(r);
	return err;
}
