/* SPDX-License-Identifier: MIT */
/* What the library itself needs of x86_64: vfork, and instructions that return the CPU's number. */
#ifndef NEARCPU_ARCH_X86_64_OS_H
#define NEARCPU_ARCH_X86_64_OS_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

/* Kernels whose sequences are not restarted as they should be: none here. */
#define NEAR__BROKEN_KERNEL(version) ((void)(version), false)
#define NEAR__BROKEN_WHY ""

/* vfork(): the child runs on this thread's memory, thread-local storage included, but without a
 * registration. So the thread's words name the dead area while the child runs; the parent's copies
 * wait in registers, which the kernel keeps. The return address waits in a register too, since the
 * child returns over the same stack. The shadow stack is one, too (the kernel makes none for
 * CLONE_VFORK), and the parent's return takes the entry of this call from it: the child jumps, as
 * with glibc's vfork, so that its own calls do not overwrite that entry. A child that returns from
 * the function that called vfork, which POSIX forbids, is killed then. The jump arrives at the
 * endbr64 that compilers put behind a call that returns twice.
 * `state` is set before `area` and unset after it: a signal handler that finds the thread live must
 * not read its cpu from the dead area. Offsets: struct near__thread (rseq.h); 3 is
 * NEAR__VFORKED. */
#define NEAR__VFORK_ASM                                                                            \
	"	endbr64\n"                                                                         \
	"	popq %rdi\n"                                                                       \
	".cfi_adjust_cfa_offset -8\n"                                                              \
	".cfi_register %rip, %rdi\n"                                                               \
	"	movq " NEAR__STATE_NAME("near__self") "@gottpoff(%rip), %r8\n" \
	"	movq %fs:0(%r8), %r10\n"                                                           \
	"	movl %fs:12(%r8), %edx\n"                                                          \
	"	movq " NEAR__STATE_NAME("near__dead") "@GOTPCREL(%rip), %rsi\n" \
	"	movl $3, %fs:12(%r8)\n"                                                            \
	"	movq %rsi, %fs:0(%r8)\n"                                                           \
	"	movl $58, %eax\n"                                                                  \
	"	syscall\n"                                                                         \
	"	testl %eax, %eax\n"                                                                \
	"	jnz 1f\n"                                                                          \
	"	jmp *%rdi\n"                                                                       \
	"1:	movq %r10, %fs:0(%r8)\n"                                                           \
	"	movl %edx, %fs:12(%r8)\n"                                                          \
	"	pushq %rdi\n"                                                                      \
	".cfi_adjust_cfa_offset 8\n"                                                               \
	".cfi_restore %rip\n"                                                                      \
	"	movslq %eax, %rdi\n"                                                               \
	"	jmp near__vfork_parent\n"

/* The kernel keeps node << 12 | cpu where these read it; its own getcpu does the same. */
#define NEAR__HAS_CPU_INSN 1

NEAR__INLINE uint32_t near__insn_rdpid(void)
{
	uint64_t v;

	__asm__ volatile(".byte 0xf3, 0x48, 0x0f, 0xc7, 0xf8" : "=a"(v)); /* rdpid rax */
	return (uint32_t)v;
}

NEAR__INLINE uint32_t near__insn_lsl(void)
{
	uint32_t v = UINT32_MAX;

	__asm__ volatile("lsl %1, %0" : "+r"(v) : "r"(0x7b) : "cc");
	return v;
}

NEAR__INLINE uint32_t near__insn_rdtscp(void)
{
	uint32_t lo, hi, v;

	__asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi), "=c"(v));
	return v;
}

NEAR__INLINE bool near__insn_has_rdpid(void)
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 22));
}

NEAR__INLINE bool near__insn_has_rdtscp(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000001, &a, &b, &c, &d) && (d & (1u << 27));
}

#endif
