/* SPDX-License-Identifier: MIT */
/* The rows written in C. */
#define _GNU_SOURCE
#include "rows.h"

#include <nearcpu/lock.h>
#include <nearcpu/mutex.h>
#include <pthread.h>

static void no_lock(char *lock)
{
	(void)lock;
}

LOCK_ROW(row_unlocked, "unlocked", char, no_lock, no_lock, no_lock)

static void init_normal(pthread_mutex_t *m)
{
	pthread_mutex_init(m, NULL);
}
LOCK_ROW(row_pthread, "pthread", pthread_mutex_t, init_normal, pthread_mutex_lock,
	 pthread_mutex_unlock)

#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
static void init_adaptive(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_ADAPTIVE_NP);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}
LOCK_ROW(row_adaptive, "adaptive", pthread_mutex_t, init_adaptive, pthread_mutex_lock,
	 pthread_mutex_unlock)
#else
const struct window_row row_adaptive = {"adaptive", "this C library has none", 0, 0, 0};
#endif

static void init_mutex(struct near_mutex *m)
{
	*m = (struct near_mutex)NEAR_MUTEX_INIT;
}
LOCK_ROW(row_mutex, "near_mutex", struct near_mutex, init_mutex, near_mutex_lock, near_mutex_unlock)

static void init_lock(struct near_lock *l)
{
	*l = (struct near_lock)NEAR_LOCK_INIT;
}
LOCK_ROW(row_lock, "near_lock", struct near_lock, init_lock, near_lock_lock, near_lock_unlock)

#ifdef HAVE_NSYNC
#include <nsync.h>

static void init_nsync(nsync_mu *m)
{
	nsync_mu_init(m);
}
LOCK_ROW(row_nsync, "nsync", nsync_mu, init_nsync, nsync_mu_lock, nsync_mu_unlock)
#else
const struct window_row row_nsync = {"nsync", "libnsync-dev was not there", 0, 0, 0};
#endif

#ifdef HAVE_CK_SPINLOCK
#include <ck_spinlock.h>

static void init_ck(ck_spinlock_fas_t *l)
{
	ck_spinlock_fas_init(l);
}
LOCK_ROW(row_ck, "ck_fas", ck_spinlock_fas_t, init_ck, ck_spinlock_fas_lock, ck_spinlock_fas_unlock)
#else
const struct window_row row_ck = {"ck_fas", "libck-dev was not there", 0, 0, 0};
#endif
