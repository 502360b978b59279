/* SPDX-License-Identifier: MIT */
/* The policy of Linux 6.19 on: each thread owns an id, until a process has a quarter more threads
 * than CPUs; then each CPU owns one, and threads borrow it.
 *
 * Sources: kernel commits fbd0e71dc370 and 23343b6b09ac of the series "sched/mmcid", and the fixes
 * of February 2026 (hand-over of a transitional id by the thread that stops). Ids that change
 * their owner are marked as in transit while their thread goes on running. The kernel's
 * walk over threads or CPUs happens at one moment here, as if nothing ran in between.
 */
#include "common/memory.h"
#include "sim/sim.h"

#include <sys/param.h>

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

static void cid_drop(struct sim *s, struct sim_mm *mm, unsigned cid, enum sim_row row)
{
	sim_row(s, row);
	sim_id_drop(s, mm, plain(cid));
}

/* The lowest free id below max, or of all. */
static unsigned cid_get(struct sim *s, struct sim_mm *mm)
{
	struct owners *o = mm->state;
	unsigned cid = bits_first_zero(&mm->ids, MIN(o->max, s->cpu_count));

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
	cid_drop(s, mm, cid, ROW_DISCARD);
	return lower | (cid & ONCPU);
}

/* ---- switch ---- */

/* Takes the id of the owner: the CPU or the thread. If the other one owns an id, the owner gets it,
 * unless the owner has one: then the other id is dropped. */
static void take_id(struct sim *s, struct sim_task *t, struct sim_pcpu *p, bool same)
{
	bool by_cpu = ((struct owners *)t->mm->state)->on_cpu;
	bool (*owns)(unsigned) = by_cpu ? on_cpu : on_task;
	bool (*other_owns)(unsigned) = by_cpu ? on_task : on_cpu;
	unsigned cid = by_cpu ? p->cid : t->cid, other = by_cpu ? t->cid : p->cid;
	unsigned flag = by_cpu ? ONCPU : 0;

	if (owns(cid) && owns(other)) {
		cid = converge(s, t->mm, cid, same);
	} else {
		if (other_owns(other) && owns(cid))
			cid_drop(s, t->mm, other, ROW_DISCARD);
		else if (other_owns(other))
			cid = plain(other) | flag;
		if (owns(cid)) {
			count_use(s, t->mm, same);
		} else {
			sim_row(s, ROW_ALLOCATE);
			cid = cid_get(s, t->mm) | flag;
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
		sim_pcpu(t->mm, cpu->number)->cid = t->cid;
	} else {
		cid_drop(s, t->mm, cid, ROW_RELEASE);
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
		take_id(s, next, sim_pcpu(next->mm, cpu->number),
			sim_is_user(prev) && prev->mm == next->mm);
		next->id = (int)plain(next->cid);
	}
}

/* ---- owners ---- */

/* True if the owners change. */
static bool update(struct sim *s, struct owners *o, unsigned users)
{
	unsigned best = MIN(s->allowed_count, users), threshold;

	o->max = MIN(best + best / 4, s->cpu_count);
	threshold = MIN(best - best / 4, s->cpu_count / 2);
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
static void set_transit(struct sim_task *t)
{
	t->cid = plain(t->cid) | TRANSIT;
	sim_pcpu(t->mm, t->cpu)->cid = t->cid;
}

static void fix_tasks(struct sim *s, struct sim_mm *mm)
{
	for (struct sim_task *t = mm->tasks; t; t = t->mm_next) {
		if (!t->has_ids || !on_task(t->cid))
			continue;
		if (s->cpus[t->cpu].curr == t) {
			set_transit(t);
		} else {
			cid_drop(s, mm, t->cid, ROW_DISCARD);
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
		set_transit(t);
	} else if (!runs && on_cpu(p->cid)) {
		cid_drop(s, mm, p->cid, ROW_DISCARD);
		p->cid = plain(p->cid);
	}
}

static void owner_forked(struct sim *s, struct sim_task *parent, struct sim_task *child)
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
		child->cid = cid_get(s, mm);
}

static void owner_ends(struct sim *s, struct sim_task *t)
{
	struct sim_mm *mm = t->mm;
	struct owners *o = mm->state;
	struct sim_pcpu *p = sim_pcpu(mm, t->cpu);
	bool last = mm->users == 1;

	if (last && on_cpu(t->cid))
		p->cid = t->cid = plain(t->cid);
	if (in_transit(t->cid) || on_task(t->cid))
		cid_drop(s, mm, t->cid, ROW_EXIT);
	t->cid = UNSET;
	t->has_ids = false;
	if (!update(s, o, mm->users - 1) || last)
		return;
	if (on_cpu(p->cid)) {
		cid_drop(s, mm, p->cid, ROW_EXIT);
		p->cid = plain(p->cid);
	}
	sim_each_pcpu(s, mm, fix_cpu, 0);
}

static void mm_init(struct sim *s, struct sim_mm *mm)
{
	(void)s;
	mm->state = allocate_zeros(1, sizeof(struct owners));
}

const struct sim_policy sim_policy_619 = {
	.name = "6.19",
	.about = "Linux 6.19 on: threads own ids, or CPUs where there are many threads",
	.mm_init = mm_init,
	.fork = owner_forked,
	.exit = owner_ends,
	.switch_to = switch_to,
};
