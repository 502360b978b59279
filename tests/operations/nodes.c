/* SPDX-License-Identifier: MIT */
/* Stack, queue, and what blocks.c operates on: all hold nodes, of which each is in one place. */
#include "objects.h"

#include <stdlib.h>

#include "percpu/percpu.h"
#include "queue/queue.h"

static bool create(void)
{
	void *blocks;

	if (near_stack_init(&OBJ.stack) || near_queue_init(&OBJ.queue, OPS_QUEUED + 1) ||
	    near_percpu_alloc(sizeof(*OBJ.blocks), sizeof(uint64_t), &blocks))
		return false;
	OBJ.blocks = blocks;
	ops_cells[0].at = (uintptr_t)((struct ring *)OBJ.queue.p)->cells;
	ops_cells[0].bytes = (OBJ.queue.mask + 1) * sizeof(void *);
	ops_cells[1].at = (uintptr_t)OBJ.blocks->words;
	ops_cells[1].bytes = sizeof(OBJ.blocks->words);
	return true;
}

static void fill(void)
{
	for (unsigned i = 0; i < OPS_FIRST_NODES && OBJ.setup != OPS_EMPTY; i++)
		call_push(&OBJ.nodes[i]);
	for (unsigned i = 0; i < OPS_QUEUED; i++)
		call_queue_put(&OBJ.nodes[OPS_FIRST_QUEUED + i]);
	blocks_fill();
}

static void enter(void)
{
	struct near_stack_node node;

	call_push(&node);
	if (call_pop() != &node)
		abort();
	blocks_enter();
}

static void destroy(void)
{
	near_stack_destroy(&OBJ.stack);
	near_queue_destroy(&OBJ.queue);
	near_percpu_free(OBJ.blocks);
}

/* ---- where the nodes are ---- */

static const struct near_stack_node *list_of(unsigned slot)
{
	return *(struct near_stack_node **)near_percpu_at(OBJ.stack.p, slot);
}

static void put_stack(struct ops_text *t)
{
	put(t, " stack");
	for (unsigned s = 0; near_percpu_next(OBJ.stack.p, &s); s++) {
		const struct near_stack_node *n = list_of(s);
		unsigned left = OPS_NODES + 1; /* a ring must end, too */

		if (!n)
			continue;
		put_field(t, " ", s);
		put(t, ":");
		for (; n && left; n = n->next, left--)
			put_field(t, ".", node_id(n));
	}
}

/* Calls see(element) for each in the rings. False: it returned false. */
static bool each_queued(bool (*see)(void *arg, unsigned slot, const void *element), void *arg)
{
	const struct near_queue *q = &OBJ.queue;

	for (unsigned s = 0; near_percpu_next(q->p, &s); s++) {
		const struct ring *r = ring_of(q, s);

		for (uint64_t i = r->head; i != r->tail; i++)
			if (i - r->head > q->mask || !see(arg, s, r->cells[i & q->mask]))
				return false;
	}
	return true;
}

static bool put_queued(void *t, unsigned slot, const void *element)
{
	put_field(t, " ", slot);
	put_field(t, ":", node_id(element));
	return true;
}

static void describe(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	put_stack(t);
	put(t, " queue");
	each_queued(put_queued, t);
}

/* Marks the nodes that are in lists; false if one is in them twice. */
static bool mark_lists(unsigned char *seen)
{
	for (unsigned s = 0; near_percpu_next(OBJ.stack.p, &s); s++)
		for (const struct near_stack_node *n = list_of(s); n; n = n->next)
			if (node_id(n) < 0 || seen[node_id(n)]++)
				return false;
	return true;
}

static bool mark_queued(void *seen, unsigned slot, const void *element)
{
	(void)slot;
	return node_id(element) >= 0 && !((unsigned char *)seen)[node_id(element)]++;
}

static bool mark_results(unsigned char *seen, const struct actor *a)
{
	for (unsigned i = 0; i < a->n; i++) {
		int id = node_id(a->results[i]);

		if (id >= 0 && seen[id]++)
			return false;
	}
	return true;
}

static void mark_unused(unsigned char *seen, const struct actor *a)
{
	for (unsigned i = a->pushed; i < OPS_OWN_NODES; i++)
		seen[OPS_FIRST_NODES + a->id * OPS_OWN_NODES + i]++;
}

static const char *conserved(const struct actor *a, const struct actor *b)
{
	unsigned char seen[OPS_NODES] = {0};

	for (unsigned i = 0; i < OPS_FIRST_NODES && OBJ.setup == OPS_EMPTY; i++)
		seen[i]++;
	mark_unused(seen, a);
	mark_unused(seen, b);
	if (!mark_lists(seen) || !each_queued(mark_queued, seen) || !blocks_mark(seen) ||
	    !mark_results(seen, a) || !mark_results(seen, b))
		return "a node is in two places of stack, queue and blocks, or no node";
	for (unsigned i = 0; i < OPS_NODES; i++)
		if (!seen[i])
			return "a node of the stack or the queue is lost";
	return NULL;
}

const struct ops_kind kind_nodes = {
	.create = create,
	.fill = fill,
	.enter = enter,
	.destroy = destroy,
	.describe = describe,
	.conserved = conserved,
};
