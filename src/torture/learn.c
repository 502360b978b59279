/* SPDX-License-Identifier: MIT */
/* Finds which sequences a run executes and, where the length of an instruction cannot be decoded,
 * the instruction boundaries, by single-stepping. */
#define _GNU_SOURCE
#include "torture/breakpoints.h"

#include <stddef.h>

/* A sequence may contain a loop. This bounds the wait for one that does not end. */
#define MAX_STEPS 1000000
/* The first tries of a run may find a slot that is not open yet. */
#define MAX_LEFT 100
/* A sequence that is retried without bound continues after this; near__trap_run reports it. */
#define MAX_ABORTS 10000

static enum trap_others others_policy;
static bool only_finds;   /* which sequences are reached: none is stepped through */
static unsigned learning; /* the sequence that is being stepped, or near__trap.count */
static unsigned steps;
static unsigned left;   /* paths of this run that left a sequence early */
static unsigned aborts; /* in this run */

/* The boundaries on the current path through the sequence, each once. */
static struct {
	uintptr_t ip[TRAP_MAX_POINTS];
	unsigned n;
	bool full;
	uintptr_t last; /* the most recent one */
} path;

/* With single-stepping, every run may show more of a sequence. */
static bool is_to_learn(unsigned i)
{
	return NEAR__TRAP_STEPS && !only_finds && !near__trap.breakpoints[i].learnt;
}

static bool is_to_watch(unsigned i)
{
	return !near__trap.breakpoints[i].spent &&
	       (is_to_learn(i) || !near__trap.seqs[i].reached || others_policy != TRAP_LET_OTHERS);
}

static void add_to_path(uintptr_t ip)
{
	for (unsigned i = path.n; i-- > 0;)
		if (path.ip[i] == ip)
			return;
	path.full = path.n == TRAP_MAX_POINTS;
	if (!path.full)
		path.ip[path.n++] = ip;
}

static void add_point(struct trap_seq *s, uintptr_t ip)
{
	unsigned at = s->points;

	while (at > 0 && s->point[at - 1] > ip)
		at--;
	if (at > 0 && s->point[at - 1] == ip)
		return;
	if (s->points == TRAP_MAX_POINTS) {
		s->too_long = true;
		return;
	}
	for (unsigned k = s->points++; k > at; k--) {
		s->point[k] = s->point[k - 1];
		s->trapped[k] = s->trapped[k - 1];
	}
	s->point[at] = ip;
	s->trapped[at] = 0;
}

static void start_steps(ucontext_t *c, unsigned seq)
{
	near__break_unplant_all();
	learning = seq;
	steps = 0;
	path.n = 0;
	path.full = false;
	path.last = near__trap.seqs[seq].start;
	add_to_path(path.last);
	near__trap_set_ip(c, near__trap.seqs[seq].start);
	near__trap_set_step(c, true);
}

/* Handles a stop at the first instruction of a sequence while none is being stepped. */
static void on_start(ucontext_t *c)
{
	unsigned seq = near__break_aborted(c);
	bool aborted = seq < near__trap.count;

	if (!aborted)
		seq = near__break_hit(c);
	near__trap.seqs[seq].reached = true;
	near__trap.seqs[seq].watched |= aborted;
	if (is_to_learn(seq)) {
		start_steps(c, seq);
		return;
	}
	near__trap.breakpoints[seq].spent =
		aborted && (others_policy != TRAP_ABORT_OTHERS || ++aborts > MAX_ABORTS);
	if (!aborted || near__trap.breakpoints[seq].spent) /* not live: it continues */
		near__break_unplant(seq);
}

/* A sequence may have several paths: its points are those of all paths, sorted. */
static void end_path(struct trap_seq *s, uintptr_t ip)
{
	struct breakpoint *b = &near__trap.breakpoints[learning];

	/* The compiler may have placed the target of a branch directly after the commit. */
	if ((ip == s->end && !near__trap_is_jump(path.last)) || path.full || steps == MAX_STEPS) {
		s->too_long |= path.full || steps == MAX_STEPS;
		for (unsigned i = 0; i < path.n; i++)
			add_point(s, path.ip[i]);
		b->learnt = true;
	}
	b->spent = b->learnt || ++left == MAX_LEFT;
	learning = near__trap.count;
}

/* Steps through one sequence at a time, from its first instruction, as if it had not been aborted.
 * The sequence is learnt once a path ends after its commit. If a path leaves early, another run may
 * not. */
static void on_step(ucontext_t *c)
{
	struct trap_seq *s;
	uintptr_t ip = near__trap_ip(c);

	if (learning == near__trap.count) {
		on_start(c);
		return;
	}
	s = &near__trap.seqs[learning];
	add_to_path(ip);
	if (ip >= s->start && ip < s->end && !path.full && ++steps < MAX_STEPS) {
		path.last = ip;
		return;
	}
	end_path(s, ip);
	near__trap_set_step(c, false);
	near__break_plant_starts(is_to_watch);
}

void near__trap_learn_again(void)
{
	for (unsigned i = 0; i < near__trap.count; i++)
		near__trap.breakpoints[i].learnt = false;
}

void near__trap_forget_reached(void)
{
	for (unsigned i = 0; i < near__trap.count; i++)
		near__trap.seqs[i].reached = false;
}

unsigned near__trap_learn(enum trap_others others, void (*run)(void *arg), void *arg)
{
	unsigned known = 0;

	others_policy = others;
	learning = near__trap.count;
	left = aborts = 0;
	for (unsigned i = 0; i < near__trap.count; i++)
		near__trap.breakpoints[i].spent = false;
	near__break_plant_starts(is_to_watch);
	near__trap.handle = on_step;
	run(arg);
	near__trap.handle = NULL;
	near__break_unplant_all();
	for (unsigned i = 0; i < near__trap.count; i++)
		known += near__trap.seqs[i].reached + near__trap.seqs[i].points;
	return known;
}

void near__trap_find_reached(enum trap_others others, void (*run)(void *arg), void *arg)
{
	only_finds = true;
	near__trap_learn(others, run, arg);
	only_finds = false;
}

/* A retry loop may have been unrolled: the code after the n-th abort is seen in the n-th round at
 * the latest. */
void near__trap_learn_all(unsigned (*once)(void *arg), void *arg)
{
	unsigned before = 0, known;

	while ((known = once(arg)) != before)
		before = known;
}
