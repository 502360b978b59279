/* SPDX-License-Identifier: MIT */
/* The simulated world: CPUs, processes and tasks, and what is counted about their ids. */
#include "common/memory.h"
#include "sim/sim.h"

#include <sys/param.h>

#define PART 16        /* CPUs of a part of the data by CPU */
#define SHARE 32       /* CPUs that share a cache */
#define IDLE_NS 500000 /* the first guess of how long a CPU is idle */

uint64_t sim_random(struct sim *s)
{
	/* xorshift64*, Vigna 2016. */
	s->random ^= s->random >> 12;
	s->random ^= s->random << 25;
	s->random ^= s->random >> 27;
	return s->random * 0x2545f4914f6cdd1dull;
}

uint64_t sim_about(struct sim *s, uint64_t mean)
{
	return mean - mean / 4 + (sim_random(s) >> 32) * (mean / 2 + 1) / (1ull << 32) + 1;
}

/* ---- begin and end ---- */

static void task_init(struct sim_task *t, unsigned cpu, unsigned number)
{
	t->cpu = cpu;
	t->id = t->last_id = t->last_cid = SIM_NO_ID;
	t->queued.number = t->timer.number = number;
}

void sim_set_idle(struct sim *s, struct sim_cpu *cpu, bool idle)
{
	if (!bits_test(&s->allowed, cpu->number))
		return;
	if (idle)
		s->node_idle[cpu->node] += !bits_set(&s->idle, cpu->number);
	else
		s->node_idle[cpu->node] -= bits_clear(&s->idle, cpu->number);
}

static void cpu_init(struct sim *s, struct sim_cpu *cpu, unsigned number)
{
	struct sim_span *cache = &cpu->span[SPAN_CACHE], *on_node = &cpu->span[SPAN_NODE],
			*all = &cpu->span[SPAN_ALL];
	unsigned count = s->cpu_count, node;

	node = (unsigned)((uint64_t)number * s->params.nodes / count);
	cpu->number = number;
	cpu->node = node;
	all->to = count;
	on_node->from = sim_node_begin(s, node);
	on_node->to = sim_node_begin(s, node + 1);
	cache->from = number - (number - on_node->from) % SHARE;
	cache->to = MIN(cache->from + SHARE, on_node->to);
	cpu->curr = &cpu->idle;
	cpu->idle.state = SIM_RUNNING;
	cpu->idle_mean = IDLE_NS;
	task_init(&cpu->idle, number, number);
	task_init(&cpu->kthread, number, number);
	sim_set_idle(s, cpu, true);
}

void sim_begin(struct sim *s, const struct sim_params *params)
{
	*s = (struct sim){.params = *params,
			  .policy = params->policy,
			  .random = params->seed * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull,
			  .cpu_count = params->cpus,
			  .allowed = *params->cpuset,
			  .allowed_count = params->cpuset->count};
	if (!s->random)
		s->random = 1;
	events_init(&s->events, s->cpu_count);
	s->cpus = allocate_zeros(s->cpu_count, sizeof(*s->cpus));
	for (unsigned i = 0; i < s->cpu_count; i++)
		cpu_init(s, &s->cpus[i], i);
}

static void mm_free(struct sim *s, struct sim_mm *mm)
{
	if (mm->users && s->policy->mm_exit)
		s->policy->mm_exit(s, mm);
	for (unsigned i = 0; i < SIM_CPUS / PART && mm->pcpu; i++)
		free(mm->pcpu[i]);
	for (unsigned i = 0; i < SIM_NODES; i++)
		free(mm->node_ids[i]);
	free(mm->pcpu);
	free(mm->node_of);
	free(mm->state);
	free(mm);
}

void sim_end(struct sim *s)
{
	for (unsigned i = 0; i < s->cpu_count; i++) {
		heap_free(&s->cpus[i].queue);
		free(s->cpus[i].state);
	}
	for (unsigned i = 0; i < s->task_count; i++)
		free(s->tasks[i]);
	for (unsigned i = 0; i < s->mm_count; i++)
		mm_free(s, s->mms[i]);
	for (unsigned i = 0; i < s->channel_count; i++)
		free(s->channels[i]);
	free(s->cpus);
	free(s->tasks);
	free(s->mms);
	free(s->channels);
	heap_free(&s->timers);
	*s = (struct sim){0};
}

struct sim_mm *sim_mm_new(struct sim *s)
{
	struct sim_mm *mm = allocate_zeros(1, sizeof(*mm));

	APPEND(s->mms, s->mm_count, mm);
	mm->number = s->mm_count - 1;
	mm->counted = true;
	mm->ids_most = 1;
	mm->ids_since = s->now;
	mm->node_of = allocate_zeros(s->cpu_count, 1);
	memset(mm->node_of, 255, s->cpu_count);
	if (s->policy->mm_init)
		s->policy->mm_init(s, mm);
	return mm;
}

/* ---- ids ---- */

static void ids_changed(struct sim *s, struct sim_mm *mm)
{
	/* At least the constant of a process with one thread. */
	mm->ids_time += (mm->ids.count ? mm->ids.count : 1) * (s->now - mm->ids_since);
	mm->ids_since = s->now;
}

void sim_id_take(struct sim *s, struct sim_mm *mm, unsigned id)
{
	s->counts.atomics++;
	ids_changed(s, mm);
	if (id >= s->cpu_count || bits_set(&mm->ids, id))
		s->counts.violations++;
	if (mm->ids.count > mm->ids_most)
		mm->ids_most = mm->ids.count;
}

