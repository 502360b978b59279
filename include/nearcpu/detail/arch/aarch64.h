/* SPDX-License-Identifier: MIT */
/* The operations of a sequence on aarch64. seq.h documents each one. */
#ifndef NEARCPU_ARCH_AARCH64_H
#define NEARCPU_ARCH_AARCH64_H

#define NEAR__HAS_SEQ 1
#define NEAR__ARCH "aarch64"
#define NEAR__ADDRESS_ORDER __ATOMIC_RELAXED
#define NEAR__ARCH_OS <nearcpu/detail/arch/aarch64_os.h>
#define NEAR__ARCH_TRAP <nearcpu/detail/arch/aarch64_trap.h>
#define NEAR__ARCH_ATOMIC <nearcpu/detail/arch/aarch64_atomic.h>
#define NEAR__SIGNATURE 0xd428bc00u
#define NEAR__SYS_RSEQ 293
#define NEAR__SYS_MEMBARRIER 283

#define NEAR__SEQ_ARM                                                                              \
	"adrp %x[near_tmp], 73b\n\t"                                                               \
	"add %x[near_tmp], %x[near_tmp], :lo12:73b\n\t"                                            \
	"str %x[near_tmp], [%x[near_area], #8]\n\t"
/* The handler follows the function in the same section: a branch from another section could
 * get a veneer of the linker's, which overwrites x16 and x17. */
#define NEAR__SEQ_HANDLER                                                                          \
	".subsection 1\n\t"                                                                        \
	".inst 0xd428bc00\n"                                                                       \
	"74:\n\t"                                                                                  \
	"b %l[near_failed]\n\t"                                                                    \
	".previous\n\t"

/* One comparison: equal is by cpu, below is by cid, above by node and cid. */
#define NEAR__INDEX(dst)                                                                           \
	NEAR__INDEX_CPU(dst)                                                                       \
	"cmp %w[near_index_mode], #1\n\t"                                                          \
	"b.eq 75f\n\t"                                                                             \
	"ldr %w[" #dst "], [%x[near_area], #24]\n\t"                                               \
	"b.lo 75f\n\t"                                                                             \
	"ldr %w[near_tmp], [%x[near_area], #20]\n\t"                                               \
	"madd %w[" #dst "], %w[near_tmp], %w[near_index_mode], %w[" #dst "]\n"                     \
	"75:\n\t"
#define NEAR__INDEX_CID(dst) NEAR__INDEX_CPU(dst) "ldr %w[" #dst "], [%x[near_area], #24]\n\t"
/* Not tbnz, which reaches 32 KiB only. */
#define NEAR__INDEX_CPU(dst)                                                                       \
	"ldr %w[" #dst "], [%x[near_area], #4]\n\t"                                                \
	"cmp %w[" #dst "], #0\n\t"                                                                 \
	"b.lt %l[near_failed]\n\t"

#define NEAR__MEM(base, off) ", [%x[" #base "], #" #off "]\n\t" NEAR__MARK_OFFSET(off)
#define NEAR_LOAD1(dst, base, off) NEAR__OP "ldrb %w[" #dst "]" NEAR__MEM(base, off)
#define NEAR_LOAD2(dst, base, off) NEAR__OP "ldrh %w[" #dst "]" NEAR__MEM(base, off)
#define NEAR_LOAD4(dst, base, off) NEAR__OP "ldr %w[" #dst "]" NEAR__MEM(base, off)
#define NEAR_LOAD8(dst, base, off) NEAR__OP "ldr %x[" #dst "]" NEAR__MEM(base, off)
#define NEAR_LOAD8X(dst, base, index)                                                              \
	NEAR__OP "ldr %x[" #dst "], [%x[" #base "], %x[" #index "]]\n\t"
#define NEAR_STORE1(src, base, off) NEAR__OP "strb %w[" #src "]" NEAR__MEM(base, off)
#define NEAR_STORE2(src, base, off) NEAR__OP "strh %w[" #src "]" NEAR__MEM(base, off)
#define NEAR_STORE4(src, base, off) NEAR__OP "str %w[" #src "]" NEAR__MEM(base, off)
#define NEAR_STORE8(src, base, off) NEAR__OP "str %x[" #src "]" NEAR__MEM(base, off)
#define NEAR__STORE4_RELEASE(src, base) "stlr %w[" #src "], [%x[" #base "]]\n\t"
#define NEAR__STORE8_RELEASE(src, base) "stlr %x[" #src "], [%x[" #base "]]\n\t"

