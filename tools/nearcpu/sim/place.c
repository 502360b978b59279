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
		const struct sim_span *span = &s->cpus[sim_node_begin(s, node)].span[SPAN_NODE];
		unsigned *last = &s->last_new[node];

		/* Not the CPU of the task before, whose load the kernel would see. */
		++*last;
		if (*last < span->from || *last >= span->to)
			*last = span->from;
		*last = bits_around(&s->idle, span->from, *last, span->to);
		return *last;
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
	const struct sim_span *cache;

	if (!bits_test(&s->allowed, target)) /* it never ran */
		target = bits_next(&s->allowed, 0, s->cpu_count);
	if (joins(s, t, waker))
		target = waker->cpu;
	if (bits_test(&s->idle, target))
		return target;
	cache = &s->cpus[target].span[SPAN_CACHE];
	if (bits_test(&s->idle, t->cpu) && t->cpu >= cache->from && t->cpu < cache->to)
		return t->cpu;
	found = bits_around(&s->idle, cache->from, target, cache->to);
	return found < cache->to ? found : target;
}

/* ---- pulling ---- */

/* A task of src's queue that may move to dst: of the last ones, which have to wait longest. */
static struct sim_task *candidate(const struct sim *s, const struct sim_cpu *dst,
				  const struct sim_cpu *src, bool hot)
{
	bool prefer = s->params.prefer && dst->node != src->node;

	for (unsigned i = 0; i < src->queue.count && i < 4; i++) {
		struct sim_task *t = sim_queued(&src->queue.entries[src->queue.count - 1 - i]);

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

/* Of some loaded CPUs near `dst`, the one with the longest queue, at least `least`; NULL. */
static struct sim_cpu *busiest(struct sim *s, const struct sim_cpu *dst, unsigned level,
			       unsigned least)
{
	unsigned from = dst->span[level].from, to = dst->span[level].to;
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
	if (!s->loaded.count || cpu->idle_mean < PULL_NS || !bits_test(&s->allowed, cpu->number))
		return;
	for (unsigned level = 0; level < SPANS; level++) {
		struct sim_cpu *from = busiest(s, cpu, level, level == SPAN_ALL ? 2 : 1);

		if (from && pull(s, cpu, from, false))
			return;
	}
}

void sim_balance(struct sim *s, struct sim_cpu *cpu)
{
	unsigned own = cpu->queue.count;
	struct sim_cpu *from = NULL;

	for (unsigned level = 0; level < SPANS && !from; level++)
		from = busiest(s, cpu, level, own + 2 + (level == SPAN_ALL ? own / 4 : 0));
	if (from)
		pull(s, cpu, from, from->queue.count > 2 * own + 2);
}

/* Another CPU that is idle, the nearest. NULL: none. */
static struct sim_cpu *idle_near(struct sim *s, const struct sim_cpu *cpu)
{
	for (const struct sim_span *span = cpu->span; span < cpu->span + SPANS; span++) {
		unsigned n = bits_around(&s->idle, span->from, cpu->number, span->to);

		if (n < span->to)
			return &s->cpus[n];
	}
	return NULL;
}

struct sim_cpu *sim_push_idle(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_cpu *idle = cpu->queue.count ? idle_near(s, cpu) : NULL;

	if (!idle || (idle->node != cpu->node && cpu->queue.count < 2))
		return NULL;
	return pull(s, idle, cpu, cpu->queue.count > 2) ? idle : NULL;
}
