/* SPDX-License-Identifier: MIT */
/* libnearcpu-locks.so, which nearcpu locks preloads: where an unmodified program waits for its
 * locks. The C library's locks stay as they are; these are its functions that wait, and those that
 * release a lock.
 *
 * A function that waits tries first, by the function of the C library that does not wait. If that
 * succeeds the thread has paid for one branch, and nothing is recorded. Else the time, the call
 * stack and the holder are noted; then the C library's function waits, with the same arguments;
 * then the time is read again. The attempt does not change what the program sees: it fails with
 * EBUSY, or EAGAIN of a semaphore, and the function that waits decides all else (EDEADLK,
 * EINVAL); or it does what that function would have done, also with robust (EOWNERDEAD),
 * recursive and PI mutexes. That a condition variable is waited for is not known before: each
 * call is recorded, and the wait for the mutex afterwards is a part of it.
 *
 * The holder: the C library's mutex and rwlock contain the id of the thread that locked or
 * writes. The time since which it has the lock is known if that thread had waited itself. Else it
 * would have had to store the time when it found the lock free; so it is only known for how long
 * others have waited for it, which is the least, and is shown as such. A thread that releases a
 * lock for which others wait, as a word of the C library's lock shows, is recorded with its call
 * stack and how long they had waited for that thread: this shows what the lock was held for.
 *
 * Cancellation ends a wait for a condition variable or a semaphore: a cleanup handler records it. A
 * signal handler may wait, and may call sem_post, which is not ours. All of record.h may be called
 * in handlers. A child of fork records in a file of its own; what the program executes loads this
 * library again, and makes a file with the next number. A child of vfork, and of clone with
 * CLONE_VM, records in that of its parent.
 *
 * Versions: the symbols have none, so they serve callers of all versions of the C library's; dlsym
 * finds the default ones. The condition variables from before glibc 2.3.2, of programs from before
 * 2003, are others: such a program must not be observed. A search that fails allocates memory, by a
 * malloc that may lock: what locks of malloc need is searched for by names that are there.
 *
 * Not seen: locks that the C library takes within itself (stdio, malloc), C11's mtx_lock and
 * cnd_wait, which call it by internal names, spin locks, barriers, futexes of the program's own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "waits/record.h"

#define CALLER __builtin_return_address(0)
#define PUBLIC __attribute__((visibility("default")))

/* ---- the C library's functions ---- */

/* What a lock that is free needs: a call by a pointer. Another library's constructor may be before
 * ours, so that it is at first that of a function that searches. */
