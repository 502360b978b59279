/* SPDX-License-Identifier: MIT */
/* Finds the instructions that a run executes between the entry of a function and the sequence in
 * it. Where the length of an instruction cannot be decoded, the run is single-stepped, except for
 * its calls of other functions. */
#define _GNU_SOURCE
#include "torture/breakpoints.h"

#include <stddef.h>

/* The function may loop before it reaches the sequence. */
#define MAX_STEPS 100000
/* The longest instruction of a CPU that is single-stepped. */
#define LONGEST 15

static struct way {
	const struct trap_seq *seq;
	uintptr_t *out;
	unsigned n, room; /* the last `room` of n are in out[] */
	unsigned steps;
	uintptr_t last; /* the instruction that was stepped before, 0: none */
	volatile bool ended;
} way;

/* A breakpoint there would abort another sequence, or overwrite the signature that the kernel
 * checks. */
static bool belongs_to_sequence(uintptr_t ip)
{
	for (unsigned i = 0; i < near__trap.count; i++) {
		const struct trap_seq *s = &near__trap.seqs[i];

		if ((ip >= s->start && ip < s->end) ||
		    (ip + NEAR__BREAK_SIZE > s->abort - sizeof(uint32_t) && ip < s->abort))
			return true;
	}
	return false;
}

static void before_add(uintptr_t ip)
{
	for (unsigned i = 0; i < way.n && i < way.room; i++)
		if (way.out[i] == ip)
			return;
	if (!belongs_to_sequence(ip))
		way.out[way.n++ % way.room] = ip; /* NOLINT: room is not 0 */
}

static void step_on(ucontext_t *c, bool on)
{
	near__trap_set_step(c, on);
	way.last = on ? near__trap_ip(c) : 0;
}

/* Called functions run without single steps, unless the function calls itself. */
static bool skip_call(ucontext_t *c, uintptr_t ip)
{
	uintptr_t back = near__trap_stack_top(c);

	if (!way.last || ip == way.seq->entry || back <= way.last || back > way.last + LONGEST ||
	    (ip > way.last && ip <= way.last + LONGEST))
		return false;
	step_on(c, false);
	near__break_plant(near__trap.count, back);
	return true;
}

/* A single step into a sequence aborts it. If it is the wanted sequence, the trace ends. Any other
 * sequence is run without protection, as near__trap_learn does. */
static void on_way(ucontext_t *c)
{
	unsigned aborted = near__break_aborted(c);
	bool arrived = aborted < near__trap.count && &near__trap.seqs[aborted] == way.seq;
	uintptr_t ip;

	if (aborted < near__trap.count && !arrived)
		near__trap_set_ip(c, near__trap.seqs[aborted].start);
	else if (!way.last)
		near__break_unplant(near__break_hit(c));
	ip = near__trap_ip(c);
	if (arrived || ip == way.seq->start || way.ended || ++way.steps > MAX_STEPS) {
		step_on(c, false);
	} else if (!skip_call(c, ip)) {
		if (ip >= way.seq->entry && ip < way.seq->start)
			before_add(ip);
		step_on(c, true);
	}
}

static void step_through(void (*run)(void *arg), void *arg)
{
	near__break_plant(near__trap.count, way.seq->entry);
	near__trap.handle = on_way;
	run(arg);
	way.ended = true; /* checked by the next step, if any, before the store that follows */
	near__trap.handle = NULL;
	near__break_unplant_all();
}

unsigned near__trap_before(unsigned seq, void (*run)(void *arg), void *arg, uintptr_t *out,
			   unsigned room)
{
	const struct trap_seq *s = &near__trap.seqs[seq];

	way = (struct way){.seq = s, .out = out, .room = room};
	if (!s->entry)
		return 0;
	if (NEAR__TRAP_STEPS)
		step_through(run, arg);
	else
		for (uintptr_t ip = s->entry; ip < s->start; ip += near__trap_length(ip))
			before_add(ip);
	return way.n < room ? way.n : room;
}
