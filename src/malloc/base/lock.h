/* SPDX-License-Identifier: MIT */
/* lock: how the allocator waits for its locks. Their holders need a fraction of a microsecond, but
 * near_lock yields after one try, and a thread that yields while others compute does not run again
 * for milliseconds. A waiter here tries for two microseconds first: only a holder that was
 * preempted keeps a lock for longer. */
#ifndef NEARCPU_MALLOC_LOCK_H
#define NEARCPU_MALLOC_LOCK_H

#include <nearcpu/lock.h>

void near__heap_lock_slow(struct near_lock *lock);

static inline void near__heap_lock(struct near_lock *lock)
{
	if (__builtin_expect(near__lock_fast(lock), 1))
		NEAR__WATCHED_ACQUIRE(lock);
	else
		near__heap_lock_slow(lock);
}

#endif
