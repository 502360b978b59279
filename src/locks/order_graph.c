/* SPDX-License-Identifier: MIT */
/* Which lock was held when which was wanted, see order.h: a graph in tables of fixed size.
 *
 * Forgotten locks leave their edges behind until room is needed; then all is laid out anew. */
#include <string.h>

#include "order.h"

#define NODE_HEADS (NEAR__ORDER_NODES / 4)
#define EDGE_HEADS (NEAR__ORDER_EDGES / 4)
/* So that laying out anew is rare. */
#define WORTH_IT (NEAR__ORDER_NODES / 8)

static uint32_t hash(uint64_t value, uint32_t heads)
{
	return (uint32_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 40) % heads;
}

static uint32_t *node_head(struct near__order *o, const void *lock)
{
	return &o->node_heads[hash((uintptr_t)lock, NODE_HEADS)];
}

static uint32_t *edge_head(struct near__order *o, uint32_t from, uint32_t to)
{
	return &o->edge_heads[hash((uint64_t)from << 32 | to, EDGE_HEADS)];
}

static uint32_t find_node(struct near__order *o, const void *lock)
{
	uint32_t n = *node_head(o, lock);

	while (n && o->nodes[n].lock != lock)
		n = o->nodes[n].next;
	return n;
}

/* 0: no room. */
static uint32_t make_node(struct near__order *o, const void *lock)
{
	uint32_t n = o->nodes_free, *head = node_head(o, lock);

	if (n)
		o->nodes_free = o->nodes[n].next;
	else if (o->nodes_used + 1 < NEAR__ORDER_NODES)
		n = ++o->nodes_used;
	else
		return 0;
	o->nodes[n] = (struct near__order_node){.lock = lock, .next = *head};
	*head = n;
	return n;
}

static struct near__order_edge *find_edge(struct near__order *o, uint32_t from, uint32_t to)
{
	uint32_t e = *edge_head(o, from, to);

	while (e && (o->edges[e].from != from || o->edges[e].to != to))
		e = o->edges[e].next;
	return e ? &o->edges[e] : NULL;
}

static void link_edge(struct near__order *o, uint32_t e)
{
	struct near__order_edge *edge = &o->edges[e];
	uint32_t *head = edge_head(o, edge->from, edge->to), *out = &o->nodes[edge->from].out;

	edge->next = *head;
	*head = e;
	edge->next_out = *out;
	*out = e;
}

void near__order_drop_node(struct near__order *o, const void *lock)
{
	uint32_t n = find_node(o, lock), *link = node_head(o, lock);

	if (!n)
		return;
	while (*link != n)
		link = &o->nodes[*link].next;
	*link = o->nodes[n].next;
	o->nodes[n].lock = NULL;
	o->nodes_forgotten++;
}

/* What is left of the edges, and the places of forgotten nodes. */
static void lay_out_anew(struct near__order *o)
{
	uint32_t kept = 0;

	memset(o->edge_heads, 0, sizeof(o->edge_heads));
	o->nodes_free = 0;
	o->nodes_forgotten = 0;
	for (uint32_t n = 1; n <= o->nodes_used; n++) {
		o->nodes[n].out = 0;
		if (o->nodes[n].lock)
			continue;
		o->nodes[n].next = o->nodes_free;
		o->nodes_free = n;
	}
	for (uint32_t e = 1; e <= o->edges_used; e++) {
		if (!o->nodes[o->edges[e].from].lock || !o->nodes[o->edges[e].to].lock)
			continue;
		o->edges[++kept] = o->edges[e];
		link_edge(o, kept);
	}
	o->edges_used = kept;
}

static bool has_room(const struct near__order *o)
{
	return o->edges_used + 1 < NEAR__ORDER_EDGES &&
	       (o->nodes_free || o->nodes_used + 2 < NEAR__ORDER_NODES);
}

static bool make_room(struct near__order *o)
{
	if (!has_room(o) && o->nodes_forgotten >= WORTH_IT)
		lay_out_anew(o);
	return has_room(o);
}

/* Breadth first, so that the circle is the shortest: from one node to the other, by `via`. */
static bool find_way(struct near__order *o, uint32_t from, uint32_t to)
{
	uint32_t first = 0, last = 0, search = ++o->searches;

	o->nodes[from].seen = search;
	o->queue[last++] = from;
	while (first < last && o->nodes[to].seen != search) {
		uint32_t e = o->nodes[o->queue[first++]].out;

		for (; e; e = o->edges[e].next_out) {
			struct near__order_node *next = &o->nodes[o->edges[e].to];

			if (o->edges[e].closes || !next->lock || next->seen == search)
				continue;
			next->seen = search;
			next->via = e;
			o->queue[last++] = o->edges[e].to;
		}
	}
	return o->nodes[to].seen == search;
}

static void note_step(const struct near__order *o, struct near__order_step *step, uint32_t e)
{
	const struct near__order_edge *edge = &o->edges[e];

	step->held = (struct near__order_held){o->nodes[edge->from].lock, edge->from_site};
	step->wanted = (struct near__order_held){o->nodes[edge->to].lock, edge->to_site};
	step->owner = edge->owner;
}

/* The new edge, then the way from its end to its beginning, of which the last steps are left out if
 * there are too many. */
static void note_circle(const struct near__order *o, struct near__order_circle *circle, uint32_t e)
{
	uint32_t begin = o->edges[e].to, end = o->edges[e].from, n = end, at;

	for (circle->length = 1; n != begin; n = o->edges[o->nodes[n].via].from)
		circle->length++;
	note_step(o, &circle->steps[0], e);
	for (at = circle->length - 1, n = end; n != begin; n = o->edges[e].from, at--) {
		e = o->nodes[n].via;
		if (at < NEAR__ORDER_STEPS)
			note_step(o, &circle->steps[at], e);
	}
}

bool near__order_add(struct near__order *o, const struct near__order_step *pair,
		     struct near__order_circle *circle, bool *full)
{
	uint32_t from = find_node(o, pair->held.lock), to = find_node(o, pair->wanted.lock), e;

	if (from && to && find_edge(o, from, to))
		return false;
	*full = !make_room(o);
	if (*full)
		return false;
	/* Room was made: both nodes are still where they were. */
	from = from ? from : make_node(o, pair->held.lock);
	to = to ? to : make_node(o, pair->wanted.lock);
	*full = !from || !to;
	if (*full)
		return false;
	e = ++o->edges_used;
	o->edges[e] = (struct near__order_edge){
		.from = from,
		.to = to,
		.from_site = pair->held.site,
		.to_site = pair->wanted.site,
		.owner = pair->owner,
		.closes = find_way(o, to, from),
	};
	link_edge(o, e);
	if (o->edges[e].closes)
		note_circle(o, circle, e);
	return o->edges[e].closes;
}
