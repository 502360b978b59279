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

/* ---- which ids are free ---- */

struct near__ids {
	uint32_t ids, nodes, words;
	uint32_t highest; /* plus 1, that was ever taken */
	uint64_t *used;   /* bits: in use, or cached */
	uint64_t *tied;   /* of each node, and then of any: bits */
};

size_t near__ids_bytes(unsigned ids, unsigned nodes);

/* In memory of near__ids_bytes, all zero. */
void near__ids_init(struct near__ids *b, void *memory, unsigned ids, unsigned nodes);

/* ---- a space ---- */

struct near__idspace {
	struct near_lock *lock; /* of `ids`, `allocated` and `counts`; nests in that of the gates */
	struct near__ids ids;
	uint64_t *ready;  /* bits, changed atomically: the id's block is accessible */
	size_t allocated; /* bytes of each block */
	size_t mapped;    /* bytes of this structure with its bitmaps */
	struct near_idspace_stats counts;
};

/* Opens the local slot, whose number is in *slot then. False: there is none. */
bool near__idspace_open(const struct near_idspace *s, uint32_t *slot);

#endif
