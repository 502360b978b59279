/* SPDX-License-Identifier: MIT */
/* near_mutex inside other locks: `site` is what the lock-order checker reports as the caller. */
#ifndef NEARCPU_MUTEX_AT_H
#define NEARCPU_MUTEX_AT_H

#include <nearcpu/mutex.h>

#include "parking/timeout.h"

/* near_mutex_lock. */
void near__mutex_lock_at(struct near_mutex *m, const void *site);

/* near_mutex_lock_until. */
int near__mutex_lock_timed_at(struct near_mutex *m, const struct near__timeout *timeout,
			      const void *site);

bool near__mutex_try_lock_at(struct near_mutex *m, const void *site);

/* near_mutex_unlock. One sequence for all that the library calls it from. */
void near__mutex_unlock(struct near_mutex *m);

/* The same without a sequence. */
static inline void near__mutex_release(struct near_mutex *m)
{
	near__mutex_unlock_slow(m, false);
}

#endif
