/* SPDX-License-Identifier: MIT */
/* Operations that a handler interrupts at a chosen instruction. */
#include "steps.h"

#include <link.h>

#include <nearcpu/detail/arch/arch.h>
#include NEAR__ARCH_TRAP

#include "atomic/table.h"
#include "unit.h"

static __thread struct steps *self;
static __thread void *memory;

/* ---- a breakpoint, for level 0 ---- */

static void set_break(struct steps *steps, bool on)
{
	static const unsigned char code[] = NEAR__BREAK_BYTES;
	volatile unsigned char *ip;

	ip = (volatile unsigned char *)steps->trace->steps[steps->at[0] - 1].ip;
	for (unsigned i = 0; i < sizeof(code); i++) {
		if (on)
			steps->broken[i] = ip[i];
		ip[i] = on ? code[i] : steps->broken[i];
	}
}

/* Returns true if the next operation runs here. The trace records how often the instruction runs
 * before; until then it is stepped over. */
static bool is_met(struct steps *steps, ucontext_t *context)
{
	if (steps->ended[0]) { /* stepped over */
		steps->ended[0] = false;
		near__trap_set_step(context, false);
		set_break(steps, true);
		return false;
	}
	set_break(steps, false);
	near__trap_set_ip(context, near__trap_ip(context) - NEAR__BREAK_PASSED);
	if (++steps->counts[0] == steps->trace->steps[steps->at[0] - 1].nth)
		return true;
	steps->ended[0] = true;
	near__trap_set_step(context, true);
	return false;
}

static void run_to_break(struct steps *steps)
{
	if (steps->at[0] > steps->trace->n) {
		operation_run(&steps->ops[0], memory);
		return;
	}
	set_break(steps, true);
	operation_run(&steps->ops[0], memory);
	__atomic_store_n(&steps->left, 0, __ATOMIC_RELAXED);
	if (!steps->met[0])
		set_break(steps, false);
}

/* A single step after the second operation: runs the third one if it is time. */
static void run_again(struct steps *steps, ucontext_t *context)
{
	if (steps->left > 1)
		steps->left--;
	if (steps->left > 1 || (steps->left && sigismember(&context->uc_sigmask, SIGUSR1)))
		return;
	near__trap_set_step(context, false);
	if (!steps->left)
		return;
	steps->left = 0;
	steps->met[1] = true;
	operation_run(&steps->ops[2], memory);
}

/* ---- single steps ---- */

static void record(struct steps_trace *trace, uintptr_t ip)
{
	unsigned nth = 1;

	if (trace->n == STEPS_TRACE || (trace->n && trace->steps[trace->n - 1].ip == ip))
		return;
	for (unsigned i = 0; i < trace->n; i++)
		nth += trace->steps[i].ip == ip;
	trace->steps[trace->n].ip = ip;
	trace->steps[trace->n++].nth = nth;
}

/* The first trap starts the single steps; the chosen one, or the one after the operation, ends
 * them. Returns true for the chosen one. */
static bool is_step(struct steps *steps, unsigned level, ucontext_t *context)
{
	if (!steps->begun[level]) {
		steps->begun[level] = true;
		near__trap_set_step(context, true);
		return false;
	}
	if (!steps->ended[level] && steps->record)
		record(steps->record, near__trap_ip(context));
	if (!steps->ended[level] && (steps->record || ++steps->counts[level] < steps->at[level]))
		return false;
	near__trap_set_step(context, false);
	return !steps->ended[level] && !steps->met[level];
}

static void run_by_steps(struct steps *steps, unsigned level)
{
	near__trap_call_handler();
	operation_run(&steps->ops[level], memory);
	__atomic_store_n(&steps->ended[level], true, __ATOMIC_RELAXED);
	near__trap_call_handler();
}

static void run_level(struct steps *steps)
{
	unsigned level = steps->level;

	steps->begun[level] = steps->ended[level] = steps->met[level] = false;
	steps->counts[level] = 0;
	if (steps->record)
		run_by_steps(steps, level);
	else if (level + 1 == steps->depth || (level == 1 && steps->again))
		operation_run(&steps->ops[level], memory);
	else if (level == 0 && steps->trace)
		run_to_break(steps);
	else
		run_by_steps(steps, level);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	struct steps *steps = self;
	unsigned level = steps->level;

	if (level == 0 && steps->again && steps->met[0]) {
		run_again(steps, context);
		return;
	}
	if (level == 0 && steps->trace ? !is_met(steps, context) : !is_step(steps, level, context))
		return;
	steps->met[level] = true;
	if (steps->wait)
		steps->wait(steps);
	steps->level = level + 1;
	run_level(steps);
	steps->level = level;
	if (level == 0 && steps->again) {
		steps->left = steps->again + 1;
		near__trap_set_step(context, true);
	}
	if (level == 0 && steps->behind)
		steps->behind(steps);
}

bool steps_possible(void)
{
	return NEAR__TRAP_STEPS && !unit_emulated() && !UNIT_SANITIZED;
}

void *steps_share(size_t size)
{
	unsigned char *arena;

	if (!steps_possible()) {
		puts("skipped: no single steps here");
		exit(77);
	}
	arena = unit_shared(size);
	for (unsigned i = 0; i < STEPS_ARENA; i++)
		arena[i] = (unsigned char)(i * 7 + 1);
	return arena;
}

bool steps_locks_are_free(void)
{
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++) {
		const struct near__atomic_lock *l = &near__atomic_locks.locks[i];

		if ((l->word & 1) || l->section || l->waiters)
			return false;
	}
	return true;
}

/* Breakpoints are written into the code. */
static int open_code(struct dl_phdr_info *info, size_t size, void *unused)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t begin = (info->dlpi_addr + p->p_vaddr) & ~(uintptr_t)4095;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X))
			mprotect((void *)begin, info->dlpi_addr + p->p_vaddr + p->p_memsz - begin,
				 PROT_READ | PROT_WRITE | PROT_EXEC);
	}
	return 0;
}

void steps_open(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};

	sigaction(SIGTRAP, &action, NULL);
	dl_iterate_phdr(open_code, NULL);
}

void steps_run(struct steps *steps, void *arena)
{
	self = steps;
	memory = arena;
	steps->level = 0;
	run_level(steps);
}

void steps_record(struct steps *steps, void *arena, struct steps_trace *out)
{
	const struct steps_trace *trace = steps->trace;

	out->n = 0;
	steps->record = out;
	steps->trace = NULL;
	steps_run(steps, arena);
	steps->record = NULL;
	steps->trace = trace;
}

/* ---- what is right ---- */

/* Tries every order of the operations that are not in `gone` on a copy of `before`. */
static bool some_order(const struct operation *const planned[],
		       const struct operation *const done[], unsigned n, unsigned gone,
		       const void *before, const void *after)
{
	static __thread unsigned char memories[8][STEPS_ARENA];
	unsigned char *here = memories[__builtin_popcount(gone)];
	struct operation op;

	if (gone == (1u << n) - 1)
		return memcmp(before, after, STEPS_ARENA) == 0;
	for (unsigned i = 0; i < n; i++) {
		if (gone & 1u << i)
			continue;
		memcpy(here, before, STEPS_ARENA);
		op = *planned[i];
		operation_model(&op, here);
		if (operation_same(&op, done[i]) &&
		    some_order(planned, done, n, gone | 1u << i, here, after))
			return true;
	}
	return false;
}

bool steps_in_any_order(const struct operation *const planned[],
			const struct operation *const done[], unsigned n, const void *before,
			const void *after)
{
	return some_order(planned, done, n, 0, before, after);
}
