/* SPDX-License-Identifier: MIT */
/* near_recursive_mutex: a near_mutex that its holder can take again.
 *
 * Cost:      that of near_mutex; taken again by its holder a load and a plain increment, no atomic
 *            instruction.
 * Memory:    8 bytes. Zero is a free mutex, and nothing needs to be destroyed.
 * Safety:    any thread; not in signal handlers. Nothing here allocates or is a cancellation point;
 *            errno is left alone. Not between processes. A signal handler that interrupts a wait
 *            must return: after siglongjmp(3) the waiter, which is on the stack, stays in its
 *            queue.
 * Order:     lock acquires what the unlock that freed the mutex released.
 * Fairness:  that of near_mutex; so are freeing, and the behaviour of threads that are suspended.
 * Fork:      a thread that holds it over a fork, however often, unlocks it in the child as often.
 * Misuse:    unlock by a thread that does not hold it, and use after destroy, stop the program with
 *            one line on standard error; so does taking it 4,294,967,296 times.
 * Limits:    waits for conditions take a near_mutex: near_recursive_mutex_inner gives it, while
 *            this one is held exactly once.
 * Fallback:  that of near_mutex.
 *
 * Concurrent with: everything, except for destroy and unlock, as near_mutex.
 *
 *     static struct near_recursive_mutex m;
 *
 *     near_recursive_mutex_lock(&m);
 *     near_recursive_mutex_lock(&m);
 *     near_recursive_mutex_unlock(&m);
 *     near_recursive_mutex_unlock(&m);           // free from here on
 *
 * Source: pthread's recursive type; differs in size, and in deadlines and tokens.
 */
#ifndef NEARCPU_RECURSIVE_MUTEX_H
#define NEARCPU_RECURSIVE_MUTEX_H

#include <nearcpu/mutex.h>

NEAR__BEGIN_DECLS

/* Private. */
struct NEAR__CAPABILITY("mutex") NEAR__REENTRANT near_recursive_mutex {
	struct near_mutex mutex;
	uint32_t again; /* how often the holder took it after the first time; guarded by `mutex` */
};

/* clang-format off */
#define NEAR_RECURSIVE_MUTEX_INIT { NEAR_MUTEX_INIT, 0 }
/* clang-format on */

/* Whether the word names this thread by the number that it has now. Relaxed: only this thread
 * stores that number, or a thread that hands it the mutex, before this thread continues. False also
 * of a thread without a number (a new one, or NEAR_CONF=lock_check:1), and of one that has locked
 * before a fork. */
NEAR__INLINE bool near__recursive_is_held(const struct near_recursive_mutex *m)
{
	uint32_t word = __atomic_load_n(&m->mutex.word, __ATOMIC_RELAXED) & NEAR__MUTEX_OWNER;

	return word && word == NEAR__LOW_HALF(near__more.owner);
}

/* What the inline paths leave: a thread without a number; or else one that has to wait, or to
 * stop. */
NEAR_API void near__recursive_lock_slow(struct near_recursive_mutex *m);
NEAR_API bool near__recursive_try_lock_slow(struct near_recursive_mutex *m);
NEAR_API void near__recursive_unlock_slow(struct near_recursive_mutex *m);

/* Takes the mutex, also if this thread holds it; sleeps if need be. */
NEAR_INLINE void near_recursive_mutex_lock(struct near_recursive_mutex *m)
	NEAR__ACQUIRES(m) NEAR__UNCHECKED
{
	if (near__recursive_is_held(m) && m->again != UINT32_MAX)
		m->again++;
	else if (__builtin_expect(near__mutex_fast(&m->mutex) != 0, 0))
		near__recursive_lock_slow(m);
}

/* Takes the mutex if it is free or this thread's, and returns whether it did. Never waits. */
NEAR_INLINE bool near_recursive_mutex_try_lock(struct near_recursive_mutex *m)
	NEAR__ACQUIRES_IF(true, m) NEAR__UNCHECKED
{
	if (near__recursive_is_held(m) && m->again != UINT32_MAX) {
		m->again++;
		return true;
	}
	return !near__mutex_fast(&m->mutex) || near__recursive_try_lock_slow(m);
}

/* Takes the mutex: 0. Or gives up: errors as near_mutex_lock_until. */
NEAR_API int near_recursive_mutex_lock_until(struct near_recursive_mutex *m, int clock,
					     const struct timespec *deadline,
					     struct near_cancel *cancel) NEAR__ACQUIRES_IF(0, m);

/* Ends one lock of this thread; the mutex is free after as many as there were locks. */
NEAR_INLINE void near_recursive_mutex_unlock(struct near_recursive_mutex *m)
	NEAR__RELEASES(m) NEAR__UNCHECKED
{
	if (__builtin_expect(!near__recursive_is_held(m), 0))
		near__recursive_unlock_slow(m);
	else if (m->again)
		m->again--;
	else
		near_mutex_unlock(&m->mutex);
}

/* How often this thread holds the mutex. */
NEAR_API uint32_t near_recursive_mutex_depth(const struct near_recursive_mutex *m);

/* The mutex inside, for near_cond_wait and near_mutex_await, which release it as a whole. Stops the
 * program unless this thread holds m exactly once. */
NEAR_API struct near_mutex *near_recursive_mutex_inner(struct near_recursive_mutex *m);

/* Makes later uses stop the program. Requires that the mutex is free and no thread waits. */
NEAR_API void near_recursive_mutex_destroy(struct near_recursive_mutex *m) NEAR__EXCLUDES(m);

NEAR__END_DECLS

#endif
