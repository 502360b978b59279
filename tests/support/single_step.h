/* SPDX-License-Identifier: MIT */
/* A child that its parent executes instruction by instruction, by ptrace. */
#ifndef NEARCPU_TESTS_SINGLE_STEP_H
#define NEARCPU_TESTS_SINGLE_STEP_H

#include <sys/ptrace.h>

#include "unit.h"

/* In the child: it stops, calls `use`, which is stepped, stops again and ends. Status 77: it may
 * not be traced. */
static inline void step_through(void (*use)(void))
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(77);
	raise(SIGSTOP);
	use();
	raise(SIGSTOP);
	_exit(0);
}

/* False: the child has ended, or cannot be stepped. *ended: it has stopped again, or ended. */
static inline bool step_once(pid_t child, bool *ended)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) || waitpid(child, &status, 0) != child)
		return false;
	*ended = !WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP;
	return WIFSTOPPED(status);
}

#endif
