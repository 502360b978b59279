/* SPDX-License-Identifier: MIT */
/* Children of vfork. */
#ifndef NEARCPU_TESTS_VFORKS_H
#define NEARCPU_TESTS_VFORKS_H

#include "unit.h"

#include <nearcpu/counter.h>

#include "kernel/internal.h"

static inline struct near_rseq_status status_now(void)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	return status;
}

/* The exit status of a child of vfork that runs `run`. A frame of its own: the child writes to
 * it. */
static __attribute__((noinline)) pid_t start_vforked(int (*run)(void *), void *arg)
{
	pid_t child = vfork();

	if (child == 0)
		syscall(SYS_exit_group,
			run(arg)); /* sanitizers have an _exit that takes a second */
	return child;
}

static inline int vforked(int (*run)(void *), void *arg)
{
	pid_t child = start_vforked(run, arg);

	CHECK(child > 0);
	return unit_wait(child, NULL);
}

static inline int write_to(void *arg)
{
	*(int *)arg = 1;
	return 0;
}

/* Emulators make vfork a fork. */
static inline bool shares_memory(void)
{
	volatile int written = 0;

	CHECK(vforked(write_to, (void *)(uintptr_t)&written) == 0);
	return written;
}

#endif
