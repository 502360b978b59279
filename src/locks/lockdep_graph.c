/* SPDX-License-Identifier: MIT */
/* The lock-order checker's graph of locks, in tables of fixed size: an edge leads from a lock that
 * was held to one that was wanted.
 *
 * The edges of a destroyed lock stay until room is needed; then the tables are rebuilt. */
#include <string.h>

#include "locks/lockdep.h"

/* The locks in this many bytes are in one list: a block that is freed has few lists, and a list few
 * locks. */
#define LIST_BYTES 256
#define EDGE_HEADS (NEAR__LOCKDEP_EDGES / 4)
/* So that rebuilding is rare. */
#define WORTH_REBUILDING (NEAR__LOCKDEP_NODES / 8)

static uint32_t graph_hash(uint64_t value, uint32_t heads)
{
	return (uint32_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> 40) % heads;
}

static uint32_t node_list(const void *lock)
{
	return graph_hash((uintptr_t)lock / LIST_BYTES, NEAR__LOCKDEP_HEADS);
}

/* Relaxed: pairs with the load in near__lockdep_may_have. */
static void set_link(uint32_t *link, uint32_t n)
{
	__atomic_store_n(link, n, __ATOMIC_RELAXED);
}

static uint32_t *edge_head(struct near__lockdep *d, uint32_t from, uint32_t to)
{
	return &d->edge_heads[graph_hash((uint64_t)from << 32 | to, EDGE_HEADS)];
}

static uint32_t find_node(struct near__lockdep *d, const void *lock)
{
	uint32_t n = d->node_heads[node_list(lock)];

	while (n && d->nodes[n].lock != lock)
		n = d->nodes[n].next;
	return n;
}

/* 0: no room. */
static uint32_t make_node(struct near__lockdep *d, const void *lock)
{
	uint32_t n = d->nodes_free, *head = &d->node_heads[node_list(lock)];

	if (n)
		d->nodes_free = d->nodes[n].next;
	else if (d->nodes_used + 1 < NEAR__LOCKDEP_NODES)
		n = ++d->nodes_used;
	else
		return 0;
	d->nodes[n] = (struct near__lockdep_node){.lock = lock, .next = *head};
	set_link(head, n);
	return n;
}

