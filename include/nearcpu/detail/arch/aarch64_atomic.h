/* SPDX-License-Identifier: MIT */
/* What src/atomic must know of aarch64: its atomic accesses of 16 aligned bytes.
 *
 * Every CPU has ldaxp and stlxp, but a pair was surely loaded in one operation only if the store
 * succeeds. With LSE, casp does it in one instruction. With LSE2, ldp and stp of an aligned pair
 * are atomic. All of them see each other; so which of them a CPU uses is a matter of speed, but
 * that a load writes where there is no LSE2: then it faults on constants in read-only memory. A
 * lock would not; but compilers put these instructions into programs, and would not see the lock.
 * LSE128 adds an exchange, and, or of 16 bytes; a loop around casp does the same. */
#ifndef NEARCPU_ARCH_AARCH64_ATOMIC_H
#define NEARCPU_ARCH_AARCH64_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>

__extension__ typedef unsigned __int128 near__wide;

#define NEAR__HAS_THREAD_POINTER 1
#define NEAR__HAS_WIDE 1
#define NEAR__NARROWEST 1

enum near__wide_mode {
	NEAR__WIDE_LOCKS, /* no CPU: for the tests */
	NEAR__WIDE_PAIRS,
	NEAR__WIDE_LSE,
	NEAR__WIDE_LSE2,
	NEAR__WIDE_MODES
};
#define NEAR__WIDE_NAMES                                                                           \
	{                                                                                          \
		"locks", "ldaxp and stlxp", "casp", "casp, ldp and stp"                            \
	}

/* Numbers of the kernel's. */
#define NEAR__HWCAP_ATOMICS (1UL << 8)
#define NEAR__HWCAP_USCAT (1UL << 25)

NEAR__INLINE int near__wide_best(void)
{
	unsigned long caps = getauxval(AT_HWCAP);

	if (!(caps & NEAR__HWCAP_ATOMICS))
		return NEAR__WIDE_PAIRS;
	return caps & NEAR__HWCAP_USCAT ? NEAR__WIDE_LSE2 : NEAR__WIDE_LSE;
}

NEAR__INLINE void near__full_fence(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* As __sync_val_compare_and_swap. Stores back what it has loaded if that differs, which
 * proves that both halves were there at the same time. */
NEAR__INLINE near__wide near__wide_cas_pairs(near__wide *p, near__wide expected,
					      near__wide desired)
{
	uint64_t low, high;
	uint32_t failed;

	__asm__ volatile(
		"1:\n\t"
		"ldaxp %[low], %[high], %[p]\n\t"
		"cmp %[low], %[low0]\n\t"
		"ccmp %[high], %[high0], #0, eq\n\t"
		"b.ne 2f\n\t"
		"stlxp %w[failed], %[low1], %[high1], %[p]\n\t"
		"cbnz %w[failed], 1b\n\t"
		"b 3f\n"
		"2:\n\t"
		"stlxp %w[failed], %[low], %[high], %[p]\n\t"
		"cbnz %w[failed], 1b\n"
		"3:\n\t"
		"dmb ish"
		: [low] "=&r"(low), [high] "=&r"(high), [failed] "=&r"(failed), [p] "+Q"(*p)
		: [low0] "r"((uint64_t)expected), [high0] "r"((uint64_t)(expected >> 64)),
		  [low1] "r"((uint64_t)desired), [high1] "r"((uint64_t)(desired >> 64))
		: "memory", "cc");
	return (near__wide)high << 64 | low;
}

NEAR__INLINE near__wide near__wide_cas_lse(near__wide *p, near__wide expected, near__wide desired)
{
	register uint64_t low __asm__("x0") = (uint64_t)expected;
	register uint64_t high __asm__("x1") = (uint64_t)(expected >> 64);
	register uint64_t low1 __asm__("x2") = (uint64_t)desired;
	register uint64_t high1 __asm__("x3") = (uint64_t)(desired >> 64);

	__asm__ volatile(".arch_extension lse\n\t"
			 "caspal %[low], %[high], %[low1], %[high1], %[p]\n\t"
			 : [low] "+r"(low), [high] "+r"(high), [p] "+Q"(*p)
			 : [low1] "r"(low1), [high1] "r"(high1)
			 : "memory");
	return (near__wide)high << 64 | low;
}

NEAR__INLINE bool near__wide_cas(int mode, near__wide *p, near__wide *expected, near__wide desired)
{
	near__wide seen = mode >= NEAR__WIDE_LSE ? near__wide_cas_lse(p, *expected, desired)
						 : near__wide_cas_pairs(p, *expected, desired);
	bool done = seen == *expected;

	*expected = seen;
	return done;
}

/* Sequentially consistent. The ldar: not before an earlier stlxp or stlr; the dmb: nothing later
 * before the pair. */
NEAR__INLINE near__wide near__wide_load(int mode, const near__wide *p)
{
	near__wide value = 0;
	uint64_t low, high;

	if (mode == NEAR__WIDE_LSE2) {
		__asm__ volatile("ldar %[low], [%[p]]\n\t"
				 "ldp %[low], %[high], [%[p]]\n\t"
				 "dmb ishld"
				 : [low] "=&r"(low), [high] "=&r"(high)
				 : [p] "r"(p)
				 : "memory");
		return (near__wide)high << 64 | low;
	}
	near__wide_cas(mode, (near__wide *)(uintptr_t)p, &value, value);
	return value;
}

/* Its halves may not belong together; but it is one value, which is not read again after the
 * barrier. */
NEAR__INLINE near__wide near__wide_guess(const near__wide *p)
{
	near__wide value = *p;

	__asm__ volatile("" : : : "memory");
	return value;
}

/* fence: sequentially consistent, else a release. */
NEAR__INLINE void near__wide_store(int mode, near__wide *p, near__wide value, bool fence)
{
	if (mode == NEAR__WIDE_LSE2) {
		__asm__ volatile("dmb ish\n\t"
				 "stp %[low], %[high], %[p]"
				 : [p] "=Q"(*p)
				 : [low] "r"((uint64_t)value), [high] "r"((uint64_t)(value >> 64))
				 : "memory");
		if (fence)
			__asm__ volatile("dmb ish" : : : "memory");
		return;
	}
	for (near__wide seen = near__wide_guess(p); !near__wide_cas(mode, p, &seen, value);)
		;
}

#endif
