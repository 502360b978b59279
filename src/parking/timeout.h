/* SPDX-License-Identifier: MIT */
/* What ends a wait besides a wake-up. */
#ifndef NEARCPU_TIMEOUT_H
#define NEARCPU_TIMEOUT_H

#include <nearcpu/cancel.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NEAR__NEVER INT64_MAX

/* Zero is no limit, except for `deadline`; NEAR__NO_TIMEOUT has none. */
struct near__timeout {
	int64_t deadline; /* in ns of the clock */
	clockid_t clock;
	bool interruptible; /* by signals */
	struct near_cancel *cancel;
};

#define NEAR__NO_TIMEOUT                                                                           \
	(struct near__timeout)                                                                     \
	{                                                                                          \
		.deadline = NEAR__NEVER                                                            \
	}

/* Whether the nanoseconds are between 0 and 10^9. */
bool near__is_time(const struct timespec *t);

/* The largest number if the time does not fit: longer than any machine will run. */
int64_t near__ns_of(const struct timespec *t);

/* 0; -EINVAL: a deadline with invalid nanoseconds, or a clock that waits do not support. */
int near__timeout_set(struct near__timeout *t, clockid_t clock, const struct timespec *deadline,
		      struct near_cancel *cancel);

/* The clock's time in ns; -1 where there is no such clock. */
int64_t near__now(clockid_t clock);

#endif
