/* SPDX-License-Identifier: MIT */
/* near_mutex as part of something else, whose caller the checker of lock order is to name. */
#ifndef NEARCPU_MUTEX_AT_H
#define NEARCPU_MUTEX_AT_H

#include <nearcpu/mutex.h>

#include "parking/limit.h"

/* near_mutex_lock by a call of the library that the program made at `site`. */
void near__mutex_lock_at(struct near_mutex *m, const void *site);

/* The same with a limit: 0 or a negative error, as near_mutex_lock_until. */
int near__mutex_lock_limited_at(struct near_mutex *m, const struct near__limit *l,
				const void *site);

bool near__mutex_try_lock_at(struct near_mutex *m, const void *site);

/* near_mutex_unlock for the library's own files, none of which needs a sequence for it. */
static inline void near__mutex_let_go(struct near_mutex *m)
{
	near__mutex_unlock_slow(m, false);
}

#endif
