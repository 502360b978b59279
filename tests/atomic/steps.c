/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "steps.h"

#include <signal.h>
#include <string.h>

#include <nearcpu/arch/arch.h>
#include NEAR__ARCH_TRAP

#include "../unit.h"

static __thread struct steps *self;
static __thread void *memory;

static void run_level(struct steps *steps)
{
	unsigned level = steps->level;

	if (level + 1 == steps->depth) {
		act_run(&steps->acts[level], memory);
		return;
	}
	steps->begun[level] = steps->ended[level] = steps->met[level] = false;
	steps->counts[level] = 0;
	near__trap_call_handler();
	act_run(&steps->acts[level], memory);
	__atomic_store_n(&steps->ended[level], true, __ATOMIC_RELAXED);
	near__trap_call_handler();
}

/* The first trap begins the single steps; the one that was asked for, or the one behind the act,
 * ends them. */
static void on_trap(int signal, siginfo_t *info, void *context)
{
	struct steps *steps = self;
	unsigned level = steps->level;

	(void)signal;
	(void)info;
	if (!steps->begun[level]) {
		steps->begun[level] = true;
		near__trap_set_step(context, true);
		return;
	}
	if (!steps->ended[level] && ++steps->counts[level] < steps->at[level])
		return;
	near__trap_set_step(context, false);
	if (steps->ended[level] || steps->met[level])
		return;
	steps->met[level] = true;
	if (level == 0 && steps->wait)
		steps->wait(steps);
	steps->level = level + 1;
	run_level(steps);
	steps->level = level;
}

bool steps_possible(void)
{
	return NEAR__TRAP_STEPS && !unit_emulated() && !UNIT_SANITIZED;
}

void steps_open(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGTRAP, &action, NULL);
}

void steps_run(struct steps *steps, void *arena)
{
	self = steps;
	memory = arena;
	steps->level = 0;
	run_level(steps);
}

/* ---- what is right ---- */

/* Does those of the acts that are not in `gone`, in every order, to a copy of `before`. */
static bool some_order(const struct act *const planned[], const struct act *const done[],
		       unsigned n, unsigned gone, const void *before, const void *after)
{
	static __thread unsigned char memories[5][STEPS_ARENA];
	unsigned char *here = memories[__builtin_popcount(gone)];
	struct act act;

	if (gone == (1u << n) - 1)
		return memcmp(before, after, STEPS_ARENA) == 0;
	for (unsigned i = 0; i < n; i++) {
		if (gone & 1u << i)
			continue;
		memcpy(here, before, STEPS_ARENA);
		act = *planned[i];
		act_model(&act, here);
		if (act_gave_same(&act, done[i]) &&
		    some_order(planned, done, n, gone | 1u << i, here, after))
			return true;
	}
	return false;
}

bool steps_in_any_order(const struct act *const planned[], const struct act *const done[],
			unsigned n, const void *before, const void *after)
{
	return some_order(planned, done, n, 0, before, after);
}
