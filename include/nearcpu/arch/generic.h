/* SPDX-License-Identifier: MIT */
/* Any other CPU: no sequences, so that every operation takes the portable path. The operations are
 * empty, and the code that contains them is unreachable (NEAR__HAS_SEQ). */
#ifndef NEARCPU_ARCH_GENERIC_H
#define NEARCPU_ARCH_GENERIC_H

#define NEAR__HAS_SEQ 0
#define NEAR__ARCH "generic"
#define NEAR__ARCH_OS <nearcpu/arch/generic_os.h>
#define NEAR__ARCH_TRAP <nearcpu/arch/generic_trap.h>
#define NEAR__ARCH_ATOMIC <nearcpu/arch/generic_atomic.h>
#define NEAR__SIGNATURE 0u
#define NEAR__SYS_RSEQ (-1)
#define NEAR__SYS_MEMBARRIER (-1)

#define NEAR__INDEX(dst) ""
#define NEAR__INDEX_CID(dst) ""
#define NEAR__INDEX_CPU(dst) ""
#define NEAR_LOAD1(dst, base, off) ""
#define NEAR_LOAD2(dst, base, off) ""
#define NEAR_LOAD4(dst, base, off) ""
#define NEAR_LOAD8(dst, base, off) ""
#define NEAR_LOAD8X(dst, base, index) ""
#define NEAR_STORE1(src, base, off) ""
#define NEAR_STORE2(src, base, off) ""
#define NEAR_STORE4(src, base, off) ""
#define NEAR_STORE8(src, base, off) ""
#define NEAR__STORE4_RELEASE(src, base) ""
#define NEAR__STORE8_RELEASE(src, base) ""
#define NEAR_MOVE(dst, src) ""
#define NEAR_ADD(dst, src) ""
#define NEAR_ADD_CONST(dst, n) ""
#define NEAR_CLOCK(time) ""
#define NEAR__CLOCK_OUT(time) NEAR__OUT(time)
#define NEAR__COMPARED "r"
#define NEAR__LOAD1X(dst, base, index) ""
#define NEAR__BRANCH_NOT_BELOW_MEM1(a, base, off, label) ""
#define NEAR_SUB(dst, src) ""
#define NEAR_AND(dst, src) ""
#define NEAR_OR(dst, src) ""
#define NEAR_XOR(dst, src) ""
#define NEAR_MUL(dst, src) ""
#define NEAR_SHIFT_LEFT(dst, n) ""
#define NEAR_SHIFT_RIGHT(dst, n) ""
#define NEAR_BRANCH_EQ(a, b, label) ""
#define NEAR_BRANCH_NE(a, b, label) ""
#define NEAR_BRANCH_BELOW(a, b, label) ""
#define NEAR_BRANCH_NOT_BELOW(a, b, label) ""
#define NEAR_BRANCH_ZERO(a, label) ""
#define NEAR_BRANCH_NONZERO(a, label) ""
#define NEAR_BRANCH_MEM4_NE(base, off, n, label) ""
#define NEAR_BRANCH_MEM4X_NE(base, index, n, label) ""

NEAR__INLINE uint64_t near__clock(void)
{
	return 0;
}

NEAR__INLINE void *near__thread_pointer(void)
{
	return (void *)0;
}

NEAR__INLINE void near__prefetch_for_write(const void *p)
{
	__builtin_prefetch(p, 1);
}

NEAR__INLINE void near__pauses(unsigned n)
{
	(void)n;
}

#endif
