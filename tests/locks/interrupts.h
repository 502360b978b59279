/* SPDX-License-Identifier: MIT */
/* What the tests of signal handlers in the locks share. A test that hangs is ended by an alarm. */
#ifndef NEARCPU_TESTS_INTERRUPTS_H
#define NEARCPU_TESTS_INTERRUPTS_H

#include "waits.h"

#include <nearcpu/mutex.h>
#include <nearcpu/sem.h>

#define HANGS_AFTER_S 50

static inline void on_signal(int number, void (*handler)(int), int flags)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = flags};

	CHECK(sigaction(number, &action, NULL) == 0);
}

static inline void end_hangs(void)
{
	alarm(unit_emulated() ? 4 * HANGS_AFTER_S : HANGS_AFTER_S);
}

#endif
