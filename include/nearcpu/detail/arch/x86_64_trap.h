/* SPDX-License-Identifier: MIT */
/* What src/torture must know of x86_64: its breakpoint, where a signal's context keeps the
 * instruction pointer, and how to find where instructions begin. */
#ifndef NEARCPU_ARCH_X86_64_TRAP_H
#define NEARCPU_ARCH_X86_64_TRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* int3: one byte, so that no jump into what follows lands in the middle of it. */
#define NEAR__BREAK_SIZE 1
#define NEAR__BREAK_BYTES {0xcc}
/* The instruction pointer is saved behind it. */
#define NEAR__BREAK_PASSED 1u
/* Boundaries of instructions are found by single steps: the CPU knows their lengths best. */
#define NEAR__TRAP_STEPS true

NEAR__INLINE uintptr_t near__trap_ip(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
}

NEAR__INLINE void near__trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	c->uc_mcontext.gregs[REG_RIP] = (greg_t)ip;
}

/* By the trap flag. */
NEAR__INLINE void near__trap_set_step(ucontext_t *c, bool on)
{
	if (on)
		c->uc_mcontext.gregs[REG_EFL] |= 0x100;
	else
		c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
}

/* Hands over to the handler, outside of any sequence. */
NEAR__INLINE void near__trap_call_handler(void)
{
	__asm__ volatile("int3" : : : "memory");
}

/* Whether a direct jump is there, after prefixes that such have: after it, the thread may be
 * at the end of a sequence without having come through its commit. */
NEAR__INLINE bool near__trap_is_jump(uintptr_t ip)
{
	const unsigned char *p = (const unsigned char *)ip;

	while (*p == 0x2e || *p == 0x3e || *p == 0xf2)
		p++;
	return (*p & 0xf0) == 0x70 || *p == 0xe9 || *p == 0xeb ||
	       (*p == 0x0f && (p[1] & 0xf0) == 0x80);
}

/* The word on top of the stack: right after a call, where it returns to. */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static inline uintptr_t
near__trap_stack_top(const ucontext_t *c)
{
	return *(const volatile uintptr_t *)(uintptr_t)c->uc_mcontext.gregs[REG_RSP];
}

NEAR__INLINE unsigned near__trap_length(uintptr_t ip)
{
	(void)ip;
	return 0;
}

#endif
