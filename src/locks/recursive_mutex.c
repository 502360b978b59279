/* SPDX-License-Identifier: MIT */
/* near_recursive_mutex, where the inline paths cannot tell whether the caller is the holder.
 *
 * `again` is read and written by the holder alone, after its lock and before its last unlock, when
 * it is 0: so whoever takes the mutex next finds 0. The library's own checks of the holder
 * (near_mutex_is_mine) know the thread also by the number that it had before a fork. */
#include <nearcpu/recursive_mutex.h>

#include "ground/die.h"
#include "mutex_at.h"
#include "order.h"

/* True: the caller holds it, now once more. */
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
	struct near__limit l;
	int r = near__limit_set(&l, clock, deadline, cancel);

	if (r)
		return r;
	return take_again(m) ? 0 : near__mutex_lock_limited_at(&m->mutex, &l, NEAR__SITE);
}

static void check_mine(const struct near_recursive_mutex *m, const char *misuse)
{
	if (!near_mutex_is_mine(&m->mutex))
		near__die(misuse);
}

void near__recursive_unlock_slow(struct near_recursive_mutex *m)
{
	check_mine(m, "near_recursive_mutex_unlock: this thread does not hold the mutex");
	if (m->again)
		m->again--;
	else
		near__mutex_let_go(&m->mutex);
}

uint32_t near_recursive_mutex_depth(const struct near_recursive_mutex *m)
{
	return near_mutex_is_mine(&m->mutex) ? m->again + 1 : 0;
}

struct near_mutex *near_recursive_mutex_once(struct near_recursive_mutex *m)
{
	check_mine(m, "near_recursive_mutex_once: this thread does not hold the mutex");
	if (m->again)
		near__die("near_recursive_mutex_once: this thread holds the mutex more than once");
	return &m->mutex;
}

void near_recursive_mutex_destroy(struct near_recursive_mutex *m)
{
	near_mutex_destroy(&m->mutex);
}