#define NEAR__OP3(op, dst, src) NEAR__OP op " %x[" #dst "], %x[" #dst "], %x[" #src "]\n\t"
#define NEAR_MOVE(dst, src) NEAR__OP "mov %x[" #dst "], %x[" #src "]\n\t"
#define NEAR_ADD(dst, src) NEAR__OP3("add", dst, src)
/* add of a negative number is assembled as sub. */
#define NEAR_ADD_CONST(dst, n)                                                                     \
	NEAR__OP NEAR__RANGE(n, -255, 255) "add %x[" #dst "], %x[" #dst "], #" #n "\n\t"
/* The virtual counter, which may be read before what precedes it. */
#define NEAR_CLOCK(time) NEAR__OP "mrs %x[" #time "], cntvct_el0\n\t"
#define NEAR__LOAD1X(dst, base, index)                                                             \
	NEAR__OP "ldrb %w[" #dst "], [%x[" #base "], %x[" #index "]]\n\t"
#define NEAR_SUB(dst, src) NEAR__OP3("sub", dst, src)
#define NEAR_AND(dst, src) NEAR__OP3("and", dst, src)
#define NEAR_OR(dst, src) NEAR__OP3("orr", dst, src)
#define NEAR_XOR(dst, src) NEAR__OP3("eor", dst, src)
#define NEAR_MUL(dst, src) NEAR__OP3("mul", dst, src)
#define NEAR_SHIFT_LEFT(dst, n)                                                                    \
	NEAR__OP NEAR__RANGE(n, 0, 63) "lsl %x[" #dst "], %x[" #dst "], #" #n "\n\t"
#define NEAR_SHIFT_RIGHT(dst, n)                                                                   \
	NEAR__OP NEAR__RANGE(n, 0, 63) "lsr %x[" #dst "], %x[" #dst "], #" #n "\n\t"

#define NEAR__BRANCH_IF(cond, a, b, label)                                                         \
	NEAR__OP "cmp %x[" #a "], %x[" #b "]\n\t"                                                  \
	"b." cond " %l[" #label "]\n\t"
#define NEAR_BRANCH_EQ(a, b, label) NEAR__BRANCH_IF("eq", a, b, label)
#define NEAR_BRANCH_NE(a, b, label) NEAR__BRANCH_IF("ne", a, b, label)
#define NEAR_BRANCH_BELOW(a, b, label) NEAR__BRANCH_IF("lo", a, b, label)
#define NEAR_BRANCH_NOT_BELOW(a, b, label) NEAR__BRANCH_IF("hs", a, b, label)
#define NEAR_BRANCH_ZERO(a, label) NEAR__OP "cbz %x[" #a "], %l[" #label "]\n\t"
#define NEAR_BRANCH_NONZERO(a, label) NEAR__OP "cbnz %x[" #a "], %l[" #label "]\n\t"
#define NEAR__BRANCH_TMP_NE(n, label)                                                              \
	"cmp %w[near_tmp], #" #n "\n\t"                                                            \
	"b.ne %l[" #label "]\n\t"
#define NEAR_BRANCH_MEM4_NE(base, off, n, label)                                                  \
	NEAR__OP NEAR__RANGE(n, 1, 255)                                                            \
	"ldr %w[near_tmp]" NEAR__MEM(base, off) NEAR__BRANCH_TMP_NE(n, label)
#define NEAR__BRANCH_MEM4X_NE(base, index, n, label)                                              \
	NEAR__OP NEAR__RANGE(n, 1, 255)                                                            \
	"ldr %w[near_tmp], [%x[" #base "], %x[" #index "]]\n\t" NEAR__BRANCH_TMP_NE(n, label)

NEAR__INLINE uint64_t near__clock(void)
{
	uint64_t time;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(time));
	return time;
}

NEAR__INLINE void *near__thread_pointer(void)
{
	return __builtin_thread_pointer();
}

/* Executes n pauses. An isb waits for what is in the pipeline, and takes as long as a pause of
 * other CPUs. yield does nothing on a CPU without hyperthreads, so that a wait would become a
 * matter of the loop's own instructions. Nothing that follows is executed speculatively before
 * (x86_64.h). */
NEAR__INLINE void near__pauses(unsigned n)
{
	for (; n; n--)
		__asm__ volatile("isb" : : : "memory");
}

/* The frame, {the caller's, the return address}, of a frame pointer. */
#define NEAR__FRAME(at) ((const uintptr_t *)(at))

#endif
