/* SPDX-License-Identifier: MIT */
/* Any other CPU: there are no sequences to stop. */
#ifndef NEARCPU_ARCH_GENERIC_TRAP_H
#define NEARCPU_ARCH_GENERIC_TRAP_H

#include <nearcpu/detail/arch/no_step_trap.h>

#define NEAR__BREAK_SIZE 1
#define NEAR__BREAK_BYTES {0}
#define NEAR__BREAK_PASSED 0u

NEAR__INLINE uintptr_t near__trap_ip(const ucontext_t *c)
{
	(void)c;
	return 0;
}

NEAR__INLINE void near__trap_set_ip(ucontext_t *c, uintptr_t ip)
{
	(void)c;
	(void)ip;
}

NEAR__INLINE unsigned near__trap_length(uintptr_t ip)
{
	(void)ip;
	return 1;
}

#endif
