/* SPDX-License-Identifier: MIT */
/* Blocks signals in the calling thread, except those of faults, which would end the program if they
 * were blocked, and the C library's own one, by which a thread makes all others change their user
 * ID, and for which it waits. */
#ifndef NEARCPU_ATOMIC_SECTION_SIGNALS_H
#define NEARCPU_ATOMIC_SECTION_SIGNALS_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The kernel's size of a signal set. */
#define NEAR__SIGNAL_SET 8

#ifdef __GLIBC__
#define NEAR__SIGNAL_TO_ALL 33 /* SIGSETXID */
#else
#define NEAR__SIGNAL_TO_ALL 34 /* musl's SIGSYNCCALL */
#endif

struct near__blocked {
	uint64_t old;
	int saved_errno;
};

static inline struct near__blocked near__block_signals(void)
{
	static const int faults[] = {
		SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, NEAR__SIGNAL_TO_ALL};
	struct near__blocked b = {.saved_errno = errno};
	uint64_t all = ~(uint64_t)0;

	for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		all &= ~((uint64_t)1 << (faults[i] - 1));
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &b.old, NEAR__SIGNAL_SET);
	return b;
}

static inline void near__unblock_signals(const struct near__blocked *b)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &b->old, NULL, NEAR__SIGNAL_SET);
	errno = b->saved_errno;
}

#endif
