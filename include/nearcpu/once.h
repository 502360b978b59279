/* SPDX-License-Identifier: MIT */
/* near_once: runs a function exactly once, in the first thread that calls.
 *
 * Cost:      one load after it is done.
 * Memory:    4 bytes. Zero: not done yet.
 * Safety:    any thread; not in signal handlers. Nothing here allocates or is a cancellation point;
 *            errno is what the function leaves. The function may use other near_once; use of its
 *            own stops the program with one line. Not between processes. A signal handler that
 *            interrupts a wait must return: after siglongjmp(3) the waiter, which is on the stack,
 *            stays in its queue.
 * Order:     a return from near_once_call acquires what the function released by its return.
 * Fallback:  needs no rseq; the same code everywhere.
 * Failure:   if the function returns other than 0, the caller gets that value, and the next caller,
 *            or one that waits already, runs the function again. The same holds if the thread is
 *            cancelled in the function. The function must not throw a C++ exception: later callers
 *            would wait forever.
 * Fork:      if the process forks while another thread runs the function, it counts as not done in
 *            the child, and its partial effects are visible: the function must allow a restart.
 *
 * Concurrent with: everything with everything.
 *
 *     static struct near_once once;
 *     static int open_table(void *unused) { ... return 0; }
 *
 *     int r = near_once_call(&once, open_table, NULL);
 *
 * Source: pthread_once; differs in that the function can fail, takes an argument, and that waiting
 * for it has a limit.
 */
#ifndef NEARCPU_ONCE_H
#define NEARCPU_ONCE_H

#include <nearcpu/cancel.h>
#include <time.h>

NEAR__BEGIN_DECLS

/* Private: 0, NEAR__ONCE_DONE, or the thread that runs the function and whether others wait. */
struct near_once {
	uint32_t word;
};

/* clang-format off */
#define NEAR_ONCE_INIT { 0 }
/* clang-format on */
#define NEAR__ONCE_DONE 1u

/* Acquire: pairs with the release by the thread that ran the function. */
NEAR_INLINE bool near_once_is_done(const struct near_once *o)
{
	bool is_done = __atomic_load_n(&o->word, __ATOMIC_ACQUIRE) & NEAR__ONCE_DONE;

	if (is_done)
		NEAR__WATCHED_ACQUIRE(o);
	return is_done;
}

NEAR_API int near__once_call_slow(struct near_once *o, int (*function)(void *arg), void *arg);

/* Calls the function unless it is done; waits while another thread does it. 0: it is done. Else
 * what the function returned to this thread. */
NEAR_INLINE int near_once_call(struct near_once *o, int (*function)(void *arg), void *arg)
{
	/* Acquire: as above. Under valgrind the word has another bit as well. */
	if (__builtin_expect(__atomic_load_n(&o->word, __ATOMIC_ACQUIRE) == NEAR__ONCE_DONE, 1))
		return 0;
	return near__once_call_slow(o, function, arg);
}

/* The same, but does not wait longer for another thread than to the deadline (absolute; NULL: none)
 * by `clock`. Returns 0, and in *result what near_once_call returns. Or leaves *result alone:
 * -ETIMEDOUT; -ECANCELED: `cancel` (NULL: none) is set; -EINTR: `clock` has NEAR_INTERRUPTIBLE
 * (cancel.h), and a signal handler ran; -EINVAL: unknown clock, or an invalid deadline. */
NEAR_API int near_once_call_until(struct near_once *o, int (*function)(void *arg), void *arg,
				  int *result, int clock, const struct timespec *deadline,
				  struct near_cancel *cancel);

NEAR__END_DECLS

#endif
