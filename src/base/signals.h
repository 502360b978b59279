/* SPDX-License-Identifier: MIT */
/* signals: blocks all of them in this thread, so that no handler finds the state incomplete or
 * waits for its own thread, and threads that begin have them blocked. */
#ifndef NEARCPU_SIGNALS_H
#define NEARCPU_SIGNALS_H

#include <signal.h>
#include <stddef.h>

static inline void near__signals_block(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
}

static inline void near__signals_restore(const sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

#endif
