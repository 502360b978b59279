/* SPDX-License-Identifier: MIT */
/* The scheduler: run queues by virtual run time, time slices, ticks, wake-ups that preempt.
 *
 * It follows kernel/sched/fair.c where the ids depend on it: a task that slept gets ahead of those
 * that ran, by at most CREDIT; it preempts if it is ahead by more than GRANULARITY.
 */
#include "sim/sim.h"

#include <sys/param.h>

#define TICK 4000000ull
#define SLICE 3000000ull
#define GRANULARITY 300000ull
#define CREDIT 3000000ull
#define BALANCE_TICKS 16
#define KTHREAD_NS 5000

/* The time that the current task ran since the last call. */
static void account(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_task *t = cpu->curr;
	uint64_t ran = s->now - cpu->since;

	cpu->since = s->now;
	t->vruntime += ran;
	t->left -= MIN(ran, t->left);
}

/* With it, the least virtual run time of the CPU's tasks, which only grows. */
static void account_queue(struct sim *s, struct sim_cpu *cpu)
{
	uint64_t v = UINT64_MAX;

	account(s, cpu);
	if (cpu->curr != &cpu->idle)
		v = cpu->curr->vruntime;
	if (cpu->queue.count)
		v = MIN(v, heap_first(&cpu->queue)->key);
	if (v != UINT64_MAX && v > cpu->min_vruntime)
		cpu->min_vruntime = v;
}

static void set_event(struct sim *s, struct sim_cpu *cpu)
{
	uint64_t at = MIN(s->now + cpu->curr->left, cpu->next_tick);

	events_set(&s->events, cpu->number, cpu->curr == &cpu->idle ? SIM_NEVER : at);
}

void sim_enqueue(struct sim *s, struct sim_task *t, unsigned cpu, bool wakes)
{
	struct heap *queue = &s->cpus[cpu].queue;

	t->state = SIM_QUEUED;
	if (wakes)
		t->queued_at = s->now;
	heap_push(queue, &t->queued, t->vruntime);
	bits_set(&s->loaded, cpu);
}

void sim_dequeue(struct sim *s, struct sim_task *t)
{
	struct heap *queue = &s->cpus[t->cpu].queue;

	heap_remove(queue, &t->queued);
	if (!queue->count)
		bits_clear(&s->loaded, t->cpu);
}

static void leave_idle(struct sim *s, struct sim_cpu *cpu)
{
	uint64_t idle = s->now - cpu->idle_from;

	cpu->idle_mean = (cpu->idle_mean * 7 + MIN(idle, 1000000)) / 8;
	cpu->next_tick = (s->now / TICK + 1) * TICK + cpu->number * TICK / s->cpu_count;
	if (cpu->next_tick > s->now + TICK)
		cpu->next_tick -= TICK;
	sim_set_idle(s, cpu, false);
}

static void schedule(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_task *prev = cpu->curr, *next = &cpu->idle;

	account_queue(s, cpu);
	cpu->resched = false;
	if (prev != &cpu->idle && prev->state == SIM_RUNNING)
		sim_enqueue(s, prev, cpu->number, true);
	if (!cpu->queue.count)
		sim_pull_idle(s, cpu);
	if (cpu->queue.count) {
		next = sim_queued(cpu->queue.entries);
		sim_dequeue(s, next);
		next->state = SIM_RUNNING;
	}
	if (next != prev) {
		if (prev == &cpu->idle)
			leave_idle(s, cpu);
		if (next == &cpu->idle) {
			sim_set_idle(s, cpu, true);
			cpu->idle_from = s->now;
		}
		if (next->mm) {
			s->counts.waits++;
			s->counts.wait_ns += s->now - next->queued_at;
		}
		cpu->slice_from = s->now;
		sim_switch(s, cpu, next);
	}
	set_event(s, cpu);
}

/* After a task was queued on the CPU. `here`: the CPU's own task did it. */
static void preempt(struct sim *s, struct sim_cpu *cpu, const struct sim_task *t, bool here)
{
	if (cpu->curr != &cpu->idle && cpu->curr->vruntime <= t->vruntime + GRANULARITY)
		return;
	if (here)
		cpu->resched = true;
	else
		schedule(s, cpu);
}

