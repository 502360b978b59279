/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "trap.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "find.h"
#include "trap_arch.h"

enum what { IDLE, PLAN, LEARN, TRACE, AT, GUARD };

struct breakpoint {
	uintptr_t at;
	bool planted;
	bool learnt;                        /* since trap_learn_again */
	bool spent;                         /* met in this run, not to be planted again */
	unsigned char text[TRAP_MAX_BREAK]; /* what stood there */
};

/* One breakpoint for each sequence, and the one of the plan behind them. */
static struct {
	volatile enum what what;
	struct trap_seq *seqs;
	struct breakpoint *breaks;
	unsigned count;
	uintptr_t text_start, text_end;
	struct trap_plan *plan;
	enum trap_others others; /* while learning */
	unsigned learning;       /* the sequence that is stepped through, or count */
	uintptr_t path[TRAP_MAX_POINTS];
	unsigned steps;
	uintptr_t *volatile ips; /* of a trace; NULL ends it */
	unsigned max, n;
	struct trap_at *at_plan;
} trap;

unsigned trap_count(void)
{
	return trap.count;
}

struct trap_seq *trap_seq(unsigned i)
{
	return &trap.seqs[i];
}

/* ---- breakpoints ----
 *
 * What the handler runs calls nothing of the C library, errno included: breakpoints may be
 * there. */

/* ThreadSanitizer keeps no shadow of text. */
#define TOUCHES_TEXT __attribute__((no_sanitize("thread")))

TOUCHES_TEXT static void write_text(uintptr_t at, const unsigned char *bytes)
{
	char *p = (char *)at;

	for (size_t i = 0; i < sizeof(trap_break); i++)
		((volatile unsigned char *)p)[i] = bytes[i];
	__builtin___clear_cache(p, p + sizeof(trap_break));
}

TOUCHES_TEXT static void plant(unsigned i, uintptr_t at)
{
	struct breakpoint *b = &trap.breaks[i];

	b->at = at;
	b->planted = true;
	for (size_t k = 0; k < sizeof(trap_break); k++)
		b->text[k] = ((const unsigned char *)at)[k];
	write_text(at, trap_break);
}

static void unplant(unsigned i)
{
	if (!trap.breaks[i].planted)
		return;
	trap.breaks[i].planted = false;
	write_text(trap.breaks[i].at, trap.breaks[i].text);
}

/* The last first: two breakpoints at one place come off in the order they went on. */
static void unplant_all(void)
{
	for (unsigned i = trap.count + 1; i-- > 0;)
		unplant(i);
}

static void plant_starts(bool (*wanted)(unsigned i))
{
	for (unsigned i = 0; i < trap.count; i++)
		if (wanted(i))
			plant(i, trap.seqs[i].start);
}

/* ---- the handler ---- */

static void die(const char *why)
{
	if (write(2, why, strlen(why)) < 0)
		_exit(98);
	abort();
}

/* Which sequence the kernel has just aborted, or count. */
static unsigned aborted_seq(uintptr_t ip)
{
	unsigned i = 0;

	while (i < trap.count && trap.seqs[i].abort != ip)
		i++;
	return i;
}

static unsigned break_at(uintptr_t ip)
{
	for (unsigned i = trap.count + 1; i-- > 0;)
		if (trap.breaks[i].planted && trap.breaks[i].at == ip)
			return i;
	die("trap: SIGTRAP from somewhere else\n");
	return 0;
}

static void meet(bool aborted)
{
	struct trap_plan *plan = trap.plan;

	unplant_all();
	plan->met = true;
	plan->aborted = aborted;
	trap.seqs[plan->seq].trapped[plan->point]++;
	if (plan->meet)
		plan->meet(plan->arg);
}

/* An aborted thread is at the abort handler. One that was not stands at (or, see TRAP_BREAK_PASSED,
 * behind) the breakpoint: it is sent back to the instruction that stands there now. */
