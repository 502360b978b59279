/* SPDX-License-Identifier: MIT */
/* near_fifo: a bounded queue between threads with one order for all elements.
 *
 * What is put first is taken first, whichever threads and CPUs put and take. All of them share one
 * lock for that: where the order is not needed, near_queue is faster on some CPUs (docs/pools.md).
 *
 * Cost:      put and get 10 ns each without contention: a near_mutex, and a load for sleepers. From
 *            two threads on, what a contended near_mutex costs. A try_get of an empty fifo takes no
 *            lock: 1 ns. A batch takes the lock once. To wake a thread takes a system call.
 * Memory:    64 bytes, and 8 for each element of the capacity, allocated by init.
 * Safety:    any thread; not in signal handlers. Nothing but init allocates; errno is left alone;
 *            there are no cancellation points. Elements are never dereferenced; NULL is one. A
 *            signal handler that interrupts a wait must return: after siglongjmp(3) the waiter,
 *            which is on the stack, stays in its queue.
 * Order:     first in, first out; linearizable, and so are full, empty and closed. A get acquires
 *            what the put of its element released.
 * Fallback:  needs no rseq; the same code everywhere.
 * Fairness:  that of near_mutex. Sleepers are woken first in, first out; a thread that does not
 *            sleep may be quicker.
 * Misuse:    use before init or after destroy, destroy while a watch is armed, and more done than
 *            put, stop the program with one line on standard error.
 * Fork:      the child has its copy; no thread waits in it. If another thread was in a call at the
 *            fork, the child cannot use the fifo: the program stops, as for a near_mutex.
 *
 * Concurrent with:         put, get, done, join  close  destroy
 *     put, get, done, join         yes            yes     no
 *     close                        yes            yes     no
 *
 *     struct near_fifo lines;
 *     void *line;
 *
 *     near_fifo_init(&lines, 100);
 *     near_fifo_put(&lines, read_line());
 *     while (near_fifo_get(&lines, &line) == 0)      // elsewhere
 *             print(line);
 *
 * Source: the bounded buffer of monitors (Hoare, 1974). A ring with a ticket for each cell was not
 * chosen: a thread that is preempted between its ticket and its element stops all that follow, and
 * a get finds such a queue empty although a later put has returned.
 */
#ifndef NEARCPU_FIFO_H
#define NEARCPU_FIFO_H

#include <nearcpu/cond.h>
#include <nearcpu/watch.h>

NEAR__BEGIN_DECLS

#define NEAR_FIFO_MAX_CAPACITY ((size_t)1 << 30)

/* Private. */
struct near_fifo {
	struct near_mutex lock; /* guards all below */
	struct near_cond elements, room, all_done;
	uint32_t closed, watched;
	size_t capacity, first, count, unfinished;
	void **cells;
};

/* Returns 0; -EINVAL: the capacity is 0; -E2BIG: above NEAR_FIFO_MAX_CAPACITY; -ENOMEM. */
NEAR_API int near_fifo_init(struct near_fifo *f, size_t capacity);

/* Frees the cells, not what elements point to. Requires that no thread is in a call. */
NEAR_API void near_fifo_destroy(struct near_fifo *f);

/* Do not wait for room, or for an element (but perhaps for the lock): 0; -EAGAIN: the fifo is full,
 * or empty; -EPIPE: it is closed, for get: and empty. */
NEAR_API int near_fifo_try_put(struct near_fifo *f, void *element);
NEAR_API int near_fifo_try_get(struct near_fifo *f, void **element);

/* Wait for room, or for an element: 0. -EPIPE: the fifo is closed, for get: and empty. */
NEAR_API int near_fifo_put(struct near_fifo *f, void *element);
NEAR_API int near_fifo_get(struct near_fifo *f, void **element);

/* The same, but give up: errors as near_mutex_lock_until. What needs no wait is done in any
 * case. */
NEAR_API int near_fifo_put_until(struct near_fifo *f, void *element, int clock,
				 const struct timespec *deadline, struct near_cancel *cancel);
NEAR_API int near_fifo_get_until(struct near_fifo *f, void **element, int clock,
				 const struct timespec *deadline, struct near_cancel *cancel);

/* Put an element before all others: it is taken next. Errors as without `front`. */
NEAR_API int near_fifo_try_put_front(struct near_fifo *f, void *element);
NEAR_API int near_fifo_put_front(struct near_fifo *f, void *element);
NEAR_API int near_fifo_put_front_until(struct near_fifo *f, void *element, int clock,
				       const struct timespec *deadline, struct near_cancel *cancel);

/* near_fifo_try_get for a thread that polls descriptors (watch.h). Errors as near_fifo_try_get:
 * after -EAGAIN the watch is armed, and its descriptor becomes readable when there is an element,
 * or the fifo is closed. */
NEAR_API int near_fifo_get_or_arm(struct near_fifo *f, void **element, struct near_watch *watch);

/* Several at once. They return how many, if any; 0: n is 0; or an error. */

/* Puts what there is room for, in one step. Errors as near_fifo_try_put. */
NEAR_API long near_fifo_try_put_many(struct near_fifo *f, void *const *elements, size_t n);

/* Takes up to n that there are, in one step. Errors as near_fifo_try_get. */
NEAR_API long near_fifo_try_get_many(struct near_fifo *f, void **elements, size_t n);

/* Takes up to n, and waits until there is one. Errors as near_fifo_get_until. */
NEAR_API long near_fifo_get_many_until(struct near_fifo *f, void **elements, size_t n, int clock,
				       const struct timespec *deadline, struct near_cancel *cancel);

/* Elements that are tasks: says that n of those that were taken are done. */
NEAR_API void near_fifo_done(struct near_fifo *f, size_t n);

/* Waits until all elements that were put are done: at one moment none is in the fifo or with a
 * thread. */
NEAR_API void near_fifo_join(struct near_fifo *f);

/* The same: 0. Or gives up: errors as near_mutex_lock_until. */
NEAR_API int near_fifo_join_until(struct near_fifo *f, int clock, const struct timespec *deadline,
				  struct near_cancel *cancel);

/* No put succeeds from now on; gets take what is left, then return -EPIPE. Wakes all threads that
 * wait. Closing again does nothing. */
NEAR_API void near_fifo_close(struct near_fifo *f);

/* How many elements there are. */
NEAR_API size_t near_fifo_count(struct near_fifo *f);

NEAR__END_DECLS

#endif
