/* SPDX-License-Identifier: MIT */
/* The policy of Linux 6.4 to 6.18: each process has an id for each CPU that it ran on, which stays
 * until the periodic compaction clears it, or it moves with a thread.
 *
 * Sources: kernel commits 223baf9d17f2 (6.4), and of SIM_LOCAL 7e019dcc470f and 02d954c0fdf9
 * (6.13: a CPU takes the id that it had before; new ids up to the number of threads or CPUs are
 * preferred to free lower ones). What the kernel does by compare and exchange against a remote CPU
 * happens here at one moment, with the same outcomes.
 */
#include "common/memory.h"
#include "sim/sim.h"

#include <sys/param.h>

#define UNSET (~0u)
#define LAZY (1u << 31) /* to be given back when the CPU leaves the process */
#define PERIOD_NS 100000000ull

struct scan {
	uint64_t next;
	unsigned max; /* ids that were handed out, at most: max_nr_cid */
};

static bool is_valid(unsigned cid)
{
	return !(cid & LAZY);
}

static bool runs_mm(const struct sim *s, unsigned cpu, const struct sim_mm *mm)
{
	return sim_is_user(s->cpus[cpu].curr) && s->cpus[cpu].curr->mm == mm;
}

static bool is_local(const struct sim *s)
{
	return s->policy->flags & SIM_LOCAL;
}

static void pcpu_put(struct sim *s, struct sim_mm *mm, struct sim_pcpu *p, enum sim_row row)
{
	unsigned cid = p->cid & ~LAZY;

	s->counts.atomics++; /* the exchange of the CPU's word */
	p->cid = UNSET;
	sim_row(s, row);
	sim_id_drop(s, mm, cid);
}

/* The id that this CPU had, then a new one, then the lowest. */
static unsigned find_local(struct sim *s, struct sim_mm *mm, const struct sim_pcpu *p)
{
	struct scan *scan = mm->state;
	unsigned most = MIN(s->allowed_count, mm->users);

	if (scan->max > most) {
		s->counts.atomics++;
		scan->max = most;
	}
	if (p->recent != UNSET && p->recent < scan->max && !bits_test(&mm->ids, p->recent))
		return p->recent;
	while (scan->max < most) {
		s->counts.atomics++;
		if (!bits_test(&mm->ids, scan->max++))
			return scan->max - 1;
	}
	return bits_first_zero(&mm->ids, s->cpu_count);
}

static unsigned pcpu_get(struct sim *s, struct sim_mm *mm, struct sim_pcpu *p, bool same)
{
	if (is_valid(p->cid)) {
		sim_row(s, mm->users == 1 ? ROW_SINGLE : same ? ROW_TRANSFER : ROW_HIT);
		p->time = s->now;
		return p->cid;
	}
	if (p->cid != UNSET)
		pcpu_put(s, mm, p, ROW_DISCARD);
	sim_row(s, ROW_ALLOCATE);
	p->cid = is_local(s) ? find_local(s, mm, p) : bits_first_zero(&mm->ids, s->cpu_count);
	sim_id_take(s, mm, p->cid);
	p->recent = p->cid;
	p->time = s->now;
	return p->cid;
}

static void switch_to(struct sim *s, struct sim_cpu *cpu, struct sim_task *prev,
		      struct sim_task *next)
{
	bool same = false;

	if (sim_is_user(prev)) {
		struct sim_pcpu *p = sim_pcpu(prev->mm, cpu->number);

		p->time = s->now;
		if (!is_valid(p->cid) && p->cid != UNSET)
			pcpu_put(s, prev->mm, p, ROW_DISCARD);
		prev->id = SIM_NO_ID;
		same = prev->mm == next->mm;
	}
	if (sim_is_user(next)) {
		struct sim_pcpu *p = sim_pcpu(next->mm, cpu->number);

		next->id = next->last_cid = (int)pcpu_get(s, next->mm, p, same);
	}
}

/* The id moves with the last thread of the process on the CPU; or is given back, if the other CPU
 * has one. */
static void migrate(struct sim *s, struct sim_task *t, unsigned to)
{
	struct sim_mm *mm = t->mm;
	struct sim_pcpu *src = sim_pcpu(mm, t->cpu), *dst = sim_pcpu(mm, to);
	bool set = dst->cid != UNSET || (is_local(s) && dst->recent != UNSET);

	if ((set && mm->users >= s->allowed_count) || t->last_cid < 0 || !is_valid(src->cid) ||
	    src->cid != (unsigned)t->last_cid)
		return;
	if (runs_mm(s, t->cpu, mm)) {
		t->last_cid = SIM_NO_ID;
		return;
	}
	if (set) {
		pcpu_put(s, mm, src, ROW_MIGRATE);
	} else {
		dst->cid = dst->recent = src->cid;
		dst->time = s->now;
		src->cid = UNSET;
	}
	src->recent = UNSET;
	s->counts.atomics += 2; /* the exchanges of the source's word */
}

static void thread_ends(struct sim *s, struct sim_task *t)
{
	struct sim_pcpu *p = sim_pcpu(t->mm, t->cpu);

	if (p->cid != UNSET)
		pcpu_put(s, t->mm, p, ROW_EXIT);
	t->last_cid = SIM_NO_ID;
}

/* ---- compaction: task_mm_cid_work ---- */

static void clear_remote(struct sim *s, struct sim_mm *mm, unsigned cpu, struct sim_pcpu *p)
{
	s->counts.atomics++;
	p->cid |= LAZY;
	if (!runs_mm(s, cpu, mm))
		pcpu_put(s, mm, p, ROW_DISCARD);
}

/* By the clock of the run queue, which stands still while its CPU is idle: ids that an idle CPU has
 * kept are not old. */
static void clear_old(struct sim *s, struct sim_mm *mm, unsigned cpu, struct sim_pcpu *p,
		      unsigned unused)
{
	const struct sim_cpu *c = &s->cpus[cpu];
	uint64_t clock = c->curr == &c->idle ? c->clock : s->now;

	(void)unused;
	if (runs_mm(s, cpu, mm))
		p->time = clock;
	else if (is_valid(p->cid) && clock >= p->time + PERIOD_NS)
		clear_remote(s, mm, cpu, p);
}

static void clear_high(struct sim *s, struct sim_mm *mm, unsigned cpu, struct sim_pcpu *p,
		       unsigned weight)
{
	if (is_valid(p->cid) && p->cid >= weight)
		clear_remote(s, mm, cpu, p);
}

static void tick(struct sim *s, struct sim_cpu *cpu)
{
	struct sim_mm *mm = cpu->curr->mm;
	struct scan *scan = mm->state;

	if (s->now < scan->next)
		return;
	scan->next = s->now + PERIOD_NS;
	sim_each_pcpu(s, mm, clear_old, 0);
	sim_each_pcpu(s, mm, clear_high, mm->ids.count);
}

static void mm_init(struct sim *s, struct sim_mm *mm)
{
	struct scan *scan = mm->state = allocate_zeros(1, sizeof(*scan));

	scan->next = s->now + PERIOD_NS;
}

const struct sim_policy sim_policy_64 = {
	.name = "6.4",
	.about = "Linux 6.4 to 6.12: an id of each process for each CPU, compacted periodically",
	.mm_init = mm_init,
	.exit = thread_ends,
	.migrate = migrate,
	.switch_to = switch_to,
	.tick = tick,
};
