/* SPDX-License-Identifier: MIT */
/* Single-steps an operation, and stops it at one of its instructions. */
#include "trace.h"

#include <stddef.h>

#include "torture/breakpoints.h"

/* Made by the linker: the program's text. */
extern const char __executable_start[], etext[];

static uintptr_t *volatile traced; /* NULL ends a trace */
static unsigned most, n;
static struct trace_at *visit;

static void on_trace(ucontext_t *c)
{
	uintptr_t ip = near__trap_ip(c);
	bool known = !traced || ip < (uintptr_t)__executable_start || ip >= (uintptr_t)etext;

	for (unsigned i = 0; i < n && !known; i++)
		known = traced[i] == ip;
	if (!known && n < most)
		traced[n++] = ip;
	near__trap_set_step(c, traced != NULL);
}

unsigned trace(uintptr_t *ips, unsigned max, void (*run)(void *arg), void *arg)
{
	if (!NEAR__TRAP_STEPS)
		return 0;
	traced = ips;
	most = max;
	n = 0;
	near__trap.handle = on_trace;
	near__trap_call_handler();
	run(arg);
	traced = NULL;
	near__trap_call_handler();
	near__trap.handle = NULL;
	return n;
}

static void on_guard(ucontext_t *c)
{
	unsigned seq = near__break_aborted(c);

	if (seq == near__trap.count) {
		seq = near__break_hit(c);
		visit->unprotected++;
	}
	near__break_unplant(seq);
}

/* From here on every known sequence is watched at its last instruction. */
static void on_at(ucontext_t *c)
{
	if (near__break_aborted(c) == near__trap.count)
		near__break_hit(c);
	near__break_unplant_all();
	visit->reached = true;
	visit->on_stop(visit->arg);
	for (unsigned i = 0; i < near__trap.count; i++) {
		const struct trap_seq *s = &near__trap.seqs[i];

		if (s->points)
			near__break_plant(i, s->point[s->points - 2]);
	}
	near__trap.handle = on_guard;
}

void trace_run_at(struct trace_at *at, void (*run)(void *arg), void *arg)
{
	at->reached = false;
	at->unprotected = 0;
	visit = at;
	near__break_plant(near__trap.count, at->ip);
	near__trap.handle = on_at;
	run(arg);
	near__trap.handle = NULL;
	near__break_unplant_all();
}
