/* SPDX-License-Identifier: MIT */
/* Processes that are the first of a pid namespace, as in a container; for tests of unit.h. */
#ifndef NEARCPU_TESTS_NAMESPACES_H
#define NEARCPU_TESTS_NAMESPACES_H

/* Runs `run` in such a process, which must return. Ends this process, a child: with 77 where the
 * system makes no namespaces. */
static inline void be_first_process(void (*run)(void))
{
	int status;
	pid_t child;

	if (unshare(CLONE_NEWPID) && unshare(CLONE_NEWUSER | CLONE_NEWPID))
		_exit(77);
	child = unit_fork_here();
	if (child == 0) {
		CHECK(getpid() == 1);
		run();
		_exit(0);
	}
	status = unit_wait(child, NULL);
	_exit(status < 0 ? 1 : status);
}

/* What `run` returns in a copy of this process that no fork handler has seen. If this is the first
 * process of a namespace, so is the copy: both have the number 1. */
static inline int in_copy(int (*run)(void))
{
	int space = getpid() == 1 ? CLONE_NEWPID : 0;
	long child = syscall(SYS_clone, SIGCHLD | space, 0, 0, 0, 0);

	if (child == 0)
		syscall(SYS_exit_group, run());
	CHECK(child > 0);
	return unit_wait((pid_t)child, NULL);
}

#endif
