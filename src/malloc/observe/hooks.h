/* SPDX-License-Identifier: MIT */
/* hooks: modes that see the calls. The limits in near__heap are 0 then, so that the calls take the
 * slow paths of api/, which call these instead of cache/plain.h:
 *
 *     NEAR__CHECKED   all calls. check.c: canaries, filling, quarantine; notifies valgrind and
 *                     AddressSanitizer
 *     NEAR__PROFILED  allocations, and frees of sampled blocks. profile.c
 *     NEAR__PERTURBED all calls: mallopt's M_PERTURB. perturb.c
 *     NEAR__ORDERED   all calls: reports to ThreadSanitizer that a free comes before the
 *                     allocations after it. ordered.c
 *
 * With NEAR_CONF=lock_check the frees take the slow paths in any mode: where they find the block,
 * plain.c, check.c and pages/large.c call the lock-order checker (NEAR__PROBE_FREE, probe.h).
 *
 * `caller` is the address that the program's call returns to. */
#ifndef NEARCPU_MALLOC_HOOKS_H
#define NEARCPU_MALLOC_HOOKS_H

#include "malloc/cache/plain.h"

/* Before the heap's first use. */
void near__check_init(void);
void near__profile_init(void);

/* The functions that allocate; each has its own that frees. */
enum near__maker { NEAR__BY_MALLOC, NEAR__BY_NEW, NEAR__BY_NEW_ARRAY };
#define NEAR__ANY_SIZE SIZE_MAX

/* *zero: whether the caller wants a block that is all zero; then, whether it is. NULL: errno is
 * set. */
void *near__check_alloc(size_t align, size_t n, const void *caller, bool *zero);
void near__check_made(void *p, enum near__maker maker); /* the default is malloc */
/* n: the size that the caller passes; `maker` matches the function that frees p. */
void near__check_free(void *p, size_t n, enum near__maker maker, const void *caller);
void *near__check_realloc(void *p, size_t n, const void *caller);
size_t near__check_size(const void *p); /* that was requested */
void near__check_fork(near__fork_step *step);

void *near__profile_alloc(size_t align, size_t n, const void *caller, bool *zero);
void *near__profile_realloc(void *p, size_t n, const void *caller);
void near__profile_free(void *p);
size_t near__profile_size(const void *p);
void near__profile_fork(near__fork_step *step);
void near__profile_fork_child(void);

void *near__perturbed_alloc(size_t align, size_t n, bool *zero);
void near__perturbed_free(void *p);
void near__perturb(int byte);

/* In a program with ThreadSanitizer, if this library was built without it. */
void near__ordered_init(void);
void *near__ordered_alloc(size_t align, size_t n, bool *zero);
void *near__ordered_realloc(void *p, size_t n);
void near__ordered_free(void *p);

static inline void *near__hooked_alloc(size_t align, size_t n, const void *caller, bool *zero)
{
	switch (near__heap.hooks) {
	case NEAR__CHECKED:
		return near__check_alloc(align, n, caller, zero);
	case NEAR__PROFILED:
		return near__profile_alloc(align, n, caller, zero);
	case NEAR__PERTURBED:
		return near__perturbed_alloc(align, n, zero);
	case NEAR__ORDERED:
		return near__ordered_alloc(align, n, zero);
	default:
		return near__plain_alloc(align, n, zero);
	}
}

static inline void near__hooked_free(void *p, const void *caller)
{
	switch (near__heap.hooks) {
	case NEAR__CHECKED:
		near__check_free(p, NEAR__ANY_SIZE, NEAR__BY_MALLOC, caller);
		break;
	case NEAR__PROFILED:
		near__profile_free(p);
		break;
	case NEAR__PERTURBED:
		near__perturbed_free(p);
		break;
	case NEAR__ORDERED:
		near__ordered_free(p);
		break;
	default:
		near__plain_free(p);
	}
}

static inline void *near__hooked_realloc(void *p, size_t n, const void *caller)
{
	if (near__heap.hooks == NEAR__ORDERED)
		return near__ordered_realloc(p, n);
	return near__heap.hooks == NEAR__CHECKED ? near__check_realloc(p, n, caller)
						 : near__profile_realloc(p, n, caller);
}

static inline size_t near__hooked_size(const void *p)
{
	if (near__heap.hooks == NEAR__CHECKED)
		return near__check_size(p);
	return near__heap.hooks == NEAR__PROFILED ? near__profile_size(p) : near__plain_size(p);
}

#endif
