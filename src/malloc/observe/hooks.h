/* SPDX-License-Identifier: MIT */
/* hooks: modes in which calls are looked at. The limits in near__heap are 0 then, so that the calls
 * come to the slow paths, which come here:
 *
 *     NEAR__CHECKED   all calls. check.c: canaries, filling, quarantine; valgrind and
 *                     AddressSanitizer are told
 *     NEAR__PROFILED  allocations, and frees of the sampled. profile.c
 *     NEAR__PERTURBED all calls: mallopt's M_PERTURB. options.c
 *
 * `caller` is the address that the program's call returns to. */
#ifndef NEARCPU_MALLOC_HOOKS_H
#define NEARCPU_MALLOC_HOOKS_H

#include "malloc/base/heap.h"

/* Before the heap's first use. */
void near__check_init(void);
void near__profile_init(void);

/* What makes blocks; each has its own that frees them. */
enum near__maker { NEAR__BY_MALLOC, NEAR__BY_NEW, NEAR__BY_NEW_ARRAY };
#define NEAR__ANY_SIZE SIZE_MAX

/* *zero: whether a block that is all zero is wanted; then, whether it is one. NULL: errno is
 * set. */
void *near__check_alloc(size_t align, size_t n, const void *caller, bool *zero);
void near__check_made(void *p, enum near__maker maker); /* by malloc, if nothing else is said */
/* n: the size that the caller says; p is freed by what goes with `maker`. */
void near__check_free(void *p, size_t n, enum near__maker maker, const void *caller);
void *near__check_realloc(void *p, size_t n, const void *caller);
size_t near__check_size(const void *p); /* what was asked for */
void near__check_fork(near__fork_step *step);

void *near__profile_alloc(size_t align, size_t n, const void *caller, bool *zero);
void *near__profile_realloc(void *p, size_t n, const void *caller);
/* Of a block whose kind is NEAR__SAMPLED. */
void near__profile_free(void *p);
size_t near__profile_size(const void *p);
void near__profile_fork(near__fork_step *step);
void near__profile_fork_child(void);

void *near__perturbed_alloc(size_t align, size_t n, bool *zero);
void near__perturbed_free(void *p);

static inline void *near__hooked_alloc(size_t align, size_t n, const void *caller, bool *zero)
{
	if (near__heap.hooks == NEAR__PERTURBED)
		return near__perturbed_alloc(align, n, zero);
	return near__heap.hooks == NEAR__CHECKED ? near__check_alloc(align, n, caller, zero)
						 : near__profile_alloc(align, n, caller, zero);
}

static inline void *near__hooked_realloc(void *p, size_t n, const void *caller)
{
	return near__heap.hooks == NEAR__CHECKED ? near__check_realloc(p, n, caller)
						 : near__profile_realloc(p, n, caller);
}

#endif
