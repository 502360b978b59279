/* SPDX-License-Identifier: MIT */
/* near_queue: a bounded queue between threads, with a ring for each slot.
 *
 * A put appends to the ring of the slot that the thread is on; a get takes from any ring, from that
 * of its own slot first. Threads can wait: for an element, and for room.
 *
 * Cost:      a put 2 ns, no atomic instruction; a get 5 to 10 ns, one. A get that finds nothing
 *            looks at all slots in use, twice, and once if the thread's last two gets found
 *            nothing in this queue, either. A getter that sleeps makes a membarrier, which
 *            interrupts all CPUs that run this process; when getters sleep often, each put executes
 *            a fence instead, until puts without sleepers outweigh the next membarrier. To wake a
 *            thread takes a system call.
 * Memory:    56 bytes, and for each slot in use 128 bytes and up to 8 for each element of the
 *            capacity, rounded up to a power of two: pages are taken as the ring reaches them.
 * Safety:    any thread; not in signal handlers. Nothing but init allocates; errno is left alone;
 *            there are no cancellation points. Elements are never dereferenced; NULL is one. A
 *            signal handler that interrupts a wait must return: after siglongjmp(3) the waiter,
 *            which is on the stack, stays in its queue.
 * Order:     first in, first out for each slot, and nothing more: a thread that moves to another
 *            CPU between two puts may see the second element taken before the first. near_fifo has
 *            one order for all. A get acquires what the put of its element released.
 * Full:      the capacity is that of each slot. A put needs room in the ring of the slot it is on:
 *            near_queue_try_put fails although others have room, near_queue_put waits until it can
 *            put on the slot that it is on by then.
 * Done:      if threads count the tasks that they have done (near_queue_done: 10 ns, a fence),
 *            others can wait for the end of all (near_queue_join).
 * Empty:     a get that returns nothing found all rings empty at one moment during the call.
 * Fairness:  one get in 32 of each thread begins with another slot than its own: no element waits
 *            for ever while threads get. Sleepers are woken first in, first out; a thread that does
 *            not sleep may be quicker.
 * Close:     after near_queue_close has returned, no put succeeds, and gets take what is left, then
 *            return -EPIPE.
 * Misuse:    use before init or after destroy, destroy while threads wait or a watch is armed, and
 *            more done than put, stop the program with one line on standard error.
 * Fork:      the child has its copy of all elements; no thread waits in it. What a get or a put in
 *            progress in another thread moves is there or not, never torn or twice. In the child of
 *            a vfork, calls take locks that its parent's calls take, too: such a child must not be
 *            killed during a call. What other threads were to do, no thread of the child does: it
 *            does not join.
 * Fallback:  as many rings as CPUs, indexed by the CPU; put takes a lock.
 *
 * Concurrent with:         put, get, done, join  close  destroy
 *     put, get, done, join         yes            yes     no
 *     close                        yes            yes     no
 *
 *     struct near_queue jobs;
 *     void *job;
 *
 *     near_queue_init(&jobs, 1024);
 *     near_queue_put(&jobs, new_job());              // any thread
 *     while (near_queue_get(&jobs, &job) == 0)       // workers, until it is closed and empty
 *             do_job(job);
 *     near_queue_close(&jobs);                       // elsewhere
 *
 * Source: bounded rings of one consumer's CAS (Linux's ptr_ring, DPDK's rte_ring) and the
 * concurrent bag of sub-queues of moodycamel; the sleepers' fence of liburcu and of tokio's
 * scheduler. Differs in that a ring belongs to a slot, not to a thread: so there are as many as
 * threads run at once, and to append takes no atomic instruction.
 */
#ifndef NEARCPU_QUEUE_H
#define NEARCPU_QUEUE_H

#include <nearcpu/cancel.h>
#include <nearcpu/percpu.h>
#include <nearcpu/watch.h>
#include <time.h>

NEAR__BEGIN_DECLS

#define NEAR_QUEUE_MAX_CAPACITY 16384

/* Private; src/queue/queue.h explains it. All but `state` and the last three are constant while
 * the queue is open. */
struct near_queue {
	uint32_t open; /* NEAR__OPEN, or no sequence appends */
	uint32_t state;
	void *p; /* the copy of a slot is its ring */
	uint64_t mask;
	uint64_t number; /* of the queues of the process */
	uint32_t capacity;
	uint32_t fence_puts;
	uint64_t slept_at;
	uint32_t joiners;
};

/* Returns 0; -EINVAL: the capacity is 0; -E2BIG: above NEAR_QUEUE_MAX_CAPACITY; -ENOMEM. */
NEAR_API int near_queue_init(struct near_queue *q, size_t capacity);

/* Frees the rings, not what elements point to. Requires that no thread is in a call. */
NEAR_API void near_queue_destroy(struct near_queue *q);

enum { NEAR__FULL = NEAR_SEQ_COMMITTED + 1 };

NEAR_API int near__queue_try_put_slow(struct near_queue *q, void *element);
NEAR_API void near__queue_notify(struct near_queue *q, size_t n);

