/* SPDX-License-Identifier: MIT */
/* What src/torture must know of aarch64; x86_64_trap.h says what each one is. */
#ifndef NEARCPU_ARCH_AARCH64_TRAP_H
#define NEARCPU_ARCH_AARCH64_TRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#define NEAR__BREAK_SIZE 4
#define NEAR__BREAK_BYTES {0x00, 0x00, 0x20, 0xd4} /* brk #0 */
#define NEAR__BREAK_PASSED 0u
#define NEAR__TRAP_STEPS false

static inline uintptr_t near__trap_ip(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.pc;
}

static inline void near__trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	c->uc_mcontext.pc = ip;
}

static inline void near__trap_set_step(ucontext_t *c, bool on)
{
	(void)c;
	(void)on;
}

static inline void near__trap_call_handler(void)
{
}

static inline bool near__trap_is_jump(uintptr_t ip)
{
	(void)ip;
	return false;
}

static inline unsigned near__trap_length(uintptr_t ip)
{
	(void)ip;
	return 4;
}

#endif
