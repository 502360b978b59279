/* SPDX-License-Identifier: MIT */
/* For CPUs on which src/torture does not step: all their instructions encode their length. */
#ifndef NEARCPU_ARCH_NO_STEP_TRAP_H
#define NEARCPU_ARCH_NO_STEP_TRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#define NEAR__TRAP_STEPS false

NEAR__INLINE void near__trap_set_step(ucontext_t *c, bool on)
{
	(void)c;
	(void)on;
}

NEAR__INLINE void near__trap_call_handler(void)
{
}

NEAR__INLINE uintptr_t near__trap_stack_top(const ucontext_t *c)
{
	(void)c;
	return 0;
}

NEAR__INLINE bool near__trap_is_jump(uintptr_t ip)
{
	(void)ip;
	return false;
}

#endif
