/* SPDX-License-Identifier: MIT */
/* shard: the transfer caches of processes without sequences: lists by CPU, under locks. */
#ifndef NEARCPU_MALLOC_SHARD_H
#define NEARCPU_MALLOC_SHARD_H

#include "malloc/base/heap.h"

/* A list of at most `most` blocks, and at most a batch; from this CPU's shard, else from the
 * central lists. An empty one: no memory. Requires `most` > 0. */
uint64_t near__shard_take(unsigned class, unsigned most);
/* Gives a list away. is_short: it may be much shorter than a batch, and is joined with others. */
void near__shard_give(unsigned class, uint64_t list, bool is_short);
/* Gives away half of the lists that were not needed since the last step; all of them. */
void near__shards_decay(uint64_t now);
void near__shards_empty(void);
/* Lists that threads took from shards, and put there, so far. */
void near__shards_stats(unsigned class, uint64_t *refills, uint64_t *spills);
void near__shards_fork(near__fork_step *step);

#endif
