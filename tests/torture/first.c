/* SPDX-License-Identifier: MIT */
/* Runs other operations in a signal handler at each instruction of the first operation of a
 * thread. Single steps find the instructions, a breakpoint stops at one of them. */
#include "first.h"

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torture/breakpoints.h"
#include "torture/names.h"
#include "torture/trap.h"
#include "unit.h"

/* Made by the linker: the program's text. */
extern const char __executable_start[], etext[];

static struct {
	const struct op *first, *in_handler;
	struct actor a, b;
	uintptr_t ip; /* where the handler runs */
	bool reached;
	unsigned unprotected; /* times that a commit was reached later without an abort */
} visit;

/* The addresses of the program's own instructions in the order in which they come, each once. */
static uintptr_t traced[4096];
static unsigned n;
static volatile bool traces;

static void run_first(void)
{
	visit.first->run(&visit.a);
}

static void on_trace(ucontext_t *c)
{
	uintptr_t ip = near__trap_ip(c);
	bool known = !traces || ip < (uintptr_t)__executable_start || ip >= (uintptr_t)etext;

	for (unsigned i = 0; i < n && !known; i++)
		known = traced[i] == ip;
	if (!known && n < sizeof(traced) / sizeof(*traced))
		traced[n++] = ip;
	near__trap_set_step(c, traces);
}

/* Fills `traced`; sequences are aborted where they begin. This and the next one run on a fresh
 * thread, on which nothing of the library has run. */
static void *trace(void *unused)
{
	near__trap.handle = on_trace;
	traces = true;
	near__trap_call_handler();
	run_first();
	traces = false;
	near__trap_call_handler();
	near__trap.handle = NULL;
	return unused;
}

static void on_guard(ucontext_t *c)
{
	unsigned seq = near__break_aborted(c);

	if (seq == near__trap.count) {
		seq = near__break_hit(c);
		visit.unprotected++;
	}
	near__break_unplant(seq);
}

/* From here on every known sequence is watched at its last instruction. */
static void on_stop(ucontext_t *c)
{
	if (near__break_aborted(c) == near__trap.count)
		near__break_hit(c);
	near__break_unplant_all();
	visit.reached = true;
	visit.in_handler->run(&visit.b);
	for (unsigned i = 0; i < near__trap.count; i++) {
		const struct trap_seq *s = &near__trap.seqs[i];

		if (s->points)
			near__break_plant(i, s->point[s->points - 2]);
	}
	near__trap.handle = on_guard;
}

static void *visit_once(void *unused)
{
	visit.reached = false;
	visit.unprotected = 0;
	near__break_plant(near__trap.count, visit.ip);
	near__trap.handle = on_stop;
	run_first();
	near__trap.handle = NULL;
	near__break_unplant_all();
	return unused;
}

static void on_thread(void *(*run)(void *))
{
	pthread_t thread;

	ops_reset(OPS_OPEN, visit.first->object);
	ops_actor(&visit.a, 0);
	ops_actor(&visit.b, 1);
	if (pthread_create(&thread, NULL, run, NULL)) {
		fputs("first: no thread to be had\n", stderr);
		exit(1);
	}
	pthread_join(thread, NULL);
}

static unsigned judge(unsigned i)
{
	const char *lost = ops_conserved(&visit.a, &visit.b);

	if (!lost && !visit.unprotected)
		return 0;
	fprintf(stderr,
		"%s as the first of a thread, at instruction %u of %u %s in a handler: %s\n",
		visit.first->name, i, n, visit.in_handler->name,
		lost ? lost : "a sequence ran unprotected");
	return 1;
}

/* The program itself comes first. */
static int open_program(struct dl_phdr_info *object, size_t size, void *names)
{
	near__names_open(names, "/proc/self/exe", object->dlpi_addr);
	return 1;
}

/* A sanitizer runs its own code, C++ and assembly, around the handler: a breakpoint there would be
 * hit recursively. */
static bool is_of_a_sanitizer(uintptr_t ip)
{
	static struct names program;
	const char *name;
	uintptr_t offset;

	if (!program.image)
		dl_iterate_phdr(open_program, &program);
	name = near__name_of(&program, ip, &offset);
	return *name == '?' || strncmp(name, "_Z", 2) == 0 || strstr(name, "san") ||
	       strstr(name, "interceptor");
}

/* Instrumented operations have three times as many instructions as others. In a turn of the tests a
 * third of the handlers' operations run at each of these; in three turns all do. */
static bool is_in_turn(unsigned i, unsigned b)
{
	const char *turn = UNIT_SANITIZED ? getenv("NEAR_TEST_TURN") : NULL;

	return !turn || *turn < '0' || *turn > '9' || (i + b + (unsigned)atoi(turn)) % 3 == 0;
}

unsigned first_visit(const struct op *first, bool (*wanted)(const struct op *in_handler),
		     unsigned long *visits)
{
	unsigned failures = 0;

	visit.first = first;
	n = 0;
	if (NEAR__TRAP_STEPS)
		on_thread(trace);
	for (unsigned i = 0; i < n; i++)
		for (unsigned b = 0; b < ops_count; b++) {
			if (ops[b].object != first->object || !wanted(&ops[b]) ||
			    !is_in_turn(i, b) || is_of_a_sanitizer(traced[i]))
				continue;
			visit.in_handler = &ops[b];
			visit.ip = traced[i];
			on_thread(visit_once);
			if (!visit.reached)
				break; /* the trace itself, or a path that only its aborts take */
			++*visits;
			failures += judge(i);
		}
	return failures;
}
