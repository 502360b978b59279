/* SPDX-License-Identifier: MIT */
/* The library's own near_idspace(3): the code of its portable path and of its searches, on slots
 * that are the simulated CPUs. A worker is a thread while it runs. */
#include "common/memory.h"
#include "sim/sim.h"

#include <sys/mman.h>

#include <nearcpu/idspace.h>

#include "base/bits.h"
#include "base/fork.h"
#include "percpu/percpu.h"

/* The code of the library, compiled once more: a simulated CPU takes the place of a slot, which is
 * always a fallback slot, and the simulated process that of this one. Its functions have names of
 * their own here. */
static bool space_next(const void *space, unsigned *slot);
static void *space_at(const void *space, unsigned slot);

/* All blocks are accessible. */
static int space_open_block(void)
{
	return 0;
}

static bool space_is_single; /* the process that acquires has one thread */
int space_stats(struct near_idspace *s, struct near_idspace_stats *out, size_t size);
int space_renew(struct near_idspace *s, struct near_worker *w);

#define near_percpu_next(p, slot) space_next(p, slot)
#define near_percpu_at(p, slot) space_at(p, slot)
#define near_percpu_is_fallback(slot) true
#define near__is_one_thread() space_is_single
#define mprotect(address, size, protection) space_open_block()
#define near__idspace_open space_open
#define near__idspace_renew space_renew
#define near__idspace_acquire_slow space_acquire_slow
#define near__idspace_release_slow space_release_slow
#define near__idspace_misuse space_misuse
#define near_idspace_drain space_drain
#define near__ids_bytes space_ids_bytes
#define near__ids_init space_ids_init
#define near_idspace_stats(s, out, size) space_stats(s, out, size)
#include "idspace/idspace.c"

struct space {
	struct near_idspace ids;
	struct near__idspace rest;
	struct near_lock lock;
	unsigned cpus;
	struct near__id_slot slots[];
};

static bool space_next(const void *space, unsigned *slot)
{
	return *slot < ((const struct space *)space)->cpus;
}

static void *space_at(const void *space, unsigned slot)
{
	return &((struct space *)(uintptr_t)space)->slots[slot];
}

static void mm_init(struct sim *s, struct sim_mm *mm)
{
	unsigned n = s->cpu_count, nodes = s->params.nodes;
	struct space *p = allocate_zeros(1, sizeof(*p) + n * sizeof(p->slots[0]));

	p->cpus = n;
	for (unsigned i = 0; i < n; i++)
		p->slots[i].node = sim_node(s, i);
	p->rest.lock = &p->lock;
	p->rest.ready = allocate_zeros(near__bit_words(n), sizeof(*p->rest.ready));
	near__ids_init(&p->rest.ids, allocate_zeros(1, near__ids_bytes(n, nodes)), n, nodes);
	p->ids = (struct near_idspace){.slots = p,
				       .blocks = allocate_zeros(n, sizeof(struct near__id)),
				       .stride = sizeof(struct near__id),
				       .ids = n,
				       .rest = &p->rest};
	mm->state = p;
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

/* The counts of the space as rows, and what has changed in its bitmap. False: nothing. */
static bool add_rows(struct sim *s, struct sim_mm *mm, const struct near_idspace_stats *before)
{
	const struct near_idspace_stats *after = &((struct space *)mm->state)->rest.counts;
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
	if (sum)
		follow(s, mm);
	return sum != 0;
}

static struct fallback space_fallback(struct space *p, const struct sim_cpu *cpu)
{
	struct near__id_slot *slot = &p->slots[cpu->number];

	return (struct fallback){slot, slot->node};
}

static void acquire(struct sim *s, struct sim_cpu *cpu, struct sim_task *t)
{
	struct space *p = t->mm->state;
	struct near_idspace_stats before = p->ids.rest->counts;

	space_is_single = t->mm->users == 1;
	t->id = acquire_fallback(&p->ids, &t->worker, space_fallback(p, cpu));
	if (!add_rows(s, t->mm, &before))
		sim_row(s, ROW_HIT);
}

static void worker_release(struct sim *s, struct sim_cpu *cpu, struct sim_task *t)
{
	struct space *p = t->mm->state;
	struct near_idspace_stats before = p->ids.rest->counts;
	unsigned id = t->worker.id1 - 1;

	if (near_worker_id(&t->worker) < 0)
		return;
	near__idspace_block(&p->ids, id)->owner = NULL;
	t->worker.id1 = 0;
	release_fallback(&p->ids, id, space_fallback(p, cpu));
	add_rows(s, t->mm, &before);
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
			worker_release(s, cpu, prev);
		if (p)
			acquire(s, cpu, next);
	}
	if (sim_is_user(prev))
		prev->id = SIM_NO_ID;
}

static void worker_ends(struct sim *s, struct sim_task *t)
{
	worker_release(s, &s->cpus[t->cpu], t);
}

static void mm_exit(struct sim *s, struct sim_mm *mm)
{
	struct space *p = mm->state;
	struct near_idspace_stats before = p->ids.rest->counts;

	near_idspace_drain(&p->ids);
	add_rows(s, mm, &before);
	free(p->ids.blocks);
	free(p->rest.ids.used);
	free(p->rest.ready);
}

const struct sim_policy sim_policy_idspace = {
	.name = "idspace",
	.about = "near_idspace(3): one id in the cache of each CPU, hand-over, searches",
	.mm_init = mm_init,
	.mm_exit = mm_exit,
	.exit = worker_ends,
	.switch_to = switch_to,
};