static void on_plan(ucontext_t *c)
{
	unsigned seq = aborted_seq(trap_ip(c)), hit;

	if (seq < trap.count && seq == trap.plan->seq) {
		meet(true);
	} else if (seq < trap.count) {
		trap.plan->aborts++;
		if (trap.plan->others == TRAP_ABORT_ONCE)
			unplant(seq);
	} else {
		hit = break_at(trap_ip(c) - TRAP_BREAK_PASSED);
		trap_set_ip(c, trap.breaks[hit].at);
		if (hit == trap.count)
			meet(false);
		else
			unplant(hit); /* of a thread that is not live: it runs on */
	}
}

static bool is_known(unsigned i)
{
	return trap.seqs[i].points != 0;
}

/* Where instructions are told apart by stepping, every run may show more of a sequence. */
static bool is_to_learn(unsigned i)
{
	return TRAP_STEPS && !trap.breaks[i].learnt;
}

static bool is_to_watch(unsigned i)
{
	return !trap.breaks[i].spent && (is_to_learn(i) || trap.others != TRAP_LET_OTHERS);
}

/* Meets a sequence at its first instruction, while none is stepped through. */
static void on_learn_start(ucontext_t *c)
{
	unsigned seq = aborted_seq(trap_ip(c));

	if (seq == trap.count) { /* not live: it runs on */
		seq = break_at(trap_ip(c) - TRAP_BREAK_PASSED);
		trap_set_ip(c, trap.seqs[seq].start);
		unplant(seq);
	} else if (!is_to_learn(seq)) {
		trap.breaks[seq].spent = trap.others == TRAP_ABORT_ONCE;
		if (trap.breaks[seq].spent)
			unplant(seq);
	} else {
		unplant_all();
		trap.learning = seq;
		trap.steps = 1;
		trap.path[0] = trap.seqs[seq].start;
		trap_set_ip(c, trap.seqs[seq].start);
		trap_set_step(c, true);
	}
}

/* A sequence may be run through in several ways: its points are those of all, in order. */
static void add_path(struct trap_seq *s)
{
	for (unsigned i = 0; i < trap.steps; i++) {
		unsigned at = s->points;

		while (at > 0 && s->point[at - 1] > trap.path[i])
			at--;
		if (at > 0 && s->point[at - 1] == trap.path[i])
			continue;
		if (s->points == TRAP_MAX_POINTS)
			die("trap: a sequence has too many instructions\n");
		for (unsigned k = s->points++; k > at; k--)
			s->point[k] = s->point[k - 1];
		s->point[at] = trap.path[i];
	}
}

/* Steps through one sequence at a time, from its first instruction on as if it had not been
 * aborted. It is known if it comes out behind its commit; if it leaves early, another run may
 * not. */
static void on_learn(ucontext_t *c)
{
	struct trap_seq *s = &trap.seqs[trap.learning];

	if (trap.learning == trap.count) {
		on_learn_start(c);
		return;
	}
	if (trap.steps == TRAP_MAX_POINTS)
		die("trap: a sequence has too many instructions\n");
	trap.path[trap.steps++] = trap_ip(c);
	if (trap_ip(c) >= s->start && trap_ip(c) < s->end)
		return;
	if (trap_ip(c) == s->end)
		add_path(s);
	trap.breaks[trap.learning].learnt |= trap_ip(c) == s->end;
	trap.breaks[trap.learning].spent = true;
	trap.learning = trap.count;
	trap_set_step(c, false);
	plant_starts(is_to_watch);
}

static void on_trace(ucontext_t *c)
{
	uintptr_t ip = trap_ip(c);
	bool known = !trap.ips || ip < trap.text_start || ip >= trap.text_end;

	for (unsigned i = 0; i < trap.n && !known; i++)
		known = trap.ips[i] == ip;
	if (!known && trap.n < trap.max)
		trap.ips[trap.n++] = ip;
	trap_set_step(c, trap.ips != NULL);
}

