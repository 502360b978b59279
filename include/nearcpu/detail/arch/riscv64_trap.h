/* SPDX-License-Identifier: MIT */
/* What src/torture must know of riscv64; x86_64_trap.h documents each one. */
#ifndef NEARCPU_ARCH_RISCV64_TRAP_H
#define NEARCPU_ARCH_RISCV64_TRAP_H

#include <nearcpu/detail/arch/no_step_trap.h>

#define NEAR__BREAK_SIZE 2
#define NEAR__BREAK_BYTES {0x02, 0x90} /* c.ebreak */
#define NEAR__BREAK_PASSED 0u

/* It is in the place of x0. */
NEAR__INLINE uintptr_t near__trap_ip(const ucontext_t *c)
{
	return (uintptr_t)c->uc_mcontext.__gregs[0];
}

NEAR__INLINE void near__trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	c->uc_mcontext.__gregs[0] = ip;
}

/* The low two bits distinguish compressed instructions from full ones. */
NEAR__INLINE unsigned near__trap_length(uintptr_t ip)
{
	return (*(const uint16_t *)ip & 3) == 3 ? 4 : 2;
}

#endif
