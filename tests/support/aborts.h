/* SPDX-License-Identifier: MIT */
/* Handlers of SIGABRT that use what has stopped the program, fork, and use it in the child: so that
 * no lock of the library may be held by then. For tests of unit.h. */
#ifndef NEARCPU_TESTS_ABORTS_H
#define NEARCPU_TESTS_ABORTS_H

/* How such a process ends. */
#define ABORT_HANDLED 42

static void (*abort_use)(void);

static inline void abort_handle(int number)
{
	pid_t child;

	signal(number, SIG_DFL);
	abort_use();
	child = fork();
	if (child == 0) {
		alarm(20);
		abort_use();
		_exit(0);
	}
	_exit(unit_wait(child, NULL) == 0 ? ABORT_HANDLED : 1);
}

/* In a child, before the misuse. A second thread makes fork take all locks. */
static inline void abort_begin(void (*use)(void))
{
	static bool never;

	alarm(20);
	abort_use = use;
	signal(SIGABRT, abort_handle);
	unit_start(unit_await_in_thread, &never);
}

#endif
