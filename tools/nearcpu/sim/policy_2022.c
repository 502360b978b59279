/* SPDX-License-Identifier: MIT */
/* The policy of the talk of 2022: a bitmap of ids for each process, and three optimizations.
 *
 * Source: "[PATCH v3 09/23] sched: Introduce per memory space current virtual cpu id", M.
 * Desnoyers, 29 July 2022. With nodes, each id belongs to one node for the life of the process: a
 * bitmap for each node, and one of all ids that have a node. The patch's case of nodes that change
 * is left out. Each optimization can be switched off; without the cache a thread gives its id
 * back when it stops, unless it hands it over.
 */
#include "common/memory.h"
#include "sim/sim.h"

#define ENTRIES 8 /* RQ_VCPU_CACHE_SIZE */

struct cache {
	struct entry {
		struct sim_mm *mm; /* NULL: free */
		unsigned id;
	} entries[ENTRIES];
	unsigned head;
};

struct node_masks {
	struct bits all;
	struct bits node[];
};

static void mm_init(struct sim *s, struct sim_mm *mm)
{
	if (s->params.nodes > 1)
		mm->state = allocate_zeros(1, sizeof(struct node_masks) +
						      s->params.nodes * sizeof(struct bits));
}

static bool is_of_node(const struct sim_mm *mm, unsigned id, unsigned node)
{
	struct node_masks *m = mm->state;

	return !m || bits_test(&m->node[node], id);
}

static struct entry *lookup(struct sim_cpu *cpu, const struct sim_mm *mm)
{
	struct cache *c = cpu->state;

	for (unsigned i = 0; c && i < ENTRIES; i++)
		if (c->entries[i].mm == mm)
			return &c->entries[i];
	return NULL;
}

static void remove_entry(struct sim *s, struct sim_cpu *cpu, struct sim_mm *mm, enum sim_row row)
{
	struct entry *e = lookup(cpu, mm);

	if (!e)
		return;
	e->mm = NULL;
	sim_row(s, row);
	sim_id_drop(s, mm, e->id);
}

static void add_entry(struct sim *s, struct sim_cpu *cpu, struct sim_mm *mm, unsigned id)
{
	struct cache *c = cpu->state;
	struct entry *e;

	if (!c)
		c = cpu->state = allocate_zeros(1, sizeof(*c));
	e = &c->entries[c->head];
	if (e->mm) {
		sim_row(s, ROW_EVICT);
		sim_id_drop(s, e->mm, e->id);
	}
	*e = (struct entry){mm, id};
	c->head = (c->head + 1) % ENTRIES;
}

static void give_node(const struct sim *s, struct node_masks *m, unsigned id, unsigned node)
{
	for (unsigned i = 0; i < s->params.nodes; i++)
		bits_clear(&m->node[i], id);
	bits_set(&m->node[node], id);
	bits_set(&m->all, id);
}

/* Takes an id of the node that is free, else one without a node, else any. */
static unsigned allocate(struct sim *s, struct sim_mm *mm, unsigned node)
{
	struct node_masks *m = mm->state;
	unsigned limit = s->cpu_count, id = limit;

	if (m) {
		id = bits_first_of(&m->node[node], true, &mm->ids, limit);
		if (id == limit)
			id = bits_first_of(&m->all, false, &mm->ids, limit);
	}
	if (id == limit)
		id = bits_first_zero(&mm->ids, limit);
	if (m)
		give_node(s, m, id, node);
	sim_id_take(s, mm, id);
	return id;
}

/* The constants of a process with one thread stay on their nodes when it gets more. */
static void reserve(struct sim *s, struct sim_mm *mm)
{
	struct node_masks *m = mm->state;

	for (unsigned node = 0; m && node < s->params.nodes; node++)
		give_node(s, m, node, node);
}

/* For the task itself or, as a rule, for the cache of the CPU. */
static int id_new(struct sim *s, struct sim_cpu *cpu, struct sim_task *t)
{
	unsigned id = allocate(s, t->mm, cpu->node);

	if (s->policy->flags & SIM_NO_CACHE)
		t->owns = true;
	else
		add_entry(s, cpu, t->mm, id);
	return (int)id;
}

static int id_get(struct sim *s, struct sim_cpu *cpu, struct sim_task *t)
{
	struct entry *e;

	if (t->mm->users == 1 && !(s->policy->flags & SIM_NO_SINGLE)) {
		sim_row(s, ROW_SINGLE);
		return (int)cpu->node;
	}
	e = lookup(cpu, t->mm);
	if (e && is_of_node(t->mm, e->id, cpu->node)) {
		sim_row(s, ROW_HIT);
		return (int)e->id;
	}
	if (e)
		remove_entry(s, cpu, t->mm, ROW_DISCARD);
	sim_row(s, ROW_ALLOCATE);
	return id_new(s, cpu, t);
}

static void id_release(struct sim *s, struct sim_task *t, enum sim_row row)
{
	if (!t->owns)
		return;
	t->owns = false;
	sim_row(s, row);
	sim_id_drop(s, t->mm, (unsigned)t->id);
}

static void switch_to(struct sim *s, struct sim_cpu *cpu, struct sim_task *prev,
		      struct sim_task *next)
{
	bool both = sim_is_user(prev) && sim_is_user(next) && prev->mm == next->mm;

	if (both && !(s->policy->flags & SIM_NO_TRANSFER) &&
	    is_of_node(next->mm, (unsigned)prev->id, cpu->node)) {
		sim_row(s, ROW_TRANSFER);
		next->id = prev->id;
		next->owns = prev->owns;
		prev->owns = false;
	} else {
		id_release(s, prev, ROW_RELEASE);
		if (sim_is_user(next))
			next->id = id_get(s, cpu, next);
	}
	if (sim_is_user(prev))
		prev->id = SIM_NO_ID;
}

static void task_forked(struct sim *s, struct sim_task *parent, struct sim_task *child)
{
	struct sim_mm *mm = child->mm;
	struct sim_cpu *cpu;

	if (!parent || mm->users != 2 || (s->policy->flags & SIM_NO_SINGLE))
		return;
	cpu = &s->cpus[parent->cpu];
	reserve(s, mm);
	id_release(s, parent, ROW_EXIT);
	remove_entry(s, cpu, mm, ROW_EXIT);
	parent->id = id_new(s, cpu, parent);
}

static void task_ends(struct sim *s, struct sim_task *t)
{
	id_release(s, t, ROW_EXIT);
	remove_entry(s, &s->cpus[t->cpu], t->mm, ROW_EXIT);
}

/* The cache keeps the id while the CPU runs another thread of the process. */
static void migrate(struct sim *s, struct sim_task *t, unsigned to)
{
	struct sim_cpu *from = &s->cpus[t->cpu];

	(void)to;
	if (from->curr->mm != t->mm)
		remove_entry(s, from, t->mm, ROW_MIGRATE);
}

const struct sim_policy sim_policy_2022 = {
	.name = "2022",
	.about = "the talk: constant for one thread, hand-over, caches of run queues",
	.mm_init = mm_init,
	.fork = task_forked,
	.exit = task_ends,
	.migrate = migrate,
	.switch_to = switch_to,
};