#define QUICK(prefix, name, type)                                                                  \
	static int name##_first(type *lock);                                                       \
	static int (*quick_##name)(type *) = name##_first;                                         \
	__attribute__((constructor)) static void name##_find(void)                                 \
	{                                                                                          \
		quick_##name = dlsym(RTLD_NEXT, prefix #name);                                     \
	}                                                                                          \
	static int name##_first(type *lock)                                                        \
	{                                                                                          \
		name##_find();                                                                     \
		return quick_##name(lock);                                                         \
	}
QUICK("pthread_", mutex_trylock, pthread_mutex_t)
QUICK("pthread_", mutex_unlock, pthread_mutex_t)
QUICK("pthread_", rwlock_tryrdlock, pthread_rwlock_t)
QUICK("pthread_", rwlock_trywrlock, pthread_rwlock_t)
QUICK("pthread_", rwlock_unlock, pthread_rwlock_t)
QUICK("", sem_trywait, sem_t)

/* One that waits. The arguments after the lock are words, of which a function takes as many as it
 * knows: with the conventions of all our CPUs more of them do no harm. */
typedef int waiting(void *lock, intptr_t, intptr_t, intptr_t);

struct call {
	enum near__wait_kind kind;
	waiting *real; /* NULL: the C library has none */
	void *lock;
	const void *caller;
	uint32_t holder;
	intptr_t more[3];
	bool is_valid; /* of what waits for a semaphore: IS_TIME, IS_CLOCK */
};

/* dlsym takes a lock, and must not be called where a program waits: it is called once, by the
 * constructor, or by another one's that waits before. */
#define REAL(name)                                                                                 \
	static waiting *real_##name;                                                               \
	__attribute__((constructor)) static waiting *name##_find(void)                             \
	{                                                                                          \
		return real_##name = real_##name ?: (waiting *)dlsym(RTLD_NEXT, #name);            \
	}

/* ---- waits ---- */

static void wait_cancelled(void *w)
{
	near__wait_end(w, NEAR__WAIT_FAILED);
}

static enum near__wait_end wait_result(enum near__wait_kind kind, int err)
{
	switch (kind == NEAR__WAIT_SEM && err ? errno : err) {
	case 0:
	case EOWNERDEAD:
		return kind == NEAR__WAIT_MUTEX || kind == NEAR__WAIT_WRITE ? NEAR__WAIT_HOLDS
									    : NEAR__WAIT_HAS;
	case ETIMEDOUT:
	case EINTR:
	case ENOTRECOVERABLE:
		return NEAR__WAIT_FAILED;
	default:
		return NEAR__WAIT_ERROR;
	}
}

static __attribute__((noinline)) int call_wait(const struct call *c)
{
	struct near__wait w = {
		.kind = c->kind, .lock = c->lock, .caller = c->caller, .holder = c->holder};
	int err;

	near__wait_begin(&w);
	pthread_cleanup_push(wait_cancelled, &w);
	err = c->real ? c->real(c->lock, c->more[0], c->more[1], c->more[2]) : ENOSYS;
	pthread_cleanup_pop(0);
	near__wait_end(&w, wait_result(w.kind, err));
	return err;
}

/* ---- mutexes and rwlocks ---- */

/* A word that the C library's lock has; 0: it is not glibc. */
#ifdef __GLIBC__
#define OF(lock, field) ((uint32_t)__atomic_load_n(&(lock)->__data.field, __ATOMIC_RELAXED))
#else
#define OF(lock, field) ((void)(lock), UINT32_C(0))
#endif

/* 2: a thread sleeps, or will; of PI and robust mutexes FUTEX_WAITERS. */
static bool mutex_is_wanted(const pthread_mutex_t *m)
{
	uint32_t word = OF(m, __lock);

	return word == 2 || word >> 31;
}

/* PTHREAD_RWLOCK_FUTEX_USED of the writers' words, PTHREAD_RWLOCK_RWAITING of the readers'. */
static bool rwlock_is_wanted(const pthread_rwlock_t *l)
{
	return ((OF(l, __wrphase_futex) | OF(l, __writers_futex)) & 2) | (OF(l, __readers) & 1);
}

/* What the C library refuses also where the lock is free: the function that waits decides. */
#define IS_TIME ((unsigned long)until->tv_nsec < 1000000000)
#define IS_CLOCK (clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC)

#define LOCKS(kind, name, try, owner, is_valid, params, ...)                                       \
	REAL(name)                                                                                 \
	PUBLIC int name params                                                                     \
	{                                                                                          \
		int err = is_valid ? quick_##try(l) : EBUSY;                                       \
                                                                                                   \
		return err != EBUSY ? err                                                          \
				    : call_wait(&(struct call){kind,                               \
							       real_##name ?: name##_find(),       \
							       l,                                  \
							       CALLER,                             \
							       OF(l, owner),                       \
							       {__VA_ARGS__},                      \
							       true});                             \
	}
#define WORD(pointer) (intptr_t)(pointer)
#define UNTIL const struct timespec *until
#define CLOCK clockid_t clock
#define MUTEXES(suffix, is_valid, params, ...)                                                     \
	LOCKS(NEAR__WAIT_MUTEX, pthread_mutex_##suffix, mutex_trylock, __owner, is_valid, params,  \
	      __VA_ARGS__)
#define READS(suffix, is_valid, params, ...)                                                       \
	LOCKS(NEAR__WAIT_READ, pthread_rwlock_##suffix, rwlock_tryrdlock, __cur_writer, is_valid,  \
	      params, __VA_ARGS__)
#define WRITES(suffix, is_valid, params, ...)                                                      \
	LOCKS(NEAR__WAIT_WRITE, pthread_rwlock_##suffix, rwlock_trywrlock, __cur_writer, is_valid, \
	      params, __VA_ARGS__)

MUTEXES(lock, true, (pthread_mutex_t * l), 0)
MUTEXES(timedlock, true, (pthread_mutex_t * l, UNTIL), WORD(until))
MUTEXES(clocklock, IS_CLOCK, (pthread_mutex_t * l, CLOCK, UNTIL), clock, WORD(until))
READS(rdlock, true, (pthread_rwlock_t * l), 0)
READS(timedrdlock, IS_TIME, (pthread_rwlock_t * l, UNTIL), WORD(until))
READS(clockrdlock, IS_TIME &&IS_CLOCK, (pthread_rwlock_t * l, CLOCK, UNTIL), clock, WORD(until))
WRITES(wrlock, true, (pthread_rwlock_t * l), 0)
WRITES(timedwrlock, IS_TIME, (pthread_rwlock_t * l, UNTIL), WORD(until))
WRITES(clockwrlock, IS_TIME &&IS_CLOCK, (pthread_rwlock_t * l, CLOCK, UNTIL), clock, WORD(until))

static __attribute__((noinline)) int mutex_release(pthread_mutex_t *m, const void *caller)
{
	struct near__wait w = {.begin = 0};
	int err;

	if (OF(m, __count) > 1) /* recursive */
		return quick_mutex_unlock(m);
	near__release_begin(&w, m, caller);
	err = quick_mutex_unlock(m);
	near__release_end(&w);
	return err;
}

PUBLIC int pthread_mutex_unlock(pthread_mutex_t *m)
{
	if (near__waits_self.held || mutex_is_wanted(m))
		return mutex_release(m, CALLER);
	return quick_mutex_unlock(m);
}

PUBLIC int pthread_rwlock_unlock(pthread_rwlock_t *l)
{
	struct near__wait w = {.begin = 0};
	int err;

	if (!near__waits_self.held && !rwlock_is_wanted(l))
		return quick_rwlock_unlock(l);
	near__release_begin(&w, l, CALLER);
	err = quick_rwlock_unlock(l);
	near__release_end(&w);
	return err;
}

/* ---- condition variables and semaphores ---- */

/* It releases the mutex, which others may wait for. */
static int cond_wait(const struct call *c)
{
	pthread_mutex_t *m = (pthread_mutex_t *)c->more[0];
	struct near__wait w = {.begin = 0};

	if (near__waits_self.held || mutex_is_wanted(m)) {
		near__release_begin(&w, m, c->caller);
		near__release_end(&w);
	}
	return call_wait(c);
}

/* sem_trywait is no cancellation point; sem_wait is one also where it does not wait. */
static int semaphore_wait(const struct call *c)
{
	int saved = errno;

	pthread_testcancel();
	if (c->is_valid && !quick_sem_trywait(c->lock))
		return 0;
	errno = saved;
	return call_wait(c);
}

#define WAITS(kind, function, name, is_valid, params, ...)                                         \
	REAL(name)                                                                                 \
	PUBLIC int name params                                                                     \
	{                                                                                          \
		return function(&(struct call){kind,                                               \
					       real_##name ?: name##_find(),                       \
					       l,                                                  \
					       CALLER,                                             \
					       0,                                                  \
					       {__VA_ARGS__},                                      \
					       is_valid});                                         \
	}
#define CONDS(suffix, params, ...)                                                                 \
	WAITS(NEAR__WAIT_COND, cond_wait, pthread_cond_##suffix, true, params, __VA_ARGS__)
#define SEMS(name, is_valid, params, ...)                                                          \
	WAITS(NEAR__WAIT_SEM, semaphore_wait, name, is_valid, params, __VA_ARGS__)
#define COND_MUTEX pthread_cond_t *l, pthread_mutex_t *m

CONDS(wait, (COND_MUTEX), WORD(m))
CONDS(timedwait, (COND_MUTEX, UNTIL), WORD(m), WORD(until))
CONDS(clockwait, (COND_MUTEX, CLOCK, UNTIL), WORD(m), clock, WORD(until))
SEMS(sem_wait, true, (sem_t * l), 0)
SEMS(sem_timedwait, IS_TIME, (sem_t * l, UNTIL), WORD(until))
SEMS(sem_clockwait, IS_TIME &&IS_CLOCK, (sem_t * l, CLOCK, UNTIL), clock, WORD(until))
