/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-locks that are written in C. */
#include "locks/rows.h"

#include <nearcpu/lock.h>
#include <nearcpu/mutex.h>
#include <nearcpu/recursive_mutex.h>
#include <nearcpu/sem.h>
#include <pthread.h>
#include <semaphore.h>

static void no_lock(char *lock) { (void)lock; }

ROW_OF_LOCK(row_unlocked, "unlocked", char, (void)0, no_lock, no_lock, true)

LOCK_ROW(row_pthread, "pthread", pthread_mutex_t, pthread_mutex_init(lock, NULL),
	 pthread_mutex_lock, pthread_mutex_unlock)

static void init_kind(pthread_mutex_t *m, int kind)
{
	pthread_mutexattr_t a;

	pthread_mutexattr_init(&a);
	pthread_mutexattr_settype(&a, kind);
	pthread_mutex_init(m, &a);
	pthread_mutexattr_destroy(&a);
}

#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
LOCK_ROW(row_adaptive, "adaptive", pthread_mutex_t, init_kind(lock, PTHREAD_MUTEX_ADAPTIVE_NP),
	 pthread_mutex_lock, pthread_mutex_unlock)
#else
MISSING_ROW(row_adaptive, "adaptive", "this C library has no adaptive mutex")
#endif

LOCK_ROW(row_recursive, "recursive", pthread_mutex_t, init_kind(lock, PTHREAD_MUTEX_RECURSIVE),
	 pthread_mutex_lock, pthread_mutex_unlock)

LOCK_ROW(row_near_recursive, "near-recursive", struct near_recursive_mutex,
	 (*lock = (struct near_recursive_mutex)NEAR_RECURSIVE_MUTEX_INIT),
	 near_recursive_mutex_lock, near_recursive_mutex_unlock)

LOCK_ROW(row_mutex, "near-mutex", struct near_mutex, (*lock = (struct near_mutex)NEAR_MUTEX_INIT),
	 near_mutex_lock, near_mutex_unlock)

LOCK_ROW(row_lock, "near-lock", struct near_lock, (*lock = (struct near_lock)NEAR_LOCK_INIT),
	 near_lock_lock, near_lock_unlock)

/* Semaphores of one unit. */
LOCK_ROW(row_sem_t, "sem_t", sem_t, sem_init(lock, 0, 1), sem_wait, sem_post)

LOCK_ROW(row_sem, "near-sem", struct near_sem, (*lock = (struct near_sem)NEAR_SEM_INIT(1)),
	 near_sem_wait, near_sem_post)

#ifdef HAVE_NSYNC
#include "nsync_functions.h"

static void init_nsync(nsync_mu *m)
{
	const char *why = nsync_load();

	if (why)
		window_give_up("missing", why);
	*m = (nsync_mu)NSYNC_MU_INIT;
}
LOCK_ROW(row_nsync, "nsync", nsync_mu, init_nsync(lock), nsync.lock, nsync.unlock)
#else
MISSING_ROW(row_nsync, "nsync", "built without nsync (package libnsync-dev)")
#endif

#ifdef HAVE_CK_SPINLOCK
#include <ck_spinlock.h>

LOCK_ROW(row_ck, "ck", ck_spinlock_fas_t, ck_spinlock_fas_init(lock), ck_spinlock_fas_lock,
	 ck_spinlock_fas_unlock)
#else
MISSING_ROW(row_ck, "ck", "built without ck (package libck-dev)")
#endif

#define ROWS(...) const struct window_row *const window_rows[] = {__VA_ARGS__, 0}
ROWS(&row_pthread, &row_adaptive, &row_mutex, &row_lock, &row_nsync, &row_absl, &row_ck,
     &row_parking_lot, &row_rust_std, &row_unlocked, &row_recursive, &row_near_recursive,
     &row_sem_t, &row_sem, &row_pthread_barrier, &row_near_barrier, &row_pthread_cond,
     &row_near_cond, &row_pthread_signal, &row_near_signal);
