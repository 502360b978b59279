/* SPDX-License-Identifier: MIT */
/* Random histories of a space, step by step against a simple model: which worker has which id. One
 * thread enters the slots in turn (slots.h), so the same seed gives the same history. */
#ifndef NEARCPU_TESTS_HISTORIES_H
#define NEARCPU_TESTS_HISTORIES_H

#include "ids.h"

#include "single.h"
#include "slots.h"

#define HISTORY_NODES 3
#define HISTORY_MOST 200u /* ids, and workers */

/* How a history differs from others. */
struct history_kind {
	unsigned ids, workers;
	unsigned places;    /* slots that workers run on */
	unsigned nodes;     /* place p is on node p modulo this */
	bool single;        /* the library takes the process for one with a single thread */
	unsigned wandering; /* in percent: how often a release is elsewhere than its acquire */
};

struct history {
	struct history_kind kind;
	struct near_idspace space;
	struct near_worker workers[HISTORY_MOST];
	unsigned place[HISTORY_MOST]; /* of each worker */
	int owner[HISTORY_MOST];      /* of each id: the worker, or -1 */
	int node[HISTORY_MOST];       /* of each id: constant from the first time on; before, -1 */
	uint64_t *uses;               /* data of each id */
	uint64_t expected[HISTORY_MOST];
	unsigned in_use, of_node[HISTORY_NODES]; /* that workers have */
	unsigned peak[HISTORY_NODES];
	bool visited[SLOTS_CPUS];
	unsigned caches; /* places that were visited, and as many fallback slots */
	uint64_t transfers, random;
};

/* Makes this thread run there. */
void history_enter(unsigned place, unsigned node);

static inline unsigned history_node(const struct history *h, unsigned place)
{
	return place % h->kind.nodes;
}

static inline void history_go(struct history *h, unsigned place)
{
	history_enter(place, history_node(h, place));
	if (!h->visited[place])
		h->caches += 2;
	h->visited[place] = true;
}

static inline void history_begin(struct history *h, struct history_kind kind, uint64_t seed)
{
	memset(h, 0, sizeof(*h));
	h->kind = kind;
	h->random = seed;
	ids_single = kind.single;
	ids_init(&h->space, kind.ids, 64);
	CHECK(near_idspace_alloc(&h->space, 8, 8, (void **)&h->uses) == 0);
	memset(h->owner, 0xff, sizeof(h->owner));
	memset(h->node, 0xff, sizeof(h->node));
}

static inline uint64_t *history_data(const struct history *h, int id)
{
	return near_idspace_at(&h->space, h->uses, id);
}

/* Ids of the node, or of none yet, that no worker has. */
static inline bool history_has_free(const struct history *h, unsigned node)
{
	for (unsigned i = 0; i < h->kind.ids; i++)
		if (h->owner[i] < 0 && (h->node[i] < 0 || h->node[i] == (int)node))
			return true;
	return false;
}

/* What is in use or cached never exceeds the peaks of the nodes and the caches. */
static inline void history_check(struct history *h)
{
	struct near_idspace_stats st = ids_stats(&h->space);
	unsigned peaks = 0;

	for (unsigned i = 0; i < HISTORY_NODES; i++)
		peaks += h->peak[i];
	CHECK(st.used - st.cached == h->in_use);
	CHECK(st.cached <= h->caches);
	CHECK(st.highest <= peaks + h->caches);
	CHECK(st.transfers == h->transfers);
	CHECK(h->kind.nodes > 1 || st.foreign == 0);
}

static inline void history_uses(struct history *h, unsigned worker)
{
	int id = near_worker_id(&h->workers[worker]);

	CHECK(h->owner[id] == (int)worker);
	CHECK(*history_data(h, id) == h->expected[id]);
	h->expected[id] = ++*history_data(h, id);
}

