/* SPDX-License-Identifier: MIT */
/* A call that a signal handler interrupts at an instruction, or at each, by single steps. */
#ifndef NEARCPU_TESTS_TRAP_STEPS_H
#define NEARCPU_TESTS_TRAP_STEPS_H

#include <signal.h>

#include <nearcpu/detail/arch/arch.h>
#include NEAR__ARCH_TRAP

#include "unit.h"

static struct {
	unsigned at, count; /* 0: at each instruction */
	bool begun, ended, met;
	void (*interrupt)(void);
} steps;

static inline void on_trap(int signal, siginfo_t *info, void *context)
{
	if (!steps.begun || steps.ended)
		near__trap_set_step(context, steps.begun = !steps.ended);
	else if (!steps.at || ++steps.count == steps.at) {
		steps.met = true;
		if (steps.at)
			near__trap_set_step(context, false);
		steps.interrupt();
	}
}

/* Returns false if the change has no such instruction. */
static inline bool step(void (*change)(void), unsigned at, void (*interrupt)(void))
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	sigaction(SIGTRAP, &action, NULL);
	steps.at = at;
	steps.count = 0;
	steps.begun = steps.ended = steps.met = false;
	steps.interrupt = interrupt;
	near__trap_call_handler();
	change();
	__atomic_store_n(&steps.ended, true, __ATOMIC_RELAXED);
	near__trap_call_handler();
	return steps.met;
}

static inline bool can_step(void)
{
	return NEAR__TRAP_STEPS && !unit_emulated() && !UNIT_SANITIZED;
}

#endif
