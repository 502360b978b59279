/* SPDX-License-Identifier: MIT */
/* trace: a signal at each instruction of an operation, not of its sequences alone. */
#ifndef NEARCPU_TESTS_TRACE_H
#define NEARCPU_TESTS_TRACE_H

#include "torture/trap.h"

/* Runs run(arg) and writes down the addresses of the program's own instructions in the order in
 * which they come, each once; sequences are aborted where they begin. Returns how many, at most
 * `max`; 0 where the CPU cannot step. */
unsigned trace(uintptr_t *ips, unsigned max, void (*run)(void *arg), void *arg);

struct trace_at {
	uintptr_t ip;
	void (*on_stop)(void *arg);
	void *arg;
	/* What happened. */
	bool reached;
	unsigned unprotected; /* times that a commit was reached later without an abort */
};

/* Runs run(arg), and at->on_stop in a signal handler when it first reaches the instruction
 * at->ip. */
void trace_run_at(struct trace_at *at, void (*run)(void *arg), void *arg);

#endif
