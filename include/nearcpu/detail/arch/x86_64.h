/* SPDX-License-Identifier: MIT */
/* The operations of a sequence on x86_64. seq.h documents each one. */
#ifndef NEARCPU_ARCH_X86_64_H
#define NEARCPU_ARCH_X86_64_H

#define NEAR__HAS_SEQ 1
#define NEAR__ARCH "x86_64"
#define NEAR__ADDRESS_ORDER __ATOMIC_RELAXED
#define NEAR__ARCH_OS <nearcpu/detail/arch/x86_64_os.h>
#define NEAR__ARCH_TRAP <nearcpu/detail/arch/x86_64_trap.h>
#define NEAR__ARCH_ATOMIC <nearcpu/detail/arch/x86_64_atomic.h>
/* The four bytes before an abort handler. With the three before them they are one undefined
 * instruction (ud1 edi, [rip + signature]), so that falling into the handler stops. */
#define NEAR__SIGNATURE 0x53053053u
#define NEAR__SYS_RSEQ 334
#define NEAR__SYS_MEMBARRIER 324

/* The operations are in AT&T syntax; with -masm=intel compilers write the operands in the other. */
#define NEAR__SEQ_ARM                                                                              \
	"{|.error \"nearcpu: compile without -masm=intel\"\n\t}"                                   \
	"leaq 73b(%%rip), %q[near_tmp]\n\t"                                                        \
	"movq %q[near_tmp], 8(%q[near_area])\n\t"
#define NEAR__SEQ_HANDLER                                                                          \
	".pushsection .text.near_abort, \"ax?\", @progbits\n\t"                                    \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                                               \
	".long 0x53053053\n"                                                                       \
	"74:\n\t"                                                                                  \
	"jmp %l[near_failed]\n\t"                                                                  \
	".popsection\n\t"

/* One comparison: equal is by cpu, below is by cid, above by node and cid. mov sets no flags. */
#define NEAR__INDEX(dst)                                                                           \
	NEAR__INDEX_CPU(dst)                                                                       \
	"cmpl $1, %k[near_index_mode]\n\t"                                                         \
	"je 75f\n\t"                                                                               \
	"movl 24(%q[near_area]), %k[" #dst "]\n\t"                                                 \
	"jb 75f\n\t"                                                                               \
	"movl %k[near_index_mode], %k[" #dst "]\n\t"                                               \
	"imull 20(%q[near_area]), %k[" #dst "]\n\t"                                                \
	"addl 24(%q[near_area]), %k[" #dst "]\n"                                                   \
	"75:\n\t"
#define NEAR__INDEX_CID(dst) NEAR__INDEX_CPU(dst) "movl 24(%q[near_area]), %k[" #dst "]\n\t"
#define NEAR__INDEX_CPU(dst)                                                                       \
	"movl 4(%q[near_area]), %k[" #dst "]\n\t"                                                  \
	"testl %k[" #dst "], %k[" #dst "]\n\t"                                                     \
	"js %l[near_failed]\n\t"

#define NEAR__MEM(base, off) #off "(%q[" #base "])"
#define NEAR__END(off) "\n\t" NEAR__MARK_OFFSET(off)
#define NEAR_LOAD1(dst, base, off)                                                                 \
	NEAR__OP "movzbl " NEAR__MEM(base, off) ", %k[" #dst "]" NEAR__END(off)
#define NEAR_LOAD2(dst, base, off)                                                                 \
	NEAR__OP "movzwl " NEAR__MEM(base, off) ", %k[" #dst "]" NEAR__END(off)
#define NEAR_LOAD4(dst, base, off)                                                                 \
	NEAR__OP "movl " NEAR__MEM(base, off) ", %k[" #dst "]" NEAR__END(off)
#define NEAR_LOAD8(dst, base, off)                                                                 \
	NEAR__OP "movq " NEAR__MEM(base, off) ", %q[" #dst "]" NEAR__END(off)
#define NEAR_LOAD8X(dst, base, index)                                                              \
	NEAR__OP "movq (%q[" #base "], %q[" #index "]), %q[" #dst "]\n\t"
#define NEAR_STORE1(src, base, off)                                                                \
	NEAR__OP "movb %b[" #src "], " NEAR__MEM(base, off) NEAR__END(off)
#define NEAR_STORE2(src, base, off)                                                                \
	NEAR__OP "movw %w[" #src "], " NEAR__MEM(base, off) NEAR__END(off)
#define NEAR_STORE4(src, base, off)                                                                \
	NEAR__OP "movl %k[" #src "], " NEAR__MEM(base, off) NEAR__END(off)
#define NEAR_STORE8(src, base, off)                                                                \
	NEAR__OP "movq %q[" #src "], " NEAR__MEM(base, off) NEAR__END(off)
/* Stores are never reordered with earlier loads or stores: a plain one is a release. */
#define NEAR__STORE4_RELEASE(src, base) NEAR_STORE4(src, base, 0)
#define NEAR__STORE8_RELEASE(src, base) NEAR_STORE8(src, base, 0)

#define NEAR_MOVE(dst, src) NEAR__OP "movq %q[" #src "], %q[" #dst "]\n\t"
/* lea, not add: in a loop of sequences Intel's cores since Golden Cove then forward a stored word
 * to the load of it in one cycle. Otherwise it takes 7 (measured on Granite Rapids). */