/* 0: there is none. */
static uint32_t find_edge(struct near__lockdep *d, uint32_t from, uint32_t to)
{
	uint32_t e = *edge_head(d, from, to);

	while (e && (d->edges[e].from != from || d->edges[e].to != to))
		e = d->edges[e].next;
	return e;
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

/* How many lists have the locks in n bytes from p on, and which is the i-th of them. */
static uint32_t lists_in(const void *p, uint64_t n)
{
	uint64_t lists = ((uintptr_t)p % LIST_BYTES + n + LIST_BYTES - 1) / LIST_BYTES;

	return lists < NEAR__LOCKDEP_HEADS ? (uint32_t)lists : NEAR__LOCKDEP_HEADS;
}

static uint32_t list_in(const void *p, uint32_t lists, uint32_t i)
{
	return lists < NEAR__LOCKDEP_HEADS ? node_list((const char *)p + i * LIST_BYTES) : i;
}

/* The store that linked the node of such a lock comes before this load, as all uses of the lock do:
 * the load returns its value or a later one, and none of these is 0 until the node is dropped.
 * Relaxed: the lists are read with the lock. */
bool near__lockdep_may_have(const struct near__lockdep *d, const void *p, uint64_t n)
{
	uint32_t lists = lists_in(p, n);

	for (uint32_t i = 0; i < lists; i++)
		if (__atomic_load_n(&d->node_heads[list_in(p, lists, i)], __ATOMIC_RELAXED))
			return true;
	return false;
}

void near__lockdep_drop_nodes(struct near__lockdep *d, const void *p, uint64_t n)
{
	uint32_t lists = lists_in(p, n);

	for (uint32_t i = 0; i < lists; i++)
		for (uint32_t *link = &d->node_heads[list_in(p, lists, i)]; *link;) {
			struct near__lockdep_node *node = &d->nodes[*link];

			if ((uintptr_t)node->lock - (uintptr_t)p >= n) {
				link = &node->next;
				continue;
			}
			set_link(link, node->next);
			node->lock = NULL;
			d->nodes_destroyed++;
		}
}

/* Keeps the edges between locks that exist; puts the other nodes into the free list. */
static void graph_rebuild(struct near__lockdep *d)
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

static bool graph_make_room(struct near__lockdep *d)
{
	if (!has_room(d) && d->nodes_destroyed >= WORTH_REBUILDING)
		graph_rebuild(d);
	return has_room(d);
}

/* Follows the edges of a node that the search reached by `by`. */
static uint32_t graph_follow(struct near__lockdep *d, uint32_t node, uint32_t by, uint32_t owner,
			     uint32_t last)
{
	for (uint32_t e = d->nodes[node].out; e; e = d->edges[e].next_out) {
		struct near__lockdep_node *next = &d->nodes[d->edges[e].to];
		uint32_t on = by | (d->edges[e].owner != owner);

		if (d->edges[e].closes || !next->lock || next->seen[on] == d->searches)
			continue;
		next->seen[on] = d->searches;
		next->via[on] = e * 2 + by;
		d->queue[last++] = d->edges[e].to * 2 + on;
	}
	return last;
}

/* Whether the path to [1] of a node, which may begin with [0] of others, has a node twice: then it
 * is no cycle but two that share a node, and the search goes by the shorter path to [0]. (A longer
 * path to [1] without that is not searched for: that cycle is found with its next edge.) */
static bool is_crossed(struct near__lockdep *d, uint32_t from, uint32_t to)
{
	uint32_t n = to, on = 1, mark = ++d->searches;

	while (d->nodes[n].seen[0] != mark) {
		uint32_t via = d->nodes[n].via[on];

		d->nodes[n].seen[0] = mark;
		if (n == from && !on)
			return false;
		n = d->edges[via / 2].from;
		on = via % 2;
	}
	return true;
}

/* Whether a path leads from one node to the other: 1 if not all of its edges were made by this
 * thread alone, 0 if they were, -1: there is none. Breadth first: the cycle is the shortest. */
static int find_path(struct near__lockdep *d, uint32_t from, uint32_t to, uint32_t owner)
{
	uint32_t first = 0, last = 0, search = ++d->searches;
	bool alone; /* before is_crossed marks nodes */

	d->nodes[from].seen[0] = search;
	d->queue[last++] = from * 2;
	while (first < last && d->nodes[to].seen[1] != search) {
		uint32_t state = d->queue[first++];

		last = graph_follow(d, state / 2, state % 2, owner, last);
	}
	alone = d->nodes[to].seen[0] == search;
	if (d->nodes[to].seen[1] == search && !is_crossed(d, from, to))
		return 1;
	return alone ? 0 : -1;
}

static void copy_step(const struct near__lockdep *d, struct near__lockdep_step *step, uint32_t e)
{
	const struct near__lockdep_edge *edge = &d->edges[e];

	step->held = (struct near__lockdep_held){d->nodes[edge->from].lock, edge->from_site};
	step->wanted = (struct near__lockdep_held){d->nodes[edge->to].lock, edge->to_site};
	step->owner = edge->owner;
}

/* The edge, then the path from its end to its beginning, without its last steps if there are too
 * many. */
static void copy_cycle(const struct near__lockdep *d, struct near__lockdep_cycle *cycle, uint32_t e,
		       uint32_t on)
{
	uint32_t begin = d->edges[e].to, end = d->edges[e].from, n = end, at = on;

	for (cycle->length = 1; n != begin; cycle->length++) {
		uint32_t via = d->nodes[n].via[at];

		n = d->edges[via / 2].from;
		at = via % 2;
	}
	copy_step(d, &cycle->steps[0], e);
	for (at = cycle->length - 1, n = end; n != begin; n = d->edges[e].from, at--) {
		e = d->nodes[n].via[on] / 2;
		on = d->nodes[n].via[on] % 2;
		if (at < NEAR__LOCKDEP_STEPS)
			copy_step(d, &cycle->steps[at], e);
	}
}

/* 0: no room. */
static uint32_t make_edge(struct near__lockdep *d, const struct near__lockdep_step *pair)
{
	uint32_t from, to, e;

	if (!graph_make_room(d))
		return 0;
	/* With room for both, neither node moves. */
	from = find_node(d, pair->held.lock);
	to = find_node(d, pair->wanted.lock);
	from = from ? from : make_node(d, pair->held.lock);
	to = to ? to : make_node(d, pair->wanted.lock);
	if (!from || !to)
		return 0;
	e = ++d->edges_used;
	d->edges[e] = (struct near__lockdep_edge){
		.from = from,
		.to = to,
		.from_site = pair->held.site,
		.to_site = pair->wanted.site,
		.owner = pair->owner,
	};
	link_edge(d, e);
	return e;
}

/* A cycle by one thread is no deadlock. It becomes one when another thread makes any of its edges:
 * so a known edge is searched from once more when a second thread makes it. */
bool near__lockdep_add(struct near__lockdep *d, const struct near__lockdep_step *pair,
		       struct near__lockdep_cycle *cycle, bool *full)
{
	uint32_t from = find_node(d, pair->held.lock), to = find_node(d, pair->wanted.lock);
	uint32_t e = from && to ? find_edge(d, from, to) : 0;
	struct near__lockdep_edge *edge = &d->edges[e];
	int path;

	if (e && (edge->owner == pair->owner || edge->owner == NEAR__LOCKDEP_SEVERAL))
		return false;
	if (e) {
		edge->owner = NEAR__LOCKDEP_SEVERAL;
	} else {
		e = make_edge(d, pair);
		edge = &d->edges[e];
		*full = !e;
	}
	if (!e || edge->closes)
		return false;
	path = find_path(d, edge->to, edge->from, edge->owner);
	if (path < 0)
		return false;
	cycle->alone = !path && edge->owner != NEAR__LOCKDEP_SEVERAL;
	edge->closes = !cycle->alone;
	copy_cycle(d, cycle, e, (uint32_t)path);
	cycle->steps[0] = *pair;
	return true;
}
