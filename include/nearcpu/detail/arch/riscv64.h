/* SPDX-License-Identifier: MIT */
/* The operations of a sequence on riscv64. seq.h documents each one. */
#ifndef NEARCPU_ARCH_RISCV64_H
#define NEARCPU_ARCH_RISCV64_H

#include <stdint.h>

#define NEAR__HAS_SEQ 1
#define NEAR__ARCH "riscv64"
#define NEAR__ADDRESS_ORDER __ATOMIC_RELAXED
#define NEAR__ARCH_OS <nearcpu/detail/arch/riscv64_os.h>
#define NEAR__ARCH_TRAP <nearcpu/detail/arch/riscv64_trap.h>
#define NEAR__ARCH_ATOMIC <nearcpu/detail/arch/riscv64_atomic.h>
#define NEAR__SIGNATURE 0xf1401073u
#define NEAR__SYS_RSEQ 293
#define NEAR__SYS_MEMBARRIER 283

/* Without Zbb a count of leading zeros is a call, of 40 instructions. The exponent of a double is
 * the number, since the conversion rounds towards zero. */
#if !defined(__riscv_zbb) && defined(__riscv_flen) && __riscv_flen >= 64
#define NEAR__TOP_BIT near__riscv64_top_bit
static inline __attribute__((unused, always_inline)) unsigned near__riscv64_top_bit(uint64_t v)
{
	uint64_t bits;
	double f;

	__asm__("fcvt.d.lu %1, %2, rtz\n\tfmv.x.d %0, %1" : "=r"(bits), "=&f"(f) : "r"(v));
	return (unsigned)(bits >> 52) - 1023;
}
#endif

#define NEAR__SEQ_ARM                                                                              \
	"la %[near_tmp], 73b\n\t"                                                                  \
	"sd %[near_tmp], 8(%[near_area])\n\t"
/* Behind the function in the same section. Aligned, since compressed code may leave two bytes. */
#define NEAR__SEQ_HANDLER                                                                          \
	".subsection 1\n\t"                                                                        \
	".balign 4\n\t"                                                                            \
	".4byte 0xf1401073\n"                                                                      \
	"74:\n\t"                                                                                  \
	"j %l[near_failed]\n\t"                                                                    \
	".previous\n\t"

#define NEAR__INDEX(dst)                                                                           \
	NEAR__INDEX_CPU(dst)                                                                       \
	"addi %[near_tmp], %[near_index_mode], -1\n\t"                                             \
	"beqz %[near_tmp], 75f\n\t"                                                                \
	"lwu %[" #dst "], 24(%[near_area])\n\t"                                                    \
	"beqz %[near_index_mode], 75f\n\t"                                                         \
	"lwu %[" #dst "], 20(%[near_area])\n\t"                                                    \
	"mul %[" #dst "], %[" #dst "], %[near_index_mode]\n\t"                                     \
	"lwu %[near_tmp], 24(%[near_area])\n\t"                                                    \
	"add %[" #dst "], %[" #dst "], %[near_tmp]\n"                                              \
	"75:\n\t"
#define NEAR__INDEX_CID(dst) NEAR__INDEX_CPU(dst) "lwu %[" #dst "], 24(%[near_area])\n\t"
/* To the jump of the abort handler, which is in the same section: where that is too far, the
 * assembler itself makes two branches of it. */
#define NEAR__INDEX_CPU(dst)                                                                       \
	"lw %[" #dst "], 4(%[near_area])\n\t"                                                      \
	"bltz %[" #dst "], 74f\n\t"

#define NEAR__MEM(reg, base, off)                                                                  \
	" %[" #reg "], " #off "(%[" #base "])\n\t" NEAR__MARK_OFFSET(off)
#define NEAR_LOAD1(dst, base, off) NEAR__OP "lbu" NEAR__MEM(dst, base, off)
#define NEAR_LOAD2(dst, base, off) NEAR__OP "lhu" NEAR__MEM(dst, base, off)
#define NEAR_LOAD4(dst, base, off) NEAR__OP "lwu" NEAR__MEM(dst, base, off)
#define NEAR_LOAD8(dst, base, off) NEAR__OP "ld" NEAR__MEM(dst, base, off)
#define NEAR_LOAD8X(dst, base, index)                                                              \
	"add %[near_tmp], %[" #base "], %[" #index "]\n\t" NEAR_LOAD8(dst, near_tmp, 0)
#define NEAR_STORE1(src, base, off) NEAR__OP "sb" NEAR__MEM(src, base, off)
#define NEAR_STORE2(src, base, off) NEAR__OP "sh" NEAR__MEM(src, base, off)
#define NEAR_STORE4(src, base, off) NEAR__OP "sw" NEAR__MEM(src, base, off)
#define NEAR_STORE8(src, base, off) NEAR__OP "sd" NEAR__MEM(src, base, off)
#define NEAR__STORE4_RELEASE(src, base) "fence rw, w\n\t" NEAR_STORE4(src, base, 0)
#define NEAR__STORE8_RELEASE(src, base) "fence rw, w\n\t" NEAR_STORE8(src, base, 0)