static void queue_on(struct sim *s, struct sim_task *t, const struct sim_task *waker)
{
	struct sim_cpu *cpu = &s->cpus[t->cpu];
	uint64_t ahead;

	account_queue(s, cpu);
	ahead = cpu->min_vruntime - MIN(cpu->min_vruntime, CREDIT);
	if (t->vruntime < ahead)
		t->vruntime = ahead;
	sim_enqueue(s, t, t->cpu, true);
	preempt(s, cpu, t, waker && waker->cpu == t->cpu);
}

void sim_wake(struct sim *s, struct sim_task *t, const struct sim_task *waker)
{
	unsigned to;

	if (t->state != SIM_BLOCKED)
		return;
	if (t->timer.position)
		heap_remove(&s->timers, &t->timer);
	to = sim_place_woken(s, t, waker);
	if (to != t->cpu) {
		t->vruntime -= MIN(t->vruntime, s->cpus[t->cpu].min_vruntime);
		t->vruntime += s->cpus[to].min_vruntime;
		sim_migrate(s, t, to);
	}
	queue_on(s, t, waker);
}

void sim_start(struct sim *s, struct sim_task *t)
{
	unsigned maker = t->cpu;

	t->cpu = sim_place_new(s);
	t->vruntime = s->cpus[t->cpu].min_vruntime + CREDIT;
	queue_on(s, t, t->cpu == maker && s->cpus[maker].curr->mm ? t : NULL);
}

void sim_sleep(struct sim *s, struct sim_task *t, uint64_t ns)
{
	heap_push(&s->timers, &t->timer, s->now + ns);
}

static bool kthread_step(struct sim *s, struct sim_task *t)
{
	(void)s;
	(void)t;
	return false;
}

static void tick(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_task *k = &cpu->kthread;
	struct sim_cpu *idle;

	cpu->next_tick += TICK;
	if (s->policy->tick && sim_is_user(cpu->curr))
		s->policy->tick(s, cpu);
	if (k->state == SIM_BLOCKED && sim_random(s) % 4 == 0) {
		k->step = kthread_step;
		k->left = sim_about(s, KTHREAD_NS);
		k->vruntime = 0;
		sim_enqueue(s, k, cpu->number, true);
		cpu->resched = true;
	}
	if (s->now / TICK % BALANCE_TICKS == cpu->number % BALANCE_TICKS)
		sim_balance(s, cpu);
	/* As the kernel's balance for CPUs without ticks. */
	while ((idle = sim_push_idle(s, cpu)))
		schedule(s, idle);
	if (cpu->queue.count && s->now - cpu->slice_from >= SLICE)
		cpu->resched = true;
}

static void cpu_event(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_task *t = cpu->curr;

	account(s, cpu);
	if (s->now >= cpu->next_tick)
		tick(s, cpu);
	if (!t->left) {
		if (s->ending && t->mm) {
			sim_exit(s, t);
			cpu->resched = true;
		} else if (!t->step(s, t)) {
			t->state = SIM_BLOCKED;
			cpu->resched = true;
		}
	}
	if (cpu->resched)
		schedule(s, cpu);
	else
		set_event(s, cpu);
}

/* All tasks return from what they wait for. */
static void end_load(struct sim *s)
{
	s->ending = true;
	for (unsigned i = 0; i < s->task_count; i++)
		sim_wake(s, s->tasks[i], NULL);
}

void sim_run(struct sim *s)
{
	s->params.load->begin(s);
	while (s->alive) {
		struct heap_node *timer = heap_first(&s->timers);
		unsigned cpu = events_first(&s->events);
		uint64_t time = s->events.time[cpu];

		if (!s->ending &&
		    (s->counts.switches >= s->params.switches || (time == SIM_NEVER && !timer))) {
			end_load(s);
		} else if (timer && timer->key < time) {
			struct sim_task *t = (struct sim_task *)((char *)timer -
								 offsetof(struct sim_task, timer));

			s->now = timer->key;
			sim_wake(s, t, NULL);
		} else {
			s->now = time;
			cpu_event(s, &s->cpus[cpu]);
		}
	}
}
