/* SPDX-License-Identifier: MIT */
/* How long a wait may last, and the futex calls that obey it. */
#ifndef NEARCPU_LIMIT_H
#define NEARCPU_LIMIT_H

#include <nearcpu/cancel.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NEAR__NEVER INT64_MAX

/* Zero is no limit, but for `deadline`: NEAR__NO_LIMIT. */
struct near__limit {
	int64_t deadline; /* in ns of the clock */
	clockid_t clock;
	bool interruptible; /* by signals */
	struct near_cancel *cancel;
};

#define NEAR__NO_LIMIT                                                                             \
	(struct near__limit)                                                                       \
	{                                                                                          \
		.deadline = NEAR__NEVER                                                            \
	}

/* Whether its nanoseconds are some. */
bool near__is_time(const struct timespec *t);

/* What is too large for a number counts as the largest one: longer than any machine will run. */
int64_t near__ns_of(const struct timespec *t);

/* 0 or -EINVAL: a deadline with nanoseconds that are none, or a clock that no wait can go by. */
int near__limit_set(struct near__limit *l, clockid_t clock, const struct timespec *deadline,
		    struct near_cancel *cancel);

/* The clock's time in ns; -1 where there is no such clock. */
int64_t near__now(clockid_t clock);

/* Sleeps while *word is `value`. 0: look again; -ETIMEDOUT; -EINTR if the limit is interruptible.
 * `shared`: the word is in memory that processes share. */
int near__futex_wait(uint32_t *word, uint32_t value, const struct near__limit *l, bool shared);

void near__futex_wake(uint32_t *word, int n, bool shared);

#endif
