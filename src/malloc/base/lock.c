/* SPDX-License-Identifier: MIT */
/* Waiting for a lock. */
#include "malloc/base/lock.h"

#include "ground/spin.h"

#define TRIES 12

void near__heap_lock_slow(struct near_lock *lock)
{
	for (int i = 0; i < TRIES; i++) {
		near__pause_for(NEAR__SPIN_NS);
		if (near_lock_try_lock(lock))
			return;
	}
	near_lock_lock(lock);
}
