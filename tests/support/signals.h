/* SPDX-License-Identifier: MIT */
/* Signals that tests send. */
#ifndef NEARCPU_TESTS_SIGNALS_H
#define NEARCPU_TESTS_SIGNALS_H

#include "unit.h"

static inline void on_signal(int number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	CHECK(sigaction(number, &action, NULL) == 0);
}

static unsigned caught; /* atomic */

static inline void note_signal(int signal)
{
	__atomic_fetch_add(&caught, 1, __ATOMIC_RELAXED);
}

static inline void catch_signals(int flags)
{
	on_signal(SIGUSR1, note_signal, flags);
}

/* Sends SIGUSR1 until n have arrived. */
static inline void signal_often(pthread_t thread, unsigned n)
{
	n += __atomic_load_n(&caught, __ATOMIC_RELAXED);
	while (__atomic_load_n(&caught, __ATOMIC_RELAXED) < n) {
		pthread_kill(thread, SIGUSR1);
		usleep(1000);
	}
}

#endif
