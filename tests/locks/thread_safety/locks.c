/* SPDX-License-Identifier: MIT */
/* For clang -Wthread-safety: right as it is, wrong with -DWRONG=1 and so on; as C and as C++. */
#include <nearcpu/cond.h>
#include <nearcpu/lock.h>
#include <nearcpu/mutex.h>
#include <nearcpu/recursive_mutex.h>
#include <nearcpu/rwlock.h>

#ifndef WRONG
#define WRONG 0
#endif
#define GUARDED_BY(lock) __attribute__((guarded_by(lock)))

struct near_mutex m;
struct near_lock l;
struct near_rwlock rw;
struct near_recursive_mutex r;
struct near_cond c;
int by_m GUARDED_BY(m), by_l GUARDED_BY(l), by_rw GUARDED_BY(rw), by_r GUARDED_BY(r);

static void right(void)
{
	near_mutex_lock(&m);
	while (!by_m)
		near_cond_wait(&c, &m);
	near_mutex_unlock(&m);
	if (near_mutex_try_lock(&m)) {
		by_m++;
		near_mutex_unlock_fair(&m);
	}
	if (near_mutex_lock_until(&m, 0, 0, 0) == 0) {
		by_m++;
		near_mutex_unlock(&m);
	}
	near_lock_lock(&l);
	by_l++;
	near_lock_unlock(&l);
	near_rwlock_read_lock(&rw);
	near_mutex_lock(&m);
	by_m = by_rw;
	near_mutex_unlock(&m);
	near_rwlock_read_unlock(&rw);
	near_rwlock_write_lock(&rw);
	by_rw++;
	near_rwlock_downgrade(&rw);
	near_rwlock_read_unlock(&rw);
	if (near_rwlock_read_lock_until(&rw, 0, 0, 0) == 0)
		near_rwlock_read_unlock(&rw);
	near_recursive_mutex_lock(&r);
	by_r++;
	near_recursive_mutex_unlock(&r);
}

static void wrong(void)
{
#if WRONG == 1
	by_m++;
#elif WRONG == 2
	near_mutex_lock(&m);
#elif WRONG == 3
	near_mutex_unlock(&m);
#elif WRONG == 4
	near_mutex_try_lock(&m);
	by_m++;
	near_mutex_unlock(&m);
#elif WRONG == 5
	if (near_mutex_lock_until(&m, 0, 0, 0))
		by_m++;
#elif WRONG == 6
	near_cond_wait(&c, &m);
#endif
}

static void wrong_others(void)
{
#if WRONG == 7
	near_lock_lock(&l);
	by_m++;
	near_lock_unlock(&l);
#elif WRONG == 8
	near_rwlock_read_lock(&rw);
	by_rw++;
	near_rwlock_read_unlock(&rw);
#elif WRONG == 9
	near_rwlock_write_lock(&rw);
	near_rwlock_downgrade(&rw);
	by_rw++;
	near_rwlock_read_unlock(&rw);
#elif WRONG == 10
	near_rwlock_write_lock(&rw);
	near_rwlock_read_unlock(&rw);
	near_rwlock_read_unlock(&rw);
#elif WRONG == 11
	near_recursive_mutex_lock(&r);
#elif WRONG == 12
	near_mutex_lock(&m);
	near_mutex_lock(&m);
	near_mutex_unlock(&m);
#elif WRONG == 13
	near_mutex_await(&m, 0, 0);
#endif
}

int main(void)
{
	right();
	wrong();
	wrong_others();
	return 0;
}
