/* SPDX-License-Identifier: MIT */
/* For CPUs on which src/torture does not step: all their instructions encode their length. */
#ifndef NEARCPU_ARCH_NO_STEP_TRAP_H
#define NEARCPU_ARCH_NO_STEP_TRAP_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#define NEAR__TRAP_STEPS false

static inline void near__trap_set_step(ucontext_t *c, bool on)
{
	(void)c;
	(void)on;
}

static inline void near__trap_call_handler(void)
{
}

static inline uintptr_t near__trap_stack_top(const ucontext_t *c)
{
	(void)c;
	return 0;
}

static inline bool near__trap_is_jump(uintptr_t ip)
{
	(void)ip;
	return false;
}

#endif
