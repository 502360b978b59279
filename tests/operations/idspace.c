/* SPDX-License-Identifier: MIT */
/* The operations of near_idspace. Of the ids, two are each actor's in the beginning, one is cached
 * on the first slot, and the others are free. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "idspace/idspace.h"

#define S OBJ.ids.space
#define OTHER_NODE 7 /* that no slot has */

enum {
	OWN,
	NONE,
	FOREIGN,
	LAST
}; /* the workers of an actor: those with an id, and those without */

__attribute__((noinline)) static int acquire(struct near_worker *w)
{
	return near_idspace_acquire(&S, w);
}

__attribute__((noinline)) static void release(struct near_worker *w)
{
	near_idspace_release(&S, w);
}

static struct near_worker *workers(const struct actor *me)
{
	return OBJ.ids.workers[me->id];
}

void ids_acquire(struct actor *me)
{
	number(me, acquire(&workers(me)[NONE]));
}

/* Without a failure before it. */
void ids_acquire_slow(struct actor *me)
{
	number(me, near__idspace_acquire_slow(&S, &workers(me)[NONE]));
}

/* The second one is not cached. */
void ids_acquire_two(struct actor *me)
{
	number(me, acquire(&workers(me)[NONE]));
	number(me, acquire(&workers(me)[LAST]));
}

/* Where the slot has cached one already, to the bitmap. */
void ids_release(struct actor *me)
{
	release(&workers(me)[OWN]);
}

void ids_release_foreign(struct actor *me)
{
	release(&workers(me)[FOREIGN]);
}

void ids_exchange(struct actor *me)
{
	number(me, acquire(&workers(me)[NONE]));
	release(&workers(me)[OWN]);
}

void ids_hand_over(struct actor *me)
{
	number(me, near_idspace_hand_over(&S, &workers(me)[OWN], &workers(me)[NONE]));
}

void ids_drain(struct actor *me)
{
	number(me, near_idspace_drain(&S));
}

/* ---- what the objects need ---- */

/* A new space takes many system calls: all but what it has mapped becomes as in a new one. */
static void renew(void)
{
	struct near__ids *ids = &S.rest->ids;

	for (unsigned i = 0; near_percpu_next(S.slots, &i); i++)
		memset(near_percpu_at(S.slots, i), 0, sizeof(struct near__id_slot));
	for (uint64_t i = 0; i < OPS_IDS_COUNT; i++)
		if (S.rest->ready[0] >> i & 1)
			memset(near__idspace_block(&S, i), 0, sizeof(struct near__id));
	if (ids->nodes > 1)
		S.rest->ready[0] = 0; /* each gets its node again */
	memset(ids->used, 0, near__ids_bytes(ids->ids, ids->nodes));
	near__ids_init(ids, ids->used, ids->ids, ids->nodes);
	memset(OBJ.ids.workers, 0, sizeof(OBJ.ids.workers));
}

static bool create(void)
{
	const struct near_idspace_options o = {.ids = OPS_IDS_COUNT, .size = 64};

	if (!S.rest)
		return !near_idspace_init(&S, &o);
	renew();
	return true;
}

static void fill(void)
{
	struct near_worker w = {0};

	for (unsigned i = 0; i < 2; i++) {
		struct near_worker *of = OBJ.ids.workers[i];

		acquire(&of[OWN]);
		near__idspace_block(&S, (uint64_t)acquire(&of[FOREIGN]))->node = OTHER_NODE;
	}
	acquire(&w);
	release(&w);
}

static void enter(void)
{
	uint32_t slot;

	near__idspace_open(&S, &slot);
}

/* A byte for each id: 0: it is free; else where it is, plus 1. False: it is in two places, or in
 * none. */
static bool find(unsigned char *place)
{
	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < OPS_IDS_WORKERS; k++) {
			const struct near_worker *w = &OBJ.ids.workers[i][k];
			uint64_t id = (uint64_t)w->id1 - 1;

			if (!w->id1)
				continue;
			if (id >= OPS_IDS_COUNT || place[id] ||
			    near__idspace_block(&S, id)->owner != w)
				return false;
			place[id] = (unsigned char)(200 + i * OPS_IDS_WORKERS + k);
		}
	for (unsigned i = 0; near_percpu_next(S.slots, &i); i++) {
		uint64_t id = ((struct near__id_slot *)near_percpu_at(S.slots, i))->word - 1;

		if (id == UINT64_MAX)
			continue;
		if (id >= OPS_IDS_COUNT || place[id])
			return false;
		place[id] = (unsigned char)(i % 128 + 1);
	}
	for (unsigned i = 0; i < OPS_IDS_COUNT; i++)
		if ((S.rest->ids.used[0] >> i & 1) != (place[i] != 0))
			return false;
	return true;
}

static const char *conserved(const struct actor *a, const struct actor *b)
{
	unsigned char place[OPS_IDS_COUNT] = {0};

	return find(place) ? NULL : "an id is lost, or in two places";
}

/* Where each id is. */
static void describe(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	unsigned char place[OPS_IDS_COUNT] = {0};
	uint64_t places = 0;

	find(place);
	for (unsigned i = 0; i < OPS_IDS_COUNT; i++)
		places = places << 8 | place[i];
	put_field(t, " ids ", (int64_t)places);
}

const struct ops_kind kind_ids = {
	.create = create,
	.fill = fill,
	.enter = enter,
	.describe = describe,
	.conserved = conserved,
};
