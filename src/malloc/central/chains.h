/* SPDX-License-Identifier: MIT */
/* chains: lists of small blocks for which neither the slots nor the central lists have room, as a
 * program leaves them that frees many blocks at once. They are kept whole: to return each block to
 * its span takes longer than the calls of free did.
 *
 * A node has a few chains, each for some of the CPUs, so that blocks and their cache lines stay
 * with a CPU. In each, a class has lines of lists: the second word of a list's first block names
 * the list below. A line has the lists of some MiB of the heap. Lists are taken from low addresses
 * for use and from high ones for their spans, so that blocks in use gather, and spans become free.
 *
 * Chains are part of malloc_cache. Lists that nobody needs for a while return to the spans (decay),
 * and so do all before the heap grows. */
#ifndef NEARCPU_MALLOC_CHAINS_H
#define NEARCPU_MALLOC_CHAINS_H

#include "malloc/base/heap.h"

#define NEAR__CHAINS 4 /* of a node */
#define NEAR__CHAIN_LINES 64

/* Of a class. */
struct near__chain {
	uint64_t lines[NEAR__CHAIN_LINES]; /* the first list's word, near__list_waiting; 0: none */
	uint64_t filled;                   /* a bit for each line that has lists */
	uint32_t lists, fewest;            /* fewest: since the last step of decay */
	uint64_t blocks, refills;
};

struct near__chains {
	struct near_lock lock;                             /* the last one that is taken */
	struct near__chain classes[NEAR__FIRST_UNCHAINED]; /* from 16 bytes on: two words */
} __attribute__((aligned(NEAR__CACHE_LINE)));

/* `all`: the chains of a node, NEAR__CHAINS of them.
 * put: keeps a list, by its waiting word. False: there is no room, or the class has no chains. */
bool near__chains_put(struct near__chains *all, unsigned class, uint64_t word);
/* Takes the word of a list; 0: none. For use from this CPU's chain first. */
uint64_t near__chains_take(struct near__chains *all, unsigned class, bool for_use);
/* The same of one chain. */
uint64_t near__chain_take(struct near__chains *c, unsigned class, bool for_use);
/* Begins a step of decay. Returns how many lists nobody needed since the last one. */
uint32_t near__chain_step(struct near__chains *c, unsigned class);
/* Adds their numbers. */
void near__chains_stats(struct near__chains *all, unsigned class, uint64_t *blocks,
			uint64_t *refills);
/* How many lists of a class are in chains, of all nodes: a hint. 0 once misuse was found: a handler
 * of SIGABRT finds no other damaged lists there, but blocks in spans. */
#define NEAR__ANY_CLASS 0
uint32_t near__chains_have(unsigned class);
void near__chains_fork(struct near__chains *all, near__fork_step *step);

#endif
