/* SPDX-License-Identifier: MIT */
/* Runs other operations in a signal handler at each instruction of the first operation of a
 * thread. */
#include "first.h"

#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "torture/names.h"
#include "trace.h"

#define MAX_IPS 4096

struct visit {
	const struct op *first, *in_handler;
	struct actor a, b;
	struct trace_at at;
	uintptr_t *ips;
	unsigned n;
};

static void run_first(void *visit)
{
	struct visit *v = visit;

	v->first->run(&v->a);
}

static void run_in_handler(void *visit)
{
	struct visit *v = visit;

	v->in_handler->run(&v->b);
}

/* Each of these is a fresh thread: nothing of the library has run on it. */
static void *trace_thread(void *visit)
{
	struct visit *v = visit;

	v->n = trace(v->ips, MAX_IPS, run_first, v);
	return NULL;
}

static void *visit_thread(void *visit)
{
	struct visit *v = visit;

	trace_run_at(&v->at, run_first, v);
	return NULL;
}

static void on_thread(void *(*run)(void *), struct visit *v)
{
	pthread_t thread;

	ops_reset();
	ops_actor(&v->a, 0);
	ops_actor(&v->b, 1);
	if (pthread_create(&thread, NULL, run, v)) {
		fputs("first: no thread to be had\n", stderr);
		exit(1);
	}
	pthread_join(thread, NULL);
}

static unsigned judge(struct visit *v, unsigned i)
{
	const char *lost = ops_conserved(&v->a, &v->b);

	if (!lost && !v->at.unprotected)
		return 0;
	fprintf(stderr,
		"%s as the first of a thread, at instruction %u of %u %s in a handler: %s\n",
		v->first->name, i, v->n, v->in_handler->name,
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

unsigned first_visit(const struct op *first, bool (*wanted)(const struct op *in_handler),
		     unsigned long *visits)
{
	struct visit v = {.first = first};
	unsigned failures = 0;

	v.ips = calloc(MAX_IPS, sizeof(*v.ips));
	on_thread(trace_thread, &v);
	for (unsigned i = 0; i < v.n; i++)
		for (unsigned b = 0; b < ops_count; b++) {
			if (ops[b].object != first->object || !wanted(&ops[b]) ||
			    is_of_a_sanitizer(v.ips[i]))
				continue;
			v.in_handler = &ops[b];
			v.at = (struct trace_at){
				.ip = v.ips[i], .on_stop = run_in_handler, .arg = &v};
			on_thread(visit_thread, &v);
			if (!v.at.reached)
				break; /* the trace itself, or a path that only its aborts take */
			++*visits;
			failures += judge(&v, i);
		}
	free(v.ips);
	return failures;
}