#define NEAR__OP3(op, dst, src) NEAR__OP op " %[" #dst "], %[" #dst "], %[" #src "]\n\t"
#define NEAR_MOVE(dst, src) NEAR__OP "mv %[" #dst "], %[" #src "]\n\t"
#define NEAR_ADD(dst, src) NEAR__OP3("add", dst, src)
#define NEAR_ADD_CONST(dst, n)                                                                     \
	NEAR__OP NEAR__RANGE(n, -255, 255) "addi %[" #dst "], %[" #dst "], " #n "\n\t"
/* The time counter. */
#define NEAR_CLOCK(time) NEAR__OP "rdtime %[" #time "]\n\t"
#define NEAR__LOAD1X(dst, base, index)                                                             \
	"add %[near_tmp], %[" #base "], %[" #index "]\n\t" NEAR_LOAD1(dst, near_tmp, 0)
#define NEAR_SUB(dst, src) NEAR__OP3("sub", dst, src)
#define NEAR_AND(dst, src) NEAR__OP3("and", dst, src)
#define NEAR_OR(dst, src) NEAR__OP3("or", dst, src)
#define NEAR_XOR(dst, src) NEAR__OP3("xor", dst, src)
#define NEAR_MUL(dst, src) NEAR__OP3("mul", dst, src)
#define NEAR_SHIFT_LEFT(dst, n)                                                                    \
	NEAR__OP NEAR__RANGE(n, 0, 63) "slli %[" #dst "], %[" #dst "], " #n "\n\t"
#define NEAR_SHIFT_RIGHT(dst, n)                                                                   \
	NEAR__OP NEAR__RANGE(n, 0, 63) "srli %[" #dst "], %[" #dst "], " #n "\n\t"

/* A conditional branch reaches 4 KiB only: it jumps over a far one. */
#define NEAR__BRANCH_UNLESS(op, a, b, label)                                                       \
	NEAR__OP op " %[" #a "], " b ", 75f\n\t"                                                   \
	"j %l[" #label "]\n"                                                                       \
	"75:\n\t"
#define NEAR_BRANCH_EQ(a, b, label) NEAR__BRANCH_UNLESS("bne", a, "%[" #b "]", label)
#define NEAR_BRANCH_NE(a, b, label) NEAR__BRANCH_UNLESS("beq", a, "%[" #b "]", label)
#define NEAR_BRANCH_BELOW(a, b, label) NEAR__BRANCH_UNLESS("bgeu", a, "%[" #b "]", label)
#define NEAR_BRANCH_NOT_BELOW(a, b, label) NEAR__BRANCH_UNLESS("bltu", a, "%[" #b "]", label)
#define NEAR_BRANCH_ZERO(a, label) NEAR__BRANCH_UNLESS("bne", a, "zero", label)
#define NEAR_BRANCH_NONZERO(a, label) NEAR__BRANCH_UNLESS("beq", a, "zero", label)
#define NEAR__BRANCH_TMP_NE(n, label)                                                              \
	"addi %[near_tmp], %[near_tmp], -" #n "\n\t" NEAR_BRANCH_NONZERO(near_tmp, label)
#define NEAR_BRANCH_MEM4_NE(base, off, n, label)                                                  \
	NEAR__RANGE(n, 1, 255)                                                                     \
	"lw" NEAR__MEM(near_tmp, base, off) NEAR__BRANCH_TMP_NE(n, label)
#define NEAR__BRANCH_MEM4X_NE(base, index, n, label)                                              \
	NEAR__RANGE(n, 1, 255) "add %[near_tmp], %[" #base "], %[" #index "]\n\t"                  \
	"lw %[near_tmp], 0(%[near_tmp])\n\t" NEAR__BRANCH_TMP_NE(n, label)

NEAR__INLINE uint64_t near__clock(void)
{
	uint64_t time;

	__asm__ volatile("rdtime %0" : "=r"(time));
	return time;
}

NEAR__INLINE void *near__thread_pointer(void)
{
	return __builtin_thread_pointer();
}

/* GCC before 14 takes the whole register for what a compare-exchange of 4 bytes expects (its bug
 * 114130): it must hold them as registers hold 32 bits. */
NEAR__INLINE uint32_t near__low_half(uint64_t value)
{
	uint64_t low;

	__asm__("sext.w %0, %1" : "=r"(low) : "r"(value));
	return (uint32_t)low;
}
#define NEAR__LOW_HALF(value) near__low_half(value)

/* Executes n pauses; they are hints. */
NEAR__INLINE void near__pauses(unsigned n)
{
	for (; n; n--)
		__asm__ volatile(".insn i 0x0F, 0, x0, x0, 0x010" : : : "memory");
}

/* The frame, {the caller's, the return address}, of a frame pointer. */
#define NEAR__FRAME(at) ((const uintptr_t *)(at)-2)

#endif
