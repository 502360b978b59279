/* SPDX-License-Identifier: MIT */
/* hooks: modes that see the calls. The limits in near__heap are 0 then, so that the calls take the
 * slow paths of api/, which call these instead of cache/plain.h:
 *
 *     NEAR__CHECKED   all calls. malloc_check.c: canaries, filling, quarantine; notifies
 *                     valgrind and AddressSanitizer
 *     NEAR__PROFILED  allocations, and frees of sampled blocks. profile.c
 *     NEAR__PERTURBED all calls: mallopt's M_PERTURB. block_hooks.c
 *     NEAR__ORDERED   all calls: reports to ThreadSanitizer that a free comes before the
 *                     allocations after it. block_hooks.c
 *
 * With NEAR_CONF=lock_check the frees take the slow paths in any mode: where they find the block,
 * plain.c, malloc_check.c and pages/large.c call the lock-order checker (NEAR__PROBE_FREE,
 * probe.h).
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
/* n: the size that the caller passes; `maker` matches the function that frees the block. */
void near__check_free(struct near__place at, size_t n, enum near__maker maker, const void *caller);
void *near__check_realloc(struct near__place at, size_t n, const void *caller);
size_t near__check_size(struct near__place at); /* that was requested */
void near__check_fork(near__fork_step *step);

void *near__profile_alloc(size_t align, size_t n, const void *caller, bool *zero);
void *near__profile_realloc(struct near__place at, size_t n, const void *caller);
void near__profile_forget(struct near__place *at); /* before its block is freed */
size_t near__profile_size(struct near__place at);
void near__profile_fork(near__fork_step *step);
void near__profile_fork_child(void);

void *near__perturbed_alloc(size_t align, size_t n, bool *zero);
void near__perturb_freed(struct near__place at); /* before it is */
void near__perturb(int byte);

/* In a program with ThreadSanitizer, if this library was built without it. */
void near__ordered_init(void);
void *near__ordered_alloc(size_t align, size_t n, bool *zero);
void *near__ordered_realloc(struct near__place at, size_t n);
void near__ordered_release(void); /* before a block is freed */

/* Whether p is to be checked: NULL is not, nor is a block of another allocator, such as valgrind's.
 */
static inline bool near__is_checked(const void *p, struct near__place *at)
{
	if (NEAR__LIKELY(near__heap.hooks != NEAR__CHECKED) || !p)
		return false;
	*at = near__place_of(p);
	return at->tag != NEAR__OUTSIDE;
}

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

static inline size_t near__hooked_size(struct near__place at)
{
	if (near__heap.hooks == NEAR__CHECKED)
		return near__check_size(at);
	return near__heap.hooks == NEAR__PROFILED ? near__profile_size(at) : near__plain_size(at);
}

#endif
