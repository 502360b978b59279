/* SPDX-License-Identifier: MIT */
/* The functions for objects of 16 bytes: by the CPU's instructions, or under locks. An object that
 * is not aligned is under locks in any case, since no instruction is atomic for it. */
#include "atomic/locked.h"
#include "atomic/sized.h"
#include "atomic/wide.h"

#ifdef __SIZEOF_INT128__

static inline int mode_for(const volatile void *p)
{
	return __builtin_expect(((uintptr_t)p & 15) != 0, 0) ? NEAR__WIDE_LOCKS : near__wide_mode();
}

static inline near__wide near__read_16(const volatile void *p)
{
	int mode = mode_for(p);
	near__wide value;

	if (__builtin_expect(mode != NEAR__WIDE_LOCKS, NEAR__HAS_WIDE))
		return near__wide_load(mode, (const near__wide *)p);
	near__locked_load(16, (const void *)p, &value);
	return value;
}

static inline near__wide near__guess_16(const volatile void *p)
{
	const near__word8 *word = (const void *)p;
	near__wide value = (near__wide)word[!NEAR__LITTLE] | (near__wide)word[NEAR__LITTLE] << 64;

	/* As near__wide_guess, but p need not be aligned. */
	__asm__ volatile("" : : : "memory");
	return value;
}

static inline void near__write_16(volatile void *p, near__wide value, int order)
{
	int mode = mode_for(p);

	if (__builtin_expect(mode != NEAR__WIDE_LOCKS, NEAR__HAS_WIDE))
		near__wide_store(mode, (near__wide *)p, value, near__is_sc(order));
	else
		near__locked_store(16, (void *)p, &value);
}

static inline bool near__cas_16(volatile void *p, void *expected, near__wide value)
{
	int mode = mode_for(p);
	near__wide seen;
	bool done;

	if (__builtin_expect(mode == NEAR__WIDE_LOCKS, !NEAR__HAS_WIDE))
		return near__locked_compare_exchange(16, (void *)p, expected, &value);
	__builtin_memcpy(&seen, expected, sizeof(seen));
	done = near__wide_cas(mode, (near__wide *)p, &seen, value);
	if (!done)
		__builtin_memcpy(expected, &seen, sizeof(seen));
	return done;
}

NEAR__LOOP(16, near__wide)

#endif