/* Of a ring: tail at 0, limit at 8, the cells at 128.
 * if (tail < limit) cells[tail & mask] = element; tail + 1 commits.
 * The limit is a head that was loaded earlier, plus the capacity. No get reads a cell at or beyond
 * the tail, so storing there is harmless to repeat. Release: pairs with the acquire of the get. A
 * thread that closes the queue fences before it relies on `open`. */
NEAR__INLINE int near__queue_append(struct near_queue *q, void *element)
{
	uint64_t at, tail, cell;

	return NEAR_SEQ(
		NEAR_BRANCH_MEM4_NE(q, 0, 1, near_failed)
		NEAR_SLOT(at, p)
		NEAR_LOAD8(tail, at, 0)
		NEAR_LOAD8(cell, at, 8)
		NEAR_BRANCH_NOT_BELOW(tail, cell, NEAR__FULL)
		NEAR_MOVE(cell, tail)
		NEAR_AND(cell, mask)
		NEAR_SHIFT_LEFT(cell, 3)
		NEAR_ADD(cell, at)
		NEAR_STORE8(element, cell, 128)
		NEAR_ADD_CONST(tail, 1)
		NEAR_COMMIT8_RELEASE(tail, at),
		NEAR_OUT(at, tail, cell),
		NEAR_IN((p, q->p), (p_arena, (uintptr_t)q->p & ~NEAR__ARENA_MASK), q, element,
			(mask, q->mask)),
		NEAR__FULL);
}

/* Puts an element without waiting for room: 0. -EAGAIN: the ring of this slot is full. -EPIPE: the
 * queue is closed. */
NEAR_INLINE int near_queue_try_put(struct near_queue *q, void *element)
{
	NEAR__CHECK_READY(q->p, q);
	NEAR__TSAN_RELEASE(q);
	if (__builtin_expect(near__queue_append(q, element) != NEAR_SEQ_COMMITTED, 0))
		return near__queue_try_put_slow(q, element);
	/* After the commit. A getter that goes to sleep fences between its store to `state` and its
	 * load of the tail. */
	if (__builtin_expect(__atomic_load_n(&q->state, __ATOMIC_RELAXED), 0))
		near__queue_notify(q, 1);
	return 0;
}

/* Takes an element without waiting for one: 0. -EAGAIN: the queue is empty. -EPIPE: it is closed
 * and empty. */
NEAR_API int near_queue_try_get(struct near_queue *q, void **element);

/* Wait for room, or for an element: 0. -EPIPE: the queue is closed, for get: and empty. */
NEAR_API int near_queue_put(struct near_queue *q, void *element);
NEAR_API int near_queue_get(struct near_queue *q, void **element);

/* The same, but give up: -ETIMEDOUT when the deadline (absolute; NULL: none) has passed by `clock`
 * (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME); -ECANCELED: `cancel` (NULL: none) is set; -EINTR:
 * `clock` has NEAR_INTERRUPTIBLE (cancel.h), and a signal handler ran; -EINVAL: unknown clock, or
 * an invalid deadline. What needs no wait is done in any case. */
NEAR_API int near_queue_put_until(struct near_queue *q, void *element, int clock,
				  const struct timespec *deadline, struct near_cancel *cancel);
NEAR_API int near_queue_get_until(struct near_queue *q, void **element, int clock,
				  const struct timespec *deadline, struct near_cancel *cancel);

/* near_queue_try_get for a thread that polls descriptors (watch.h). Errors as near_queue_try_get:
 * after -EAGAIN the watch is armed, and its descriptor becomes readable when there is an element,
 * or the queue is closed. */
NEAR_API int near_queue_get_or_arm(struct near_queue *q, void **element, struct near_watch *watch);

/* Several at once. They return how many, if any; 0: n is 0; or an error. */

/* Appends them in their order, as many as there is room for; those of other threads may come
 * between. Does not wait. Errors as near_queue_try_put. */
NEAR_API long near_queue_try_put_many(struct near_queue *q, void *const *elements, size_t n);

/* Takes up to n from one slot. Does not wait. Errors as near_queue_try_get. */
NEAR_API long near_queue_try_get_many(struct near_queue *q, void **elements, size_t n);

/* Takes up to n from one slot, and waits until there is one. Errors as near_queue_get_until. */
NEAR_API long near_queue_get_many_until(struct near_queue *q, void **elements, size_t n, int clock,
					const struct timespec *deadline,
					struct near_cancel *cancel);

/* Elements that are tasks: says that n of those that were taken are done. While a thread joins, it
 * looks at the slots in use until one has an element. */
NEAR_API void near_queue_done(struct near_queue *q, size_t n);

/* Waits until all elements that were put are done: at one moment none is in the queue or with a
 * thread. Acquires what each near_queue_done released. */
NEAR_API void near_queue_join(struct near_queue *q);

/* The same: 0. Or gives up: errors as near_mutex_lock_until. */
NEAR_API int near_queue_join_until(struct near_queue *q, int clock, const struct timespec *deadline,
				   struct near_cancel *cancel);

/* Closes the queue, and wakes all threads that wait. Makes one membarrier. Closing again does
 * nothing. */
NEAR_API void near_queue_close(struct near_queue *q);

/* How many elements there are; while others put and get, a number that may never have been right.
 */
NEAR_API size_t near_queue_count(const struct near_queue *q);

NEAR__END_DECLS

#endif
