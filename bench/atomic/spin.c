/* SPDX-License-Identifier: MIT */
/* An imitation of compiler-rt's atomic.c, which Debian's packages leave out of
 * libclang_rt.builtins: its algorithm, not its code. 1,024 words without padding, found by two
 * parts of the address; a thread that finds a word taken retries without limit. An aligned object
 * that the compiler knows to be lock-free takes no lock. */
#include "atomic/library.h"

#define LOCK uintptr_t
#define LOCKS 1024

static LOCK locks[LOCKS];

static inline LOCK *lock_of(const void *p)
{
	uintptr_t hash = (uintptr_t)p >> 4;

	return &locks[(hash ^ hash >> 16) % LOCKS];
}

static inline void take(LOCK *lock)
{
	LOCK unlocked = 0;

	while (!__atomic_compare_exchange_n(lock, &unlocked, 1, true, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED))
		unlocked = 0;
}

static inline void release(LOCK *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

#define NAME(f) spin_##f
#define IS_FREE(type, p)                                                                           \
	(__atomic_always_lock_free(sizeof(type), 0) && (uintptr_t)(p) % sizeof(type) == 0)
#include "atomic/locked.h"

const struct library library_spin = LIBRARY_OF(spin);
