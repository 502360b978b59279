/* SPDX-License-Identifier: MIT */
/* profile: shared by the sampling (profile.c) and the writing of files (profile_file.c). */
#ifndef NEARCPU_MALLOC_PROFILE_H
#define NEARCPU_MALLOC_PROFILE_H

#include "malloc/base/heap.h"

#define NEAR__STACK_MAX 48

/* Blocks that were sampled with the same stack and about the same size: tools scale a bucket by the
 * mean size of its blocks, which is wrong for a mixture. Buckets are never removed, and are in
 * chains that only grow at their heads: a reader needs no lock. The numbers change under the
 * profile's lock, and are read one by one. */
struct near__bucket {
	uint32_t next;
	uint16_t depth, sizes;        /* sizes: the number of the range of sizes */
	uint64_t allocs, alloc_bytes; /* so far */
	uint64_t frees, free_bytes;
	const void *stack[];
};

#define NEAR__BUCKET_CHAINS 4096
extern uint32_t near__buckets[NEAR__BUCKET_CHAINS] __attribute__((visibility("hidden")));

/* profile_file.c: the first two. The second may be called in signal handlers. */
void near__profile_files_init(void);
void near__profile_write(void);

/* At a sample: writes the profile if an interval has passed. The child of a fork keeps no files of
 * its parent. */
void near__profile_interval(void);
void near__profile_files_fork_child(void);

/* call_stack.c: true once stacks can be taken without memory that comes from here. */
bool near__stack_prime(void);
/* The addresses that the calls return to, innermost first; the first is `caller`. */
unsigned near__stack_take(const void **stack, const void *caller);

#endif
