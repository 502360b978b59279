/* SPDX-License-Identifier: MIT */
/* Which CPU a task gets when it is made or woken, and which task a CPU gets from others.
 *
 * As in kernel/sched/fair.c, a woken task stays with the cache that it ran on, where it takes any
 * idle CPU; tasks leave that cache, and the node, when a CPU without work pulls them, or by the
 * periodic balance. Those that ran within HOT_NS stay.
 */
#include "sim/sim.h"

#define HOT_NS 500000
#define PULL_NS 20000 /* a CPU that is idle for less on average pulls nothing */
#define SOME 8        /* run queues that a search visits */

/* Whether the process has ids of the node that no thread uses now. */
static bool has_spare_ids(const struct sim_mm *mm, unsigned node)
{
	return mm->node_ids[node] && mm->node_ids[node]->count > mm->node_running[node];
}

/* The node with most idle CPUs; SIM_NODES: none has any. */
static unsigned best_node(const struct sim *s)
{
	unsigned best = SIM_NODES, most = 0;

	for (unsigned node = 0; node < s->params.nodes; node++)
		if (s->node_idle[node] > most) {
			best = node;
			most = s->node_idle[node];
		}
	return best;
}

unsigned sim_place_new(struct sim *s)
{
	unsigned node = best_node(s), best = s->cpu_count;

	if (node < SIM_NODES) {
		unsigned from = (unsigned)(((uint64_t)node * s->cpu_count + s->params.nodes - 1) /
					   s->params.nodes);

		/* Not the CPU of the task before, whose load the kernel would see. */
		s->last_new[node]++;
		if (s->last_new[node] < from || s->last_new[node] >= s->cpus[from].node_to)
			s->last_new[node] = from;
		s->last_new[node] =
			bits_around(&s->idle, from, s->last_new[node], s->cpus[from].node_to);
		return s->last_new[node];
	}
	for (unsigned i = 0; i < SOME; i++) {
		unsigned at = (unsigned)(sim_random(s) % s->cpu_count);

		at = bits_around(&s->allowed, 0, at, s->cpu_count);
		if (best == s->cpu_count || s->cpus[at].queue.count < s->cpus[best].queue.count)
			best = at;
	}
	return best;
}

/* wake_affine: a task joins its waker if that one's CPU has no more to do; of a pair, if the waker
 * is about to wait for it. */
static bool joins(const struct sim *s, const struct sim_task *t, const struct sim_task *waker)
{
	const struct sim_cpu *own, *prev = &s->cpus[t->cpu];

	if (!waker)
		return false;
	own = &s->cpus[waker->cpu];
	if (s->params.load->affine)
		return !own->queue.count;
	return !bits_test(&s->idle, t->cpu) && own->queue.count <= prev->queue.count;
}

unsigned sim_place_woken(struct sim *s, const struct sim_task *t, const struct sim_task *waker)
{
	unsigned target = t->cpu, found;

	if (!bits_test(&s->allowed, target)) /* it never ran */
		target = bits_next(&s->allowed, 0, s->cpu_count);
	if (joins(s, t, waker))
		target = waker->cpu;
	if (bits_test(&s->idle, target))
		return target;
	if (bits_test(&s->idle, t->cpu) && s->cpus[t->cpu].llc_from == s->cpus[target].llc_from)
		return t->cpu;
	found = bits_around(&s->idle, s->cpus[target].llc_from, target, s->cpus[target].llc_to);
	return found < s->cpus[target].llc_to ? found : target;
}

/* ---- pulling ---- */

static struct sim_task *task_at(const struct sim_cpu *cpu, unsigned i)
{
	return (struct sim_task *)((char *)cpu->queue.entries[i].node -
				   offsetof(struct sim_task, queued));
}

/* A task of src's queue that may move to dst: of the last ones, which have to wait longest. */
static struct sim_task *candidate(const struct sim *s, const struct sim_cpu *dst,
				  const struct sim_cpu *src, bool hot)
{
	bool prefer = s->params.prefer && dst->node != src->node;

	for (unsigned i = 0; i < src->queue.count && i < 4; i++) {
		struct sim_task *t = task_at(src, src->queue.count - 1 - i);

		if (t->mm && (hot || s->now - t->stopped_at >= HOT_NS) &&
		    (!prefer || has_spare_ids(t->mm, dst->node)))
			return t;
	}
	return NULL;
}

static bool pull(struct sim *s, struct sim_cpu *dst, struct sim_cpu *src, bool hot)
{
	struct sim_task *t = candidate(s, dst, src, hot);

	if (!t)
		return false;
	sim_dequeue(s, t);
	t->vruntime -= t->vruntime < src->min_vruntime ? t->vruntime : src->min_vruntime;
	t->vruntime += dst->min_vruntime;
	sim_migrate(s, t, dst->number);
	sim_enqueue(s, t, dst->number, false);
	return true;
}

/* Of some loaded CPUs in [from, to), the one with the longest queue, at least `least`; NULL. */
static struct sim_cpu *busiest(struct sim *s, const struct sim_cpu *dst, unsigned from, unsigned to,
			       unsigned least)
{
	unsigned start = from + (unsigned)(sim_random(s) % (to - from));
	struct sim_cpu *best = NULL;

	for (unsigned i = 0; i < SOME; i++) {
		unsigned at = bits_around(&s->loaded, from, start, to);

		if (at == to)
			break;
		if (at != dst->number && s->cpus[at].queue.count >= least) {
			best = &s->cpus[at];
			least = best->queue.count + 1;
		}
		start = at + 1 < to ? at + 1 : from;
	}
	return best;
}

void sim_pull_idle(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_cpu *from;

	if (!s->loaded.count || cpu->idle_mean < PULL_NS || !bits_test(&s->allowed, cpu->number))
		return;
	from = busiest(s, cpu, cpu->llc_from, cpu->llc_to, 1);
	if (from && pull(s, cpu, from, false))
		return;
	from = busiest(s, cpu, cpu->node_from, cpu->node_to, 1);
	if (from && pull(s, cpu, from, false))
		return;
	from = busiest(s, cpu, 0, s->cpu_count, 2);
	if (from)
		pull(s, cpu, from, false);
}

void sim_balance(struct sim *s, struct sim_cpu *cpu)
{
	unsigned own = cpu->queue.count;
	struct sim_cpu *from = busiest(s, cpu, cpu->llc_from, cpu->llc_to, own + 2);

	if (!from)
		from = busiest(s, cpu, cpu->node_from, cpu->node_to, own + 2);
	if (!from)
		from = busiest(s, cpu, 0, s->cpu_count, own + own / 4 + 2);
	if (from)
		pull(s, cpu, from, from->queue.count > 2 * own + 2);
}

/* Another CPU that is idle, the nearest. NULL: none. */
static struct sim_cpu *idle_near(struct sim *s, const struct sim_cpu *cpu)
{
	unsigned n = bits_around(&s->idle, cpu->llc_from, cpu->number, cpu->llc_to);

	if (n == cpu->llc_to)
		n = bits_around(&s->idle, cpu->node_from, cpu->number, cpu->node_to);
	if (n == cpu->node_to)
		n = bits_around(&s->idle, 0, cpu->number, s->cpu_count);
	return n < s->cpu_count && bits_test(&s->idle, n) ? &s->cpus[n] : NULL;
}

struct sim_cpu *sim_push_idle(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_cpu *idle = cpu->queue.count ? idle_near(s, cpu) : NULL;

	if (!idle || (idle->node != cpu->node && cpu->queue.count < 2))
		return NULL;
	return pull(s, idle, cpu, cpu->queue.count > 2) ? idle : NULL;
}
