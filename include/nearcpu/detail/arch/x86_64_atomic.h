/* SPDX-License-Identifier: MIT */
/* What src/atomic must know of x86_64: its atomic accesses of 16 aligned bytes.
 *
 * cmpxchg16b has been there since 2006, except on the very first of these CPUs. CPUs with AVX of
 * Intel and AMD also load and store 16 aligned bytes in one operation, as their manuals guarantee.
 * Without AVX a load is a cmpxchg16b, which writes: it faults on constants in read-only memory. A
 * lock would not, but compilers put cmpxchg16b into programs, and the two would not see each
 * other. */
#ifndef NEARCPU_ARCH_X86_64_ATOMIC_H
#define NEARCPU_ARCH_X86_64_ATOMIC_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 near__wide;

#define NEAR__HAS_THREAD_POINTER 1
#define NEAR__HAS_WIDE 1
/* The narrowest object for which the compiler puts a compare-exchange into the code. */
#define NEAR__NARROWEST 1
/* An exception without a portable name: a denormal operand, which the compiler may request to
 * raise. */
#define NEAR__FE_DENORMAL 2

enum near__wide_mode { NEAR__WIDE_LOCKS, NEAR__WIDE_CAS, NEAR__WIDE_MOVE, NEAR__WIDE_MODES };
#define NEAR__WIDE_NAMES                                                                           \
	{                                                                                          \
		"locks", "cmpxchg16b", "cmpxchg16b and vmovdqa"                                    \
	}

NEAR__INLINE bool near__avx_is_atomic(unsigned b, unsigned c, unsigned d, unsigned features)
{
	unsigned low, high;
	bool intel = b == signature_INTEL_ebx && d == signature_INTEL_edx &&
		     c == signature_INTEL_ecx;
	bool amd = b == signature_AMD_ebx && d == signature_AMD_edx && c == signature_AMD_ecx;

	if (!(intel || amd) || !(features & bit_AVX) || !(features & bit_OSXSAVE))
		return false;
	/* Whether the kernel keeps its registers. */
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return (low & 6) == 6;
}

NEAR__INLINE int near__wide_best(void)
{
	unsigned a, b, c, d, features, unused;

	if (!__get_cpuid(1, &a, &unused, &features, &unused) || !(features & bit_CMPXCHG16B))
		return NEAR__WIDE_LOCKS;
	if (!__get_cpuid(0, &a, &b, &c, &d))
		return NEAR__WIDE_CAS;
	return near__avx_is_atomic(b, c, d, features) ? NEAR__WIDE_MOVE : NEAR__WIDE_CAS;
}

/* As __atomic_thread_fence(__ATOMIC_SEQ_CST), for which compilers take a slower instruction, or
 * this one where the stack pointer points to: what was stored there last it would wait for. */
NEAR__INLINE void near__full_fence(void)
{
	__asm__ volatile("lock orq $0, -8(%%rsp)" : : : "memory", "cc");
}

/* A full fence as well. */
NEAR__INLINE bool near__wide_cas(int mode, near__wide *p, near__wide *expected, near__wide desired)
{
	uint64_t low = (uint64_t)*expected, high = (uint64_t)(*expected >> 64);
	bool done;

	(void)mode;
	__asm__ volatile("lock cmpxchg16b %1"
			 : "=@ccz"(done), "+m"(*p), "+a"(low), "+d"(high)
			 : "b"((uint64_t)desired), "c"((uint64_t)(desired >> 64))
			 : "memory");
	if (!done)
		*expected = (near__wide)high << 64 | low;
	return done;
}

typedef long long near__vector2 __attribute__((vector_size(16)));

/* x86's loads and stores are acquires and releases. The halves go from register to register: by
 * way of the stack, a load of both would wait until both have been stored. */
NEAR__INLINE near__wide near__wide_load(int mode, const near__wide *p)
{
	near__wide value = 0;

	if (mode == NEAR__WIDE_MOVE) {
		near__vector2 v;
		uint64_t low, high;

		__asm__ volatile("vmovdqa %3, %2\n\t"
				 "vmovq %2, %0\n\t"
				 "vpextrq $1, %2, %1"
				 : "=r"(low), "=r"(high), "=&x"(v)
				 : "m"(*p)
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

NEAR__INLINE void near__wide_store(int mode, near__wide *p, near__wide value, bool fence)
{
	if (mode == NEAR__WIDE_MOVE) {
		near__vector2 v;

		__asm__ volatile("vmovq %2, %1\n\t"
				 "vpinsrq $1, %3, %1, %1\n\t"
				 "vmovdqa %1, %0"
				 : "=m"(*p), "=&x"(v)
				 : "r"((uint64_t)value), "r"((uint64_t)(value >> 64))
				 : "memory");
		if (fence)
			near__full_fence();
		return;
	}
	for (near__wide seen = near__wide_guess(p); !near__wide_cas(mode, p, &seen, value);)
		;
}

#endif
