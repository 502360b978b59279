/* SPDX-License-Identifier: MIT */
/* near_recursive_mutex, where the inline paths cannot decide whether the caller is the holder.
 *
 * Only the holder reads and writes `again`. It is 0 at the last unlock, so the next holder finds 0.
 * The library's own checks of the holder (near_mutex_is_mine) also know the thread by its ids from
 * before forks. */
#include <nearcpu/recursive_mutex.h>

#include "base/die.h"
#include "locks/lockdep.h"
#include "locks/mutex_at.h"

/* True: the caller holds the mutex, and now once more. */
static bool take_again(struct near_recursive_mutex *m)
{
	if (!near_mutex_is_mine(&m->mutex))
		return false;
	if (m->again == UINT32_MAX)
		near__die("near_recursive_mutex_lock: locked 4,294,967,296 times");
	m->again++;
	return true;
}

void near__recursive_lock_slow(struct near_recursive_mutex *m)
{
	if (!take_again(m))
		near__mutex_lock_at(&m->mutex, NEAR__SITE);
}

bool near__recursive_try_lock_slow(struct near_recursive_mutex *m)
{
	return take_again(m) || near__mutex_try_lock_at(&m->mutex, NEAR__SITE);
}

int near_recursive_mutex_lock_until(struct near_recursive_mutex *m, int clock,
				    const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__timeout timeout;
	int r = near__timeout_set(&timeout, clock, deadline, cancel);

	if (r)
		return r;
	return take_again(m) ? 0 : near__mutex_lock_timed_at(&m->mutex, &timeout, NEAR__SITE);
}

static void recursive_check_held(const struct near_recursive_mutex *m, const char *misuse)
{
	if (!near_mutex_is_mine(&m->mutex))
		near__die(misuse);
}

void near__recursive_unlock_slow(struct near_recursive_mutex *m)
{
	recursive_check_held(m, "near_recursive_mutex_unlock: this thread does not hold the mutex");
	if (m->again)
		m->again--;
	else
		near__mutex_release(&m->mutex);
}

uint32_t near_recursive_mutex_depth(const struct near_recursive_mutex *m)
{
	return near_mutex_is_mine(&m->mutex) ? m->again + 1 : 0;
}

struct near_mutex *near_recursive_mutex_inner(struct near_recursive_mutex *m)
{
	recursive_check_held(m, "near_recursive_mutex_inner: this thread does not hold the mutex");
	if (m->again)
		near__die("near_recursive_mutex_inner: this thread holds the mutex more than once");
	return &m->mutex;
}

void near_recursive_mutex_destroy(struct near_recursive_mutex *m)
{
	near_mutex_destroy(&m->mutex);
}