static inline void history_acquired(struct history *h, unsigned worker, int id)
{
	int node = (int)near__idspace_block(&h->space, (uint64_t)id)->node;
	unsigned here = history_node(h, h->place[worker]);

	CHECK((unsigned)id < h->kind.ids && h->owner[id] < 0);
	CHECK(h->node[id] < 0 || h->node[id] == node);
	CHECK(node == (int)here || !history_has_free(h, here));
	/* One with others' ids in caches has the lowest, if there are no nodes. */
	if (h->kind.single && h->kind.nodes == 1 && h->in_use == 0)
		CHECK(id == 0 || h->kind.workers > 1);
	h->node[id] = node;
	h->owner[id] = (int)worker;
	h->in_use++;
	if (++h->of_node[node] > h->peak[node])
		h->peak[node] = h->of_node[node];
	history_uses(h, worker);
}

static inline void history_acquire(struct history *h, unsigned worker)
{
	int id;

	h->place[worker] = unit_random(&h->random) % h->kind.places;
	history_go(h, h->place[worker]);
	id = ids_acquire(&h->space, &h->workers[worker]);
	if (id >= 0)
		history_acquired(h, worker, id);
	else
		CHECK(id == -EAGAIN && h->in_use == h->kind.ids);
}

static inline void history_release(struct history *h, unsigned worker)
{
	int id = near_worker_id(&h->workers[worker]);

	if (unit_random(&h->random) % 100 < h->kind.wandering)
		h->place[worker] = unit_random(&h->random) % h->kind.places;
	history_go(h, h->place[worker]);
	history_uses(h, worker);
	h->owner[id] = -1;
	h->of_node[h->node[id]]--;
	h->in_use--;
	ids_release(&h->space, &h->workers[worker]);
}

static inline void history_hand_over(struct history *h, unsigned from, unsigned to)
{
	int id = near_worker_id(&h->workers[from]);

	history_uses(h, from);
	h->owner[id] = (int)to;
	h->place[to] = h->place[from];
	h->transfers++;
	CHECK(near_idspace_hand_over(&h->space, &h->workers[from], &h->workers[to]) == id);
	history_uses(h, to);
}

static inline void history_step(struct history *h)
{
	unsigned worker = unit_random(&h->random) % h->kind.workers;
	unsigned other = unit_random(&h->random) % h->kind.workers;
	bool has = near_worker_id(&h->workers[worker]) >= 0;

	if (unit_random(&h->random) % 500 == 0)
		near_idspace_drain(&h->space);
	else if (!has)
		history_acquire(h, worker);
	else if (near_worker_id(&h->workers[other]) < 0 && unit_random(&h->random) % 4 == 0)
		history_hand_over(h, worker, other);
	else
		history_release(h, worker);
}

/* All ids can be had in the end, each once. */
static inline void history_end(struct history *h)
{
	for (unsigned i = 0; i < h->kind.workers; i++)
		if (near_worker_id(&h->workers[i]) >= 0)
			history_release(h, i);
	history_check(h);
	for (unsigned i = 0; i < h->kind.ids; i++)
		history_acquire(h, i);
	CHECK(h->in_use == h->kind.ids);
	for (unsigned i = 0; i < h->kind.ids; i++)
		history_release(h, i);
	slots_leave();
	KEEPS_ERRNO(near_idspace_destroy(&h->space));
}

static inline void history_run(struct history_kind kind, unsigned steps)
{
	static struct history h;

	for (uint64_t seed = 1; seed <= 4; seed++) {
		history_begin(&h, kind, seed);
		for (unsigned i = 0; i < steps; i++) {
			history_step(&h);
			history_check(&h);
		}
		history_end(&h);
	}
}

/* Most are idle, then most are busy, and so on: after each peak the caches are more than the
 * workers. */
static inline void history_waves(struct history_kind kind, unsigned waves)
{
	static struct history h;
	unsigned all = kind.workers;

	history_begin(&h, kind, 7);
	for (unsigned i = 0; i < waves; i++) {
		for (unsigned k = 0; k < all; k++)
			if (near_worker_id(&h.workers[k]) < 0)
				history_acquire(&h, k);
		history_check(&h);
		for (unsigned k = i % 3; k < all; k++)
			if (near_worker_id(&h.workers[k]) >= 0)
				history_release(&h, k);
		h.kind.workers = i % 3 + 1;
		for (unsigned k = 0; k < 200; k++) {
			history_step(&h);
			history_check(&h);
		}
		h.kind.workers = all;
	}
	history_end(&h);
}

#endif
