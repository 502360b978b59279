/* SPDX-License-Identifier: MIT */
/* Which threads get the signals of unit_timer. */
#ifndef NEARCPU_TESTS_ALARMS_H
#define NEARCPU_TESTS_ALARMS_H

#include "unit.h"

/* SIG_BLOCK or SIG_UNBLOCK: for this thread, and those that it starts. */
static inline void mask_alarm(int how)
{
	sigset_t alarm;

	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	CHECK(pthread_sigmask(how, &alarm, NULL) == 0);
}

#endif
