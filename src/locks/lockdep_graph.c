/* SPDX-License-Identifier: MIT */
/* The lock-order checker's graph of locks, in tables of fixed size: an edge leads from a lock that
 * was held to one that was wanted.
 *
 * The edges of a destroyed lock stay until room is needed; then the tables are rebuilt. */
#include <string.h>

#include "lockdep.h"

#define NODE_HEADS (NEAR__LOCKDEP_NODES / 4)
#define EDGE_HEADS (NEAR__LOCKDEP_EDGES / 4)
/* So that rebuilding is rare. */
#define WORTH_REBUILDING (NEAR__LOCKDEP_NODES / 8)

static uint32_t hash(uint64_t value, uint32_t heads)
{
	return (uint32_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 40) % heads;
}

static uint32_t *node_head(struct near__lockdep *d, const void *lock)
{
	return &d->node_heads[hash((uintptr_t)lock, NODE_HEADS)];
}

static uint32_t *edge_head(struct near__lockdep *d, uint32_t from, uint32_t to)
{
	return &d->edge_heads[hash((uint64_t)from << 32 | to, EDGE_HEADS)];
}

static uint32_t find_node(struct near__lockdep *d, const void *lock)
{
	uint32_t n = *node_head(d, lock);

	while (n && d->nodes[n].lock != lock)
		n = d->nodes[n].next;
	return n;
}

/* 0: no room. */
static uint32_t make_node(struct near__lockdep *d, const void *lock)
{
	uint32_t n = d->nodes_free, *head = node_head(d, lock);

	if (n)
		d->nodes_free = d->nodes[n].next;
	else if (d->nodes_used + 1 < NEAR__LOCKDEP_NODES)
		n = ++d->nodes_used;
	else
		return 0;
	d->nodes[n] = (struct near__lockdep_node){.lock = lock, .next = *head};
	*head = n;
	return n;
}

static struct near__lockdep_edge *find_edge(struct near__lockdep *d, uint32_t from, uint32_t to)
{
	uint32_t e = *edge_head(d, from, to);

	while (e && (d->edges[e].from != from || d->edges[e].to != to))
		e = d->edges[e].next;
	return e ? &d->edges[e] : NULL;
}

static void link_edge(struct near__lockdep *d, uint32_t e)
{
	struct near__lockdep_edge *edge = &d->edges[e];
	uint32_t *head = edge_head(d, edge->from, edge->to), *out = &d->nodes[edge->from].out;

	edge->next = *head;
	*head = e;
	edge->next_out = *out;
	*out = e;
}

void near__lockdep_drop_node(struct near__lockdep *d, const void *lock)
{
	uint32_t n = find_node(d, lock), *link = node_head(d, lock);

	if (!n)
		return;
	while (*link != n)
		link = &d->nodes[*link].next;
	*link = d->nodes[n].next;
	d->nodes[n].lock = NULL;
	d->nodes_destroyed++;
}

/* Keeps the edges between locks that exist; puts the other nodes into the free list. */
static void rebuild(struct near__lockdep *d)
{
	uint32_t kept = 0;

	memset(d->edge_heads, 0, sizeof(d->edge_heads));
	d->nodes_free = 0;
	d->nodes_destroyed = 0;
	for (uint32_t n = 1; n <= d->nodes_used; n++) {
		d->nodes[n].out = 0;
		if (d->nodes[n].lock)
			continue;
		d->nodes[n].next = d->nodes_free;
		d->nodes_free = n;
	}
	for (uint32_t e = 1; e <= d->edges_used; e++) {
		if (!d->nodes[d->edges[e].from].lock || !d->nodes[d->edges[e].to].lock)
			continue;
		d->edges[++kept] = d->edges[e];
		link_edge(d, kept);
	}
	d->edges_used = kept;
}

static bool has_room(const struct near__lockdep *d)
{
	return d->edges_used + 1 < NEAR__LOCKDEP_EDGES &&
	       (d->nodes_free || d->nodes_used + 2 < NEAR__LOCKDEP_NODES);
}

static bool make_room(struct near__lockdep *d)
{
	if (!has_room(d) && d->nodes_destroyed >= WORTH_REBUILDING)
		rebuild(d);
	return has_room(d);
}

/* Whether a path leads from one node to the other; `via` of each of its nodes is the edge to that
 * node. Breadth first, so that the cycle is the shortest. */
static bool find_path(struct near__lockdep *d, uint32_t from, uint32_t to)
{
	uint32_t first = 0, last = 0, search = ++d->searches;

	d->nodes[from].seen = search;
	d->queue[last++] = from;
	while (first < last && d->nodes[to].seen != search) {
		uint32_t e = d->nodes[d->queue[first++]].out;

		for (; e; e = d->edges[e].next_out) {
			struct near__lockdep_node *next = &d->nodes[d->edges[e].to];

			if (d->edges[e].closes || !next->lock || next->seen == search)
				continue;
			next->seen = search;
			next->via = e;
			d->queue[last++] = d->edges[e].to;
		}
	}
	return d->nodes[to].seen == search;
}

static void copy_step(const struct near__lockdep *d, struct near__lockdep_step *step, uint32_t e)
{
	const struct near__lockdep_edge *edge = &d->edges[e];

	step->held = (struct near__lockdep_held){d->nodes[edge->from].lock, edge->from_site};
	step->wanted = (struct near__lockdep_held){d->nodes[edge->to].lock, edge->to_site};
	step->owner = edge->owner;
}

/* The new edge, then the path from its end to its beginning, without its last steps if there are
 * too many. */
static void copy_cycle(const struct near__lockdep *d, struct near__lockdep_cycle *cycle, uint32_t e)
{
	uint32_t begin = d->edges[e].to, end = d->edges[e].from, n = end, at;

	for (cycle->length = 1; n != begin; n = d->edges[d->nodes[n].via].from)
		cycle->length++;
	copy_step(d, &cycle->steps[0], e);
	for (at = cycle->length - 1, n = end; n != begin; n = d->edges[e].from, at--) {
		e = d->nodes[n].via;
		if (at < NEAR__LOCKDEP_STEPS)
			copy_step(d, &cycle->steps[at], e);
	}
}

bool near__lockdep_add(struct near__lockdep *d, const struct near__lockdep_step *pair,
		       struct near__lockdep_cycle *cycle, bool *full)
{
	uint32_t from = find_node(d, pair->held.lock), to = find_node(d, pair->wanted.lock), e;

	if (from && to && find_edge(d, from, to))
		return false;
	*full = !make_room(d);
	if (*full)
		return false;
	/* With room for both, neither node has moved. */
	from = from ? from : make_node(d, pair->held.lock);
	to = to ? to : make_node(d, pair->wanted.lock);
	*full = !from || !to;
	if (*full)
		return false;
	e = ++d->edges_used;
	d->edges[e] = (struct near__lockdep_edge){
		.from = from,
		.to = to,
		.from_site = pair->held.site,
		.to_site = pair->wanted.site,
		.owner = pair->owner,
		.closes = find_path(d, to, from),
	};
	link_edge(d, e);
	if (d->edges[e].closes)
		copy_cycle(d, cycle, e);
	return d->edges[e].closes;
}
