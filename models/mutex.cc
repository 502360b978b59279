/* SPDX-License-Identifier: MIT */
/* near_mutex (src/locks/mutex.h) with C11's orderings: lock by CAS, unlock by a sequence, waiters
 * that set PARKED and fence, unlocks that choose one of them. mutex.pml has the rest: deadlines,
 * conditions, the condition variable, the age of waiters and reservations, suspended threads.
 *
 * Three threads add to a plain number, each with the mutex held. Checked: no race for it, the word
 * is free at the end. A waiter that is never woken is a livelock.
 *
 * The broken variants:
 *   SEQUENCE_RELAXED      the sequence's store does not release
 *   UNLOCK_RELAXED        nor does the CAS, where the thread is not live (PORTABLE)
 *   QUEUE_RELAXED         nor does the unlock with the queue locked
 *   WAKE_RELAXED          nor does the waker's last access: the mutex does not rely on it
 *   LOCK_RELAXED          lock by CAS does not acquire
 *   TAKE_RELAXED          nor does a waiter that finds the mutex free
 *   NO_FENCE              a waiter sets PARKED, and enters the queue without a fence
 *   LOAD_FIRST            it loads the word again before it fences
 *   FENCE_ABORTS_NOBODY   the fence only orders memory
 *   FENCE_ORDERS_NOTHING  the fence only aborts
 */
#include "rseq.h"

enum { THREADS = 3, PARKED = 1, WAKING = 2, FLAGS = 3, OWNER = 4 };

struct mutex_model : rl::test_suite<mutex_model, THREADS> {
	rl::atomic<int> word;
	rl::mutex bucket;
	rl::var<int> number, queued[THREADS];
	rl::atomic<int> woken[THREADS];

	void before()
	{
		kernel_start(THREADS);
		word($).store(0, relaxed);
		number($) = 0;
		for (int i = 0; i < THREADS; i++) {
			queued[i]($) = 0;
			woken[i]($).store(0, relaxed);
		}
	}

	static int me()
	{
		return (int)(rl::thread_index() + 1) * OWNER;
	}

	bool take_if_free(bool designated)
	{
		int seen = word($).load(relaxed);

		while (seen < OWNER)
			if (word($).compare_exchange_weak(
				    seen, me() | (designated ? seen & ~WAKING : seen),
				    on("TAKE_RELAXED") ? relaxed : acquire, relaxed))
				return true;
		return false;
	}

	/* announce, near__mutex_fence_owner */
	bool announce(bool designated)
	{
		int seen = word($).load(relaxed), outcome;

		do
			if (seen < OWNER)
				return false;
		while (!word($).compare_exchange_weak(
			seen, (designated ? seen & ~WAKING : seen) | PARKED, relaxed, relaxed));
		if (seen & FLAGS || on("NO_FENCE"))
			return true;
		if (!on("LOAD_FIRST"))
			fence();
		outcome = word($).load(relaxed) & PARKED;
		if (on("LOAD_FIRST"))
			fence();
		return outcome;
	}

	bool enter(bool designated)
	{
		unsigned self = rl::thread_index();
		bool announced;

		bucket.lock($);
		announced = announce(designated);
		if (announced) {
			queued[self]($) = 1;
			woken[self]($).store(0, relaxed);
		}
		bucket.unlock($);
		return announced;
	}

	void sleep()
	{
		while (!woken[rl::thread_index()]($).load(acquire))
			rl::yield(1, $);
	}

	void lock()
	{
		bool designated = false;
		int none = 0;

		if (word($).compare_exchange_strong(
			    none, me(), on("LOCK_RELAXED") ? relaxed : acquire, relaxed))
			return;
		while (!take_if_free(designated)) {
			if (!enter(designated))
				continue;
			sleep();
			designated = true;
		}
	}

	/* near__mutex_unlock_by_seq */
	bool try_unlock()
	{
		unsigned began = fences_here();
		int seen;

		if (on("PORTABLE"))
			return false;
		STEP(seen = word($).load(relaxed));
		if (seen != me())
			goto failed;
		STEP(word($).store(0, on("SEQUENCE_RELAXED") ? relaxed : release));
		return true;
failed:
		return false;
	}

	void unlock_by_queue()
	{
		int taken = -1, others = 0, seen, next;

		bucket.lock($);
		for (int i = 0; i < THREADS; i++) {
			if (queued[i]($) && taken >= 0)
				others = PARKED;
			else if (queued[i]($))
				taken = i;
		}
		next = taken < 0 ? 0 : others | WAKING;
		seen = word($).load(relaxed);
		while (!word($).compare_exchange_weak(
			seen, next, on("QUEUE_RELAXED") ? relaxed : release, relaxed))
			;
		if (taken >= 0)
			queued[taken]($) = 0;
		bucket.unlock($);
		if (taken >= 0)
			woken[taken]($).store(1, on("WAKE_RELAXED") ? relaxed : release);
	}

	void unlock()
	{
		int seen = me();

		if (try_unlock() ||
		    word($).compare_exchange_strong(
			    seen, 0, on("UNLOCK_RELAXED") ? relaxed : release, relaxed))
			return;
		do {
			if (seen & PARKED && !(seen & WAKING)) {
				unlock_by_queue();
				return;
			}
		} while (!word($).compare_exchange_weak(seen, seen & FLAGS, release, relaxed));
	}

	void thread(unsigned)
	{
		thread_start();
		lock();
		number($) = number($) + 1;
		unlock();
	}

	void after()
	{
		RL_ASSERT(number($) == THREADS);
		RL_ASSERT(word($).load(relaxed) < OWNER);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<mutex_model>();
	return 0;
}