#define NEAR_ADD(dst, src) NEAR__OP "leaq (%q[" #dst "], %q[" #src "]), %q[" #dst "]\n\t"
#define NEAR_ADD_CONST(dst, n) NEAR__OP NEAR__RANGE(n, -255, 255) "addq $" #n ", %q[" #dst "]\n\t"
#define NEAR_SUB(dst, src) NEAR__OP "subq %q[" #src "], %q[" #dst "]\n\t"
#define NEAR_AND(dst, src) NEAR__OP "andq %q[" #src "], %q[" #dst "]\n\t"
#define NEAR_OR(dst, src) NEAR__OP "orq %q[" #src "], %q[" #dst "]\n\t"
#define NEAR_XOR(dst, src) NEAR__OP "xorq %q[" #src "], %q[" #dst "]\n\t"
#define NEAR_MUL(dst, src) NEAR__OP "imulq %q[" #src "], %q[" #dst "]\n\t"
#define NEAR_SHIFT_LEFT(dst, n) NEAR__OP NEAR__RANGE(n, 0, 63) "shlq $" #n ", %q[" #dst "]\n\t"
#define NEAR_SHIFT_RIGHT(dst, n) NEAR__OP NEAR__RANGE(n, 0, 63) "shrq $" #n ", %q[" #dst "]\n\t"

/* The time stamp counter, which may be read before what precedes it. */
#define NEAR_CLOCK(time)                                                                           \
	NEAR__OP "rdtsc\n\t"                                                                       \
		 "shlq $32, %%rdx\n\t"                                                             \
		 "orq %%rdx, %q[" #time "]\n\t"
#define NEAR__CLOCK_OUT(time) , [time] "=&a"(time), [near_high] "=&d"(near__high)

#define NEAR__COMPARED "er" /* what a register is compared with: a constant, too */
/* For lists of blocks (blocks.h): dst = the byte base[index]; if a, which is below 256, is not
 * below the byte at base[off]. */
#define NEAR__LOAD1X(dst, base, index)                                                             \
	NEAR__OP "movzbl (%q[" #base "], %q[" #index "]), %k[" #dst "]\n\t"
#define NEAR__BRANCH_NOT_BELOW_MEM1(a, base, off, label)                                           \
	NEAR__OP "cmpb " NEAR__MEM(base, off) ", %b[" #a "]" NEAR__END(off)                        \
	"jae %l[" #label "]\n\t"

#define NEAR__BRANCH_IF(cond, a, b, label)                                                         \
	NEAR__OP "cmpq %q[" #b "], %q[" #a "]\n\t"                                                 \
	"j" cond " %l[" #label "]\n\t"
#define NEAR_BRANCH_EQ(a, b, label) NEAR__BRANCH_IF("e", a, b, label)
#define NEAR_BRANCH_NE(a, b, label) NEAR__BRANCH_IF("ne", a, b, label)
#define NEAR_BRANCH_BELOW(a, b, label) NEAR__BRANCH_IF("b", a, b, label)
#define NEAR_BRANCH_NOT_BELOW(a, b, label) NEAR__BRANCH_IF("ae", a, b, label)
#define NEAR_BRANCH_ZERO(a, label)                                                                \
	NEAR__OP "testq %q[" #a "], %q[" #a "]\n\t"                                                \
	"jz %l[" #label "]\n\t"
#define NEAR_BRANCH_NONZERO(a, label)                                                             \
	NEAR__OP "testq %q[" #a "], %q[" #a "]\n\t"                                                \
	"jnz %l[" #label "]\n\t"
#define NEAR_BRANCH_MEM4_NE(base, off, n, label)                                                  \
	NEAR__OP NEAR__RANGE(n, 1, 255) "cmpl $" #n ", " NEAR__MEM(base, off) NEAR__END(off)       \
	"jne %l[" #label "]\n\t"
#define NEAR__BRANCH_MEM4X_NE(base, index, n, label)                                               \
	NEAR__OP NEAR__RANGE(n, 1, 255) "movl (%q[" #base "], %q[" #index "]), %k[near_tmp]\n\t"   \
	"cmpl $" #n ", %k[near_tmp]\n\t"                                                          \
	"jne %l[" #label "]\n\t"

NEAR__INLINE uint64_t near__clock(void)
{
	uint64_t low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return high << 32 | low;
}

NEAR__INLINE void *near__thread_pointer(void)
{
	void *tp;

	__asm__("movq %%fs:0, %0" : "=r"(tp));
	return tp;
}

/* Fetches the cache line for writing. CPUs without the instruction do nothing. Not
 * __builtin_prefetch: compilers use the instruction only where their options say that the CPU has
 * it. */
#define near__prefetch_for_write(p) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(p)))

/* Executes n pauses. The lfence: without it the CPU predicts early that the loop is over and
 * executes what follows speculatively, and a waiter takes the cache line of the lock without having
 * read it. Measured with two threads on one mutex: without, half the throughput. */
NEAR__INLINE void near__pauses(unsigned n)
{
	for (; n; n--)
		__asm__ volatile("pause" : : : "memory");
	__asm__ volatile("lfence" : : : "memory");
}

/* The frame, {the caller's, the return address}, of a frame pointer. */
#define NEAR__FRAME(at) ((const uintptr_t *)(at))

#endif
