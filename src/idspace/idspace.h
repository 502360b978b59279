/* SPDX-License-Identifier: MIT */
/* idspace: what the files of this folder share.
 *
 * An id is free (its bit in `used` is 0), or it is cached in one slot, or one worker has it. Three
 * kinds of code move it:
 *
 * - Sequences, between the cache of the local slot and a worker (idspace.h). They check the gate of
 *   the slot.
 * - The portable path, between the cache of a fallback slot and a worker, by CAS.
 * - Slow paths, with the space's lock: between the bitmap and a worker. With the lock of the gates,
 *   too, they take ids out of other slots' caches: close the gates, fence, take, fence, open
 *   (src/percpu/gate.h has the argument); out of fallback slots by CAS.
 *
 * So an id leaves a cache by one commit, or by one CAS, or behind a closed gate: once. What is
 * taken out of a cache is private to the thread that took it until it is in the bitmap, under the
 * lock, or has a worker. models/idspace.pml checks it.
 *
 * Nodes. A slot's node is constant: that of its CPU, or the one that is part of its number. An id
 * is tied to the node of the thread that acquires it first. A release on a slot of another node
 * gives the id to the bitmap, so each cache has ids of its own node alone. */
#ifndef NEARCPU_IDSPACE_INTERNAL_H
#define NEARCPU_IDSPACE_INTERNAL_H

#include <nearcpu/idspace.h>

#include "percpu/gate.h"

/* The copy of a slot. The gate is that of sequences; a fallback slot does not use it. */
struct near__id_slot {
	uint64_t word; /* the cached id plus 1, or 0 */
	uint32_t gate, node;
};
_Static_assert(offsetof(struct near__id_slot, gate) == 8 &&
		       offsetof(struct near__id_slot, node) == 12,
	       "the sequences in idspace.h");

/* ---- which ids are free: bitmap.c ---- */

struct near__ids {
	uint32_t ids, nodes, words;
	uint32_t highest; /* plus 1, that was ever taken */
	uint64_t *used;   /* bits: in use, or cached */
	uint64_t *tied;   /* of each node, and then of any: bits */
};

size_t near__ids_bytes(unsigned ids, unsigned nodes);

/* In memory of near__ids_bytes, all zero. */
void near__ids_init(struct near__ids *b, void *memory, unsigned ids, unsigned nodes);

/* The lowest free id of the node, which becomes used; or the lowest that has no node, which becomes
 * the node's. -EAGAIN: there is none. */
int near__ids_take(struct near__ids *b, unsigned node);

/* The lowest free id of any node, which becomes used. -EAGAIN: there is none. */
int near__ids_take_foreign(struct near__ids *b);

/* Whether near__ids_take would return one below `id`. */
bool near__ids_has_lower(const struct near__ids *b, unsigned node, unsigned id);

void near__ids_put(struct near__ids *b, unsigned id);
unsigned near__ids_count_used(const struct near__ids *b);

/* Constant once the id was taken. */
unsigned near__ids_node_of(const struct near__ids *b, unsigned id);

/* ---- a space ---- */

struct near__idspace {
	struct near_lock *lock; /* of `ids`, `allocated` and `counts`; nests in that of the gates */
	struct near__ids ids;
	uint64_t *ready;  /* bits, changed atomically: the id's block is accessible */
	size_t allocated; /* bytes of each block */
	size_t mapped;    /* bytes of this structure with its bitmaps */
	struct near_idspace_stats counts;
	/* A simulation (nearcpu-sim(1)) has slots of its own, which are all fallback slots. */
	struct near__id_slot *simulated;
	unsigned simulated_slots;
	bool simulated_single; /* the process has one thread */
	struct near_lock simulation;
};

/* With the locks of the gates and of the space: takes ids out of caches into the bitmap; of all
 * slots, or of those that were not used since the search before. Returns how many. */
unsigned near__idspace_collect(struct near_idspace *s, bool unused_only);

void near__idspace_lock_all(struct near_idspace *s);
void near__idspace_unlock_all(struct near_idspace *s);

/* Of fallback slots. take: the id plus 1, or 0: none is cached. cache: false: there is one. */
uint64_t near__idspace_take_cached(struct near__id_slot *c);
bool near__idspace_cache(struct near__id_slot *c, uint64_t id1);

/* The slots in use, from *slot on. */
bool near__idspace_next(const struct near_idspace *s, unsigned *slot);
struct near__id_slot *near__idspace_slot(const struct near_idspace *s, unsigned slot);

/* Opens the local slot, whose number is in *slot then. False: there is none. */
bool near__idspace_open(const struct near_idspace *s, uint32_t *slot);

/* Makes the block of an id accessible that the caller has. Returns 0 or -ENOMEM. */
int near__idspace_make_ready(struct near_idspace *s, unsigned id);

/* A space whose slots are the `n` at `slots`, of nodes below `nodes`; what the two calls do, those
 * of the same name do in the portable path of a thread on that slot. */
int near__idspace_simulate(struct near_idspace *s, const struct near_idspace_options *options,
			   unsigned nodes, struct near__id_slot *slots, unsigned n);
int near__idspace_acquire_on(struct near_idspace *s, struct near_worker *w,
			     struct near__id_slot *slot);
void near__idspace_release_on(struct near_idspace *s, struct near_worker *w,
			      struct near__id_slot *slot);

#endif
