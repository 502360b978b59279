/* SPDX-License-Identifier: MIT */
/* The policy of Linux 6.19 on: each thread owns an id, until a process has a quarter more threads
 * than CPUs; then each CPU owns one, and threads borrow it.
 *
 * Sources: kernel commits fbd0e71dc370 and 23343b6b09ac of the series "sched/mmcid", and the fixes
 * of February 2026 (hand-over of a transitional id by the thread that stops). Ids that change
 * their owner are marked as in transit while their thread goes on running. The kernel's
 * walk over threads or CPUs happens at one moment here, as if nothing ran in between.
 */
#include "sim/sim.h"

#include <stdlib.h>

#define UNSET (~0u)
#define ONCPU (1u << 30)
#define TRANSIT (1u << 29)

struct owners {
	bool on_cpu;
	unsigned max;       /* ids above are given up when possible: max_cids */
	unsigned threshold; /* below this number of threads they own again; 0: threads own */
};

static bool on_cpu(unsigned cid)
{
	return cid != UNSET && (cid & ONCPU);
}

static bool on_task(unsigned cid)
{
	return cid < TRANSIT;
}

static bool in_transit(unsigned cid)
{
	return cid != UNSET && (cid & TRANSIT);
}

static unsigned plain(unsigned cid)
{
	return cid & ~(ONCPU | TRANSIT);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

static void drop(struct sim *s, struct sim_mm *mm, unsigned cid, enum sim_row row)
{
	sim_row(s, row);
	sim_id_drop(s, mm, plain(cid));
}

/* The lowest free id below max, or of all. */
static unsigned get(struct sim *s, struct sim_mm *mm)
{
	struct owners *o = mm->state;
	unsigned cid = bits_first_zero(&mm->ids, least(o->max, s->cpu_count));

	if (cid == o->max)
		cid = bits_first_zero(&mm->ids, s->cpu_count);
	sim_id_take(s, mm, cid);
	return cid;
}

static void count_use(struct sim *s, const struct sim_mm *mm, bool same)
{
	const struct owners *o = mm->state;

	sim_row(s, mm->users == 1 ? ROW_SINGLE : o->on_cpu && same ? ROW_TRANSFER : ROW_HIT);
}

static unsigned converge(struct sim *s, struct sim_mm *mm, unsigned cid, bool same)
{
	struct owners *o = mm->state;
	unsigned lower = bits_first_zero(&mm->ids, o->max);

	if (plain(cid) < o->max || lower == o->max) {
		count_use(s, mm, same);
		return cid;
	}
	sim_row(s, ROW_ALLOCATE);
	sim_id_take(s, mm, lower);
	drop(s, mm, cid, ROW_DISCARD);
	return lower | (cid & ONCPU);
}

/* ---- switch ---- */

static void from_cpu(struct sim *s, struct sim_task *t, struct sim_pcpu *p, bool same)
{
	unsigned cid = p->cid;

	if (on_cpu(cid) && on_cpu(t->cid)) {
		cid = converge(s, t->mm, cid, same);
	} else {
		if (on_task(t->cid) && on_cpu(cid))
			drop(s, t->mm, t->cid, ROW_DISCARD);
		else if (on_task(t->cid))
			cid = t->cid | ONCPU;
		if (on_cpu(cid)) {
			count_use(s, t->mm, same);
		} else {
			sim_row(s, ROW_ALLOCATE);
			cid = get(s, t->mm) | ONCPU;
		}
	}
	p->cid = t->cid = cid;
}

static void from_task(struct sim *s, struct sim_task *t, struct sim_pcpu *p, bool same)
{
	unsigned cid = t->cid;

	if (on_task(cid) && on_task(p->cid)) {
		cid = converge(s, t->mm, cid, same);
	} else {
		if (on_cpu(p->cid) && on_task(cid))
			drop(s, t->mm, p->cid, ROW_DISCARD);
		else if (on_cpu(p->cid))
			cid = plain(p->cid);
		if (on_task(cid)) {
			count_use(s, t->mm, same);
		} else {
			sim_row(s, ROW_ALLOCATE);
			cid = get(s, t->mm);
		}
	}
	p->cid = t->cid = cid;
}

/* The walk that changes the owners has ended: an id in transit goes to its new owner. */
static void stop_transit(struct sim *s, struct sim_cpu *cpu, struct sim_task *t)
{
	struct owners *o = t->mm->state;
	unsigned cid = plain(t->cid);

	if (!in_transit(t->cid))
		return;
	if (cid < o->max) {
		t->cid = o->on_cpu ? cid | ONCPU : cid;
		sim_pcpu(s, t->mm, cpu->number)->cid = t->cid;
	} else {
		drop(s, t->mm, cid, ROW_RELEASE);
		t->cid = UNSET;
	}
}

static void switch_to(struct sim *s, struct sim_cpu *cpu, struct sim_task *prev,
		      struct sim_task *next)
{
	if (sim_is_user(prev)) {
		stop_transit(s, cpu, prev);
		prev->id = SIM_NO_ID;
	}
	if (sim_is_user(next)) {
		struct owners *o = next->mm->state;
		bool same = sim_is_user(prev) && prev->mm == next->mm;
		struct sim_pcpu *p = sim_pcpu(s, next->mm, cpu->number);

		if (o->on_cpu)
			from_cpu(s, next, p, same);
		else
			from_task(s, next, p, same);
		next->id = (int)plain(next->cid);
	}
}

/* ---- owners ---- */

/* True if the owners change. */
static bool update(struct sim *s, struct owners *o, unsigned users)
{
	unsigned best = least(s->allowed_count, users), threshold;

	o->max = least(best + best / 4, s->cpu_count);
	threshold = least(best - best / 4, s->cpu_count / 2);
	if (!o->on_cpu && users > o->max)
		o->threshold = threshold ? threshold : 1;
	else if (o->on_cpu && users < o->threshold)
		o->threshold = 0;
	if (o->on_cpu == (o->threshold != 0))
		return false;
	o->on_cpu = !o->on_cpu;
	return true;
}

/* Marks the id of a thread that runs, for itself and its CPU. */
static void set_transit(struct sim *s, struct sim_task *t)
{
	t->cid = plain(t->cid) | TRANSIT;
	sim_pcpu(s, t->mm, t->cpu)->cid = t->cid;
}

static void fix_tasks(struct sim *s, struct sim_mm *mm)
{
	for (struct sim_task *t = mm->tasks; t; t = t->mm_next) {
		if (!t->has_ids || !on_task(t->cid))
			continue;
		if (s->cpus[t->cpu].curr == t) {
			set_transit(s, t);
		} else {
			drop(s, mm, t->cid, ROW_DISCARD);
			t->cid = UNSET;
		}
	}
}

static void fix_cpu(struct sim *s, struct sim_mm *mm, unsigned cpu, struct sim_pcpu *p,
		    unsigned unused)
{
	struct sim_task *t = s->cpus[cpu].curr;
	bool runs = sim_is_user(t) && t->mm == mm && t->cid != UNSET;

	(void)unused;
	if (runs && !in_transit(t->cid)) {
		set_transit(s, t);
	} else if (!runs && on_cpu(p->cid)) {
		drop(s, mm, p->cid, ROW_DISCARD);
		p->cid = plain(p->cid);
	}
}

static void forked(struct sim *s, struct sim_task *parent, struct sim_task *child)
{
	struct sim_mm *mm = child->mm;
	struct owners *o = mm->state;

	(void)parent;
	child->cid = UNSET;
	if (update(s, o, mm->users)) {
		if (o->on_cpu)
			fix_tasks(s, mm);
		else
			sim_each_pcpu(s, mm, fix_cpu, 0);
	}
	if (!o->on_cpu)
		child->cid = get(s, mm);
}

static void ends(struct sim *s, struct sim_task *t)
{
	struct sim_mm *mm = t->mm;
	struct owners *o = mm->state;
	struct sim_pcpu *p = sim_pcpu(s, mm, t->cpu);
	bool last = mm->users == 1;

	if (last && on_cpu(t->cid))
		p->cid = t->cid = plain(t->cid);
	if (in_transit(t->cid) || on_task(t->cid))
		drop(s, mm, t->cid, ROW_EXIT);
	t->cid = UNSET;
	t->has_ids = false;
	if (!update(s, o, mm->users - 1) || last)
		return;
	if (on_cpu(p->cid)) {
		drop(s, mm, p->cid, ROW_EXIT);
		p->cid = plain(p->cid);
	}
	sim_each_pcpu(s, mm, fix_cpu, 0);
}

static bool mm_init(struct sim *s, struct sim_mm *mm)
{
	(void)s;
	mm->state = calloc(1, sizeof(struct owners));
	return mm->state;
}

const struct sim_policy sim_policy_619 = {
	.name = "6.19",
	.about = "Linux 6.19 on: threads own ids, or CPUs where there are many threads",
	.mm_init = mm_init,
	.fork = forked,
	.exit = ends,
	.switch_to = switch_to,
};
