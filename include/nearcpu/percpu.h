/* SPDX-License-Identifier: MIT */
/* percpu: memory with one copy per slot.
 *
 * An object of near_percpu_alloc() has a copy for each slot of the process (near_slots()) and for
 * each fallback slot; copy s is (s << NEAR_STRIDE_SHIFT) bytes after the object. Sequences
 * change the copy of the local slot; the portable path changes those of the fallback slots, with
 * atomics.
 *
 * Cost:      alloc and free: one atomic instruction each, plus clearing the copies in use; no lock
 *            unless memory must be reserved. A read visits the copies in use.
 * Memory:    the object's size class (8, 16, 24, 32, 48, 64, 96 ...) per slot in use; no header.
 *            Pages are taken at first touch, from the slot's node, and are never huge.
 *            Address space is reserved in arenas of (slots + cpus + 1) MiB per size class.
 * Safety:    alloc, free: any thread, not signal handlers. All else: signal handlers too. errno is
 *            left alone. Fork: the child has its own copies of everything.
 * Order:     free happens before an alloc that returns the same memory.
 * Fallback:  one copy per CPU, which the first operation that needs it opens.
 * Misuse:    freeing twice, or what was not allocated here, stops the program with one line.
 *
 * Concurrent with:   alloc  free  next      (free: of this object, by its owner)
 *            alloc    yes   yes   yes
 *            free     yes    no    no
 *            next     yes    no   yes
 *
 *     void *p;
 *     if (near_percpu_alloc(sizeof(uint64_t), 8, &p) == 0) {
 *             // ... sequences on p (near_seq(7)) ...
 *             uint64_t sum = 0;
 *             for (unsigned s = 0; near_percpu_next(p, &s); s++)
 *                     sum += __atomic_load_n((uint64_t *)near_percpu_at(p, s), __ATOMIC_RELAXED);
 *             near_percpu_free(p);
 *     }
 *
 * Source: the strided layout of Linux's own per-CPU memory and of librseq's pool; differs in that
 * it allocates any size without a lock, records which slots were opened instead of visiting all
 * possible ones, and survives fork.
 */
#ifndef NEARCPU_PERCPU_H
#define NEARCPU_PERCPU_H

#include <nearcpu/seq.h>

NEAR__BEGIN_DECLS

#define NEAR_PERCPU_MAX_SIZE ((size_t)256 << 10)
#define NEAR_PERCPU_MAX_ALIGN ((size_t)4096)

/* Allocates an object whose copies are all zero, and stores its address in *out.
 * Returns 0; -EINVAL: size is 0 or align is not a power of two; -E2BIG: size above
 * NEAR_PERCPU_MAX_SIZE or align above NEAR_PERCPU_MAX_ALIGN; -ENOMEM: no memory or address space
 * (RLIMIT_AS); -EDEADLK: called by what this thread calls to start the library (a malloc). */
NEAR_API int near_percpu_alloc(size_t size, size_t align, void **out);

/* Frees it; NULL is ignored. Requires that no operation on it runs. Freeing twice, or what was not
 * allocated here, stops the program. */
NEAR_API void near_percpu_free(void *p);

/* Finds the first slot in use at or after *slot, live and fallback slots both. False: there is
 * none. A slot is in use once any object of the same size class was changed there. */
NEAR_API bool near_percpu_next(const void *p, unsigned *slot);

/* The copy of slot `slot`. */
NEAR_INLINE void *near_percpu_at(const void *p, unsigned slot)
{
	return (char *)(uintptr_t)p + ((uintptr_t)slot << NEAR_STRIDE_SHIFT);
}

/* True if `slot` is one that the portable path changes. */
NEAR_API bool near_percpu_is_fallback(unsigned slot);

/* A fallback copy of p near to this CPU, open for atomics. Never fails. */
NEAR_API void *near_percpu_fallback(void *p);

NEAR__END_DECLS

#endif