void sim_id_drop(struct sim *s, struct sim_mm *mm, unsigned id)
{
	s->counts.atomics++;
	ids_changed(s, mm);
	if (id >= s->cpu_count || !bits_clear(&mm->ids, id))
		s->counts.violations++;
}

struct sim_pcpu *sim_pcpu(struct sim_mm *mm, unsigned cpu)
{
	struct sim_pcpu **part;

	if (!mm->pcpu)
		mm->pcpu = allocate_zeros(SIM_CPUS / PART, sizeof(struct sim_pcpu *));
	part = &mm->pcpu[cpu / PART];
	if (!*part) {
		*part = allocate_zeros(PART, sizeof(**part));
		memset(*part, 255, PART * sizeof(**part));
	}
	return &(*part)[cpu % PART];
}

void sim_each_pcpu(struct sim *s, struct sim_mm *mm,
		   void (*call)(struct sim *s, struct sim_mm *mm, unsigned cpu, struct sim_pcpu *p,
				unsigned arg),
		   unsigned arg)
{
	for (unsigned i = 0; i < s->cpu_count && mm->pcpu; i++)
		if (mm->pcpu[i / PART])
			call(s, mm, i, &mm->pcpu[i / PART][i % PART], arg);
		else
			i += PART - 1;
}

/* ---- what is counted ---- */

/* A thread begins to run, or has got another id. */
static void count_id(struct sim *s, struct sim_task *t)
{
	struct sim_mm *mm = t->mm;
	unsigned id = (unsigned)t->id, node = sim_node(s, t->cpu);
	struct bits **used = &mm->node_ids[node];

	if (t->id < 0 || id >= s->cpu_count || bits_set(&mm->running, id)) {
		s->counts.violations++;
		return;
	}
	mm->node_running[node]++;
	if (mm->counted) {
		s->counts.uses += mm->node_of[id] != 255;
		s->counts.node_changes += mm->node_of[id] != 255 && mm->node_of[id] != node;
		s->counts.returns += t->last_id >= 0;
		s->counts.kept += t->last_id == t->id;
	}
	mm->node_of[id] = (uint8_t)node;
	if (t->last_id == t->id && t->last_cpu == t->cpu)
		return;
	bits_set(&mm->ids_used, id);
	bits_set(&mm->cpus_used, t->cpu);
	if (!*used)
		*used = allocate_zeros(1, sizeof(**used));
	bits_set(*used, id);
	t->last_cpu = t->cpu;
	t->last_id = t->id;
}

static void uncount_id(struct sim *s, struct sim_task *t, int id)
{
	if (id < 0 || (unsigned)id >= s->cpu_count || !bits_clear(&t->mm->running, (unsigned)id))
		s->counts.violations++;
	else
		t->mm->node_running[sim_node(s, t->cpu)]--;
}

void sim_switch(struct sim *s, struct sim_cpu *cpu, struct sim_task *next)
{
	struct sim_task *prev = cpu->curr;

	s->counts.switches++;
	if (sim_is_user(prev))
		uncount_id(s, prev, prev->id);
	prev->stopped_at = cpu->clock = s->now;
	cpu->curr = next;
	s->policy->switch_to(s, cpu, prev, next);
	if (!sim_is_user(next))
		return;
	s->counts.user_switches++;
	count_id(s, next);
}

struct sim_task *sim_fork(struct sim *s, struct sim_task *parent, struct sim_mm *mm)
{
	struct sim_task *t = allocate_zeros(1, sizeof(*t));
	int id = parent ? parent->id : SIM_NO_ID;

	APPEND(s->tasks, s->task_count, t);
	task_init(t, parent ? parent->cpu : 0, s->cpu_count + s->task_count);
	t->mm = mm;
	t->has_ids = true;
	t->mm_next = mm->tasks;
	if (mm->tasks)
		mm->tasks->mm_prev = t;
	mm->tasks = t;
	s->alive++;
	mm->users++;
	if (mm->users > mm->threads_most)
		mm->threads_most = mm->users;
	if (s->policy->fork)
		s->policy->fork(s, parent, t);
	if (parent && parent->id != id) {
		uncount_id(s, parent, id);
		count_id(s, parent);
	}
	return t;
}

void sim_exit(struct sim *s, struct sim_task *t)
{
	struct sim_mm *mm = t->mm;

	uncount_id(s, t, t->id);
	if (s->policy->exit)
		s->policy->exit(s, t);
	t->has_ids = false;
	t->id = SIM_NO_ID;
	t->state = SIM_ENDED;
	if (t->mm_prev)
		t->mm_prev->mm_next = t->mm_next;
	else
		mm->tasks = t->mm_next;
	if (t->mm_next)
		t->mm_next->mm_prev = t->mm_prev;
	s->alive--;
	if (--mm->users == 0) {
		if (s->policy->mm_exit)
			s->policy->mm_exit(s, mm);
		ids_changed(s, mm);
	}
}

void sim_migrate(struct sim *s, struct sim_task *t, unsigned to)
{
	s->counts.migrations++;
	s->counts.node_migrations += sim_node(s, t->cpu) != sim_node(s, to);
	if (s->policy->migrate && t->mm)
		s->policy->migrate(s, t, to);
	t->cpu = to;
}
