/* SPDX-License-Identifier: MIT */
/* The library's own near_idspace(3): the code of its portable path and of its searches, on slots
 * that are the simulated CPUs. A worker is a thread while it runs. */
#include "sim/sim.h"

#include <errno.h>
#include <stdlib.h>

#include "idspace/idspace.h"

struct space {
	struct near_idspace ids;
	struct near__id_slot slots[];
};

static bool mm_init(struct sim *s, struct sim_mm *mm)
{
	struct near_idspace_options options = {.ids = s->cpu_count, .size = 1};
	struct space *p = calloc(1, sizeof(*p) + s->cpu_count * sizeof(p->slots[0]));

	if (!p)
		return false;
	for (unsigned i = 0; i < s->cpu_count; i++)
		p->slots[i].node = sim_node(s, i);
	if (near__idspace_simulate(&p->ids, &options, s->params.nodes, p->slots, s->cpu_count)) {
		free(p);
		return false;
	}
	mm->state = p;
	return true;
}

/* Ids that the call has taken or given back: the bitmap has changed. */
static void follow(struct sim *s, struct sim_mm *mm)
{
	const struct near__ids *b = &((struct space *)mm->state)->ids.rest->ids;

	for (unsigned id = 0; id < b->highest; id++) {
		bool used = b->used[id / 64] >> id % 64 & 1;

		if (used == bits_test(&mm->ids, id))
			continue;
		if (used)
			sim_id_take(s, mm, id);
		else
			sim_id_drop(s, mm, id);
	}
}

/* The counts of the space as rows; true: the bitmap has changed. */
static bool add_rows(struct sim *s, const struct near_idspace_stats *before,
		     const struct near_idspace_stats *after)
{
	const uint64_t rows[][2] = {
		{ROW_SINGLE, after->single - before->single},
		{ROW_EVICT, after->evictions - before->evictions},
		{ROW_DISCARD, after->discards - before->discards},
		{ROW_ALLOCATE, after->allocations - before->allocations},
		{ROW_EXIT, after->drains - before->drains},
		{ROW_MIGRATE, after->migrations - before->migrations},
	};
	uint64_t sum = 0;

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		s->counts.rows[rows[i][0]] += rows[i][1];
		sum += rows[i][1];
	}
	return sum != 0;
}

static void acquire(struct sim *s, struct sim_cpu *cpu, struct sim_task *t)
{
	struct space *p = t->mm->state;
	struct near_idspace_stats before = p->ids.rest->counts;

	p->ids.rest->simulated_single = t->mm->users == 1;
	t->id = near__idspace_acquire_on(&p->ids, &t->worker, &p->slots[cpu->number]);
	if (t->id < 0)
		s->error = t->id;
	if (add_rows(s, &before, &p->ids.rest->counts))
		follow(s, t->mm);
	else
		sim_row(s, ROW_HIT);
}

static void release(struct sim *s, struct sim_cpu *cpu, struct sim_task *t)
{
	struct space *p = t->mm->state;
	struct near_idspace_stats before = p->ids.rest->counts;

	if (near_worker_id(&t->worker) < 0)
		return;
	near__idspace_release_on(&p->ids, &t->worker, &p->slots[cpu->number]);
	if (add_rows(s, &before, &p->ids.rest->counts))
		follow(s, t->mm);
}

static void switch_to(struct sim *s, struct sim_cpu *cpu, struct sim_task *prev,
		      struct sim_task *next)
{
	struct space *p = sim_is_user(next) ? next->mm->state : NULL;

	if (p && sim_is_user(prev) && prev->mm == next->mm) {
		next->id = near_idspace_hand_over(&p->ids, &prev->worker, &next->worker);
		sim_row(s, ROW_TRANSFER);
	} else {
		if (sim_is_user(prev))
			release(s, cpu, prev);
		if (p)
			acquire(s, cpu, next);
	}
	if (sim_is_user(prev))
		prev->id = SIM_NO_ID;
}

static void ends(struct sim *s, struct sim_task *t)
{
	release(s, &s->cpus[t->cpu], t);
}

static void mm_exit(struct sim *s, struct sim_mm *mm)
{
	struct space *p = mm->state;
	struct near_idspace_stats before = p->ids.rest->counts;

	near_idspace_drain(&p->ids);
	if (add_rows(s, &before, &p->ids.rest->counts))
		follow(s, mm);
	near_idspace_destroy(&p->ids);
}

const struct sim_policy sim_policy_idspace = {
	.name = "idspace",
	.about = "near_idspace(3): one id in the cache of each CPU, hand-over, searches",
	.mm_init = mm_init,
	.mm_exit = mm_exit,
	.exit = ends,
	.switch_to = switch_to,
};
