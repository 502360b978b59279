/* SPDX-License-Identifier: MIT */
/* What the trap must know of a CPU: its breakpoint, where a signal's context keeps the instruction
 * pointer, and how to find where instructions begin. */
#ifndef NEARCPU_TESTS_TRAP_ARCH_H
#define NEARCPU_TESTS_TRAP_ARCH_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#define TRAP_MAX_BREAK 4

#if defined(__x86_64__)
#define TRAP_ARCH 1
/* int3: one byte, so that no jump into what follows meets a part of it. */
static const unsigned char trap_break[] = {0xcc};
/* The instruction pointer is saved behind it. */
#define TRAP_BREAK_PASSED 1u
/* Instructions are told apart by running them one by one: the CPU knows their lengths best. */
#define TRAP_STEPS true
#define TRAP_STEP_FLAG 0x100

static inline uintptr_t trap_ip(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
}

static inline void trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	c->uc_mcontext.gregs[REG_RIP] = (greg_t)ip;
}

static inline void trap_set_step(ucontext_t *c, bool on)
{
	if (on)
		c->uc_mcontext.gregs[REG_EFL] |= TRAP_STEP_FLAG;
	else
		c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_STEP_FLAG;
}

/* Hands over to the handler, outside of any sequence. */
static inline void trap_call_handler(void)
{
	__asm__ volatile("int3" : : : "memory");
}

static inline unsigned trap_length(uintptr_t ip)
{
	(void)ip;
	return 0;
}

#elif defined(__aarch64__)
#define TRAP_ARCH 1
static const unsigned char trap_break[] = {0x00, 0x00, 0x20, 0xd4}; /* brk #0 */
#define TRAP_BREAK_PASSED 0u
#define TRAP_STEPS false

static inline uintptr_t trap_ip(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.pc;
}

static inline void trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	c->uc_mcontext.pc = ip;
}

static inline unsigned trap_length(uintptr_t ip)
{
	(void)ip;
	return 4;
}

#elif defined(__riscv) && __riscv_xlen == 64
#define TRAP_ARCH 1
static const unsigned char trap_break[] = {0x02, 0x90}; /* c.ebreak */
#define TRAP_BREAK_PASSED 0u
#define TRAP_STEPS false

static inline uintptr_t trap_ip(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.__gregs[0]; /* pc stands in the place of x0 */
}

static inline void trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	c->uc_mcontext.__gregs[0] = ip;
}

/* The low two bits tell compressed instructions from full ones. */
static inline unsigned trap_length(uintptr_t ip)
{
	return (*(const uint16_t *)ip & 3) == 3 ? 4 : 2;
}

#else
#define TRAP_ARCH 0
static const unsigned char trap_break[] = {0};
#define TRAP_BREAK_PASSED 0u
#define TRAP_STEPS false

static inline uintptr_t trap_ip(const ucontext_t *c)
{
	(void)c;
	return 0;
}

static inline void trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	(void)c;
	(void)ip;
}

static inline unsigned trap_length(uintptr_t ip)
{
	(void)ip;
	return 0;
}
#endif

#if !TRAP_STEPS
static inline void trap_set_step(ucontext_t *c, bool on)
{
	(void)c;
	(void)on;
}

static inline void trap_call_handler(void)
{
}
#endif

#endif
