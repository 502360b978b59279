/* SPDX-License-Identifier: MIT */
/* What src/torture must know of aarch64; x86_64_trap.h documents each one. */
#ifndef NEARCPU_ARCH_AARCH64_TRAP_H
#define NEARCPU_ARCH_AARCH64_TRAP_H

#include <nearcpu/detail/arch/no_step_trap.h>

#define NEAR__BREAK_SIZE 4
#define NEAR__BREAK_BYTES {0x00, 0x00, 0x20, 0xd4} /* brk #0 */
#define NEAR__BREAK_PASSED 0u

NEAR__INLINE uintptr_t near__trap_ip(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.pc;
}

NEAR__INLINE void near__trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	c->uc_mcontext.pc = ip;
}

NEAR__INLINE unsigned near__trap_length(uintptr_t ip)
{
	(void)ip;
	return 4;
}

#endif
