/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-locks that are written in C. */
#define _GNU_SOURCE
#include "rows.h"

#include <nearcpu/lock.h>
#include <nearcpu/mutex.h>
#include <nearcpu/recursive_mutex.h>
#include <nearcpu/sem.h>
#include <pthread.h>
#include <semaphore.h>

static void no_lock(char *lock)
{
	(void)lock;
}

ROW_OF_LOCK(row_unlocked, "unlocked", char, no_lock, no_lock, no_lock, true)

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
MISSING_ROW(row_adaptive, "adaptive", "this C library has no adaptive mutex")
#endif

static void init_recursive(pthread_mutex_t *m)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}
LOCK_ROW(row_recursive, "recursive", pthread_mutex_t, init_recursive, pthread_mutex_lock,
	 pthread_mutex_unlock)

static void init_near_recursive(struct near_recursive_mutex *m)
{
	*m = (struct near_recursive_mutex)NEAR_RECURSIVE_MUTEX_INIT;
}
LOCK_ROW(row_near_recursive, "near-recursive", struct near_recursive_mutex, init_near_recursive,
	 near_recursive_mutex_lock, near_recursive_mutex_unlock)

static void init_mutex(struct near_mutex *m)
{
	*m = (struct near_mutex)NEAR_MUTEX_INIT;
}
LOCK_ROW(row_mutex, "near-mutex", struct near_mutex, init_mutex, near_mutex_lock, near_mutex_unlock)

static void init_lock(struct near_lock *l)
{
	*l = (struct near_lock)NEAR_LOCK_INIT;
}
LOCK_ROW(row_lock, "near-lock", struct near_lock, init_lock, near_lock_lock, near_lock_unlock)

/* A semaphore of one unit. */
static void init_sem_t(sem_t *s)
{
	sem_init(s, 0, 1);
}
LOCK_ROW(row_sem_t, "sem_t", sem_t, init_sem_t, sem_wait, sem_post)

static void init_sem(struct near_sem *s)
{
	*s = (struct near_sem)NEAR_SEM_INIT(1);
}
LOCK_ROW(row_sem, "near-sem", struct near_sem, init_sem, near_sem_wait, near_sem_post)

#ifdef HAVE_NSYNC
#include "../nsync_functions.h"

static void init_nsync(nsync_mu *m)
{
	const char *why = nsync_load();

	if (why)
		window_give_up("missing", why);
	*m = (nsync_mu)NSYNC_MU_INIT;
}
LOCK_ROW(row_nsync, "nsync", nsync_mu, init_nsync, nsync.lock, nsync.unlock)
#else
MISSING_ROW(row_nsync, "nsync", "built without nsync (package libnsync-dev)")
#endif

#ifdef HAVE_CK_SPINLOCK
#include <ck_spinlock.h>

static void init_ck(ck_spinlock_fas_t *l)
{
	ck_spinlock_fas_init(l);
}
LOCK_ROW(row_ck, "ck", ck_spinlock_fas_t, init_ck, ck_spinlock_fas_lock, ck_spinlock_fas_unlock)
#else
MISSING_ROW(row_ck, "ck", "built without ck (package libck-dev)")
#endif