/* From here on every known sequence is watched at its last instruction. */
static void on_at(ucontext_t *c)
{
	unplant_all();
	if (aborted_seq(trap_ip(c)) == trap.count)
		trap_set_ip(c, trap.breaks[trap.count].at);
	trap.at_plan->met = true;
	trap.at_plan->meet(trap.at_plan->arg);
	for (unsigned i = 0; i < trap.count; i++)
		if (is_known(i))
			plant(i, trap.seqs[i].point[trap.seqs[i].points - 2]);
	trap.what = GUARD;
}

static void on_guard(ucontext_t *c)
{
	unsigned seq = aborted_seq(trap_ip(c));

	if (seq == trap.count) {
		seq = break_at(trap_ip(c) - TRAP_BREAK_PASSED);
		trap_set_ip(c, trap.breaks[seq].at);
		trap.at_plan->unprotected++;
	}
	unplant(seq);
}

static void on_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	switch (trap.what) {
	case PLAN:
		on_plan(context);
		break;
	case LEARN:
		on_learn(context);
		break;
	case TRACE:
		on_trace(context);
		break;
	case AT:
		on_at(context);
		break;
	case GUARD:
		on_guard(context);
		break;
	default:
		die("trap: SIGTRAP out of place\n");
	}
}

int trap_open(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	int n = find_sequences(&trap.seqs), r;

	if (n < 0)
		return n;
	trap.count = (unsigned)n;
	trap.breaks = calloc((size_t)n + 1, sizeof(*trap.breaks));
	if (!trap.breaks)
		return -ENOMEM;
	r = open_text(&trap.text_start, &trap.text_end);
	sigemptyset(&action.sa_mask);
	if (r == 0 && sigaction(SIGTRAP, &action, NULL))
		r = -errno;
	return r ? r : n;
}

/* ---- running ---- */

static bool is_other(unsigned i)
{
	return i != trap.plan->seq;
}

void trap_run(struct trap_plan *plan, void (*run)(void *arg), void *arg)
{
	plan->met = plan->aborted = false;
	plan->aborts = 0;
	trap.plan = plan;
	if (plan->others != TRAP_LET_OTHERS)
		plant_starts(is_other);
	if (plan->seq < trap.count)
		plant(trap.count, trap.seqs[plan->seq].point[plan->point]);
	trap.what = PLAN;
	run(arg);
	trap.what = IDLE;
	unplant_all();
}

void trap_learn_again(void)
{
	for (unsigned i = 0; i < trap.count; i++)
		trap.breaks[i].learnt = false;
}

unsigned trap_learn(enum trap_others others, void (*run)(void *arg), void *arg)
{
	unsigned known = 0;

	trap.others = others;
	trap.learning = trap.count;
	for (unsigned i = 0; i < trap.count; i++)
		trap.breaks[i].spent = false;
	plant_starts(is_to_watch);
	trap.what = LEARN;
	run(arg);
	trap.what = IDLE;
	unplant_all();
	for (unsigned i = 0; i < trap.count; i++)
		known += !is_to_learn(i);
	return known;
}

unsigned trap_trace(uintptr_t *ips, unsigned max, void (*run)(void *arg), void *arg)
{
	if (!TRAP_STEPS)
		return 0;
	trap.ips = ips;
	trap.max = max;
	trap.n = 0;
	trap.what = TRACE;
	trap_call_handler();
	run(arg);
	trap.ips = NULL;
	trap_call_handler();
	trap.what = IDLE;
	return trap.n;
}

void trap_run_at(struct trap_at *at, void (*run)(void *arg), void *arg)
{
	at->met = false;
	at->unprotected = 0;
	trap.at_plan = at;
	plant(trap.count, at->ip);
	trap.what = AT;
	run(arg);
	trap.what = IDLE;
	unplant_all();
}
