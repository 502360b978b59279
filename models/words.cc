/* SPDX-License-Identifier: MIT */
/* near_sem (src/locks/sem.c; with -DSEM) and near_once (src/locks/once.c; without) with C11's
 * orderings: their words, and the queue in the parking lot, reduced to the set of its waiters.
 *
 * The semaphore has one unit, and each thread adds to a plain number between wait and post. Of
 * three threads that call once, the function of the first fails with -DFAILS. Checked: no race for
 * the number, all units are returned, the function is not called concurrently or after it
 * succeeded, and all see what it wrote. A sleeper that is never woken is a livelock.
 *
 * The broken variants:
 *   RELEASE_RELAXED  the change that adds a unit, or sets the state to done, does not release
 *   ACQUIRE_RELAXED  nor does the load of that acquire
 *   TAKE_RELAXED     nor does the change by which a thread that would sleep takes a unit
 *   WAKE_RELAXED     the waker's last access does not release: no sleeper relies on it, as all load
 *                    the word again
 *   ENTER_UNASKED    a waiter enters the queue without another check of the word
 *   GIVE_EARLY       a post checks the queue, and adds its unit after it released the lock
 *   TAKE_FIRST       a thread that is done takes the others out of the queue before it changes the
 *                    word
 */
#include "rseq.h"

enum { THREADS = 3 };

struct lot {
	rl::mutex lock;
	rl::var<int> queued[THREADS];
	rl::atomic<int> woken[THREADS];

	void before()
	{
		for (int i = 0; i < THREADS; i++) {
			queued[i]($) = 0;
			woken[i]($).store(0, relaxed);
		}
	}

	void enter()
	{
		queued[rl::thread_index()]($) = 1;
		woken[rl::thread_index()]($).store(0, relaxed);
	}

	void sleep()
	{
		while (!woken[rl::thread_index()]($).load(acquire))
			rl::yield(1, $);
	}

	void wake(int i)
	{
		woken[i]($).store(1, on("WAKE_RELAXED") ? relaxed : release);
	}

	/* Under the lock. */
	bool is_empty()
	{
		for (int i = 0; i < THREADS; i++)
			if (queued[i]($))
				return false;
		return true;
	}

	/* Under the lock: -1 if there is nobody. */
	int take()
	{
		for (int i = 0; i < THREADS; i++) {
			if (!queued[i]($))
				continue;
			queued[i]($) = 0;
			return i;
		}
		return -1;
	}

	/* All waiters, which the caller wakes after it has released the lock. */
	void wake_all()
	{
		bool taken[THREADS] = {};

		lock.lock($);
		for (int i = take(); i >= 0; i = take())
			taken[i] = true;
		lock.unlock($);
		for (int i = 0; i < THREADS; i++)
			if (taken[i])
				wake(i);
	}
};

struct sem_model : rl::test_suite<sem_model, THREADS> {
	enum { SLEEPERS = 1, UNIT = 2 };
	rl::atomic<int> word;
	rl::var<int> number, waking;
	lot queue;

	void before()
	{
		queue.before();
		word($).store(UNIT, relaxed);
		number($) = waking($) = 0;
	}

	bool try_wait()
	{
		int seen = word($).load(relaxed);

		while (seen >= UNIT)
			if (word($).compare_exchange_weak(seen, seen - UNIT,
							  on("ACQUIRE_RELAXED") ? relaxed : acquire,
							  relaxed))
				return true;
		return false;
	}

	/* False: there is no unit, and the flag is set. */
	bool take_or_announce()
	{
		int seen = word($).load(relaxed);

		while (seen != SLEEPERS && !word($).compare_exchange_weak(
						   seen, seen < UNIT ? SLEEPERS : seen - UNIT,
						   on("TAKE_RELAXED") ? relaxed : acquire, relaxed))
			;
		return seen >= UNIT;
	}

	bool take_or_enter(bool designated)
	{
		bool unasked = on("ENTER_UNASKED"), taken = unasked && take_or_announce();

		queue.lock.lock($);
		if (!unasked)
			taken = take_or_announce();
		if (designated)
			waking($) = 0;
		if (!taken)
			queue.enter();
		queue.lock.unlock($);
		return taken;
	}

	void wait()
	{
		if (try_wait())
			return;
		for (bool designated = false; !take_or_enter(designated); designated = true)
			queue.sleep();
	}

	void add_unit(bool last)
	{
		int seen = word($).load(relaxed);

		while (!word($).compare_exchange_weak(seen, (last ? seen & ~SLEEPERS : seen) + UNIT,
						      on("RELEASE_RELAXED") ? relaxed : release,
						      relaxed))
			;
	}

	/* Any sleeper may be old. */
	void give()
	{
		bool early = on("GIVE_EARLY"), is_old = rl::rand(2), last;
		int sleeper = -1;

		queue.lock.lock($);
		if (is_old || !waking($) || word($).load(relaxed) >= UNIT)
			sleeper = queue.take();
		if (sleeper >= 0)
			waking($) = 1;
		last = queue.is_empty();
		if (!early)
			add_unit(last);
		queue.lock.unlock($);
		if (early)
			add_unit(last);
		if (sleeper >= 0)
			queue.wake(sleeper);
	}

	void post()
	{
		int seen = word($).load(relaxed);

		do {
			if (seen & SLEEPERS) {
				give();
				return;
			}
		} while (!word($).compare_exchange_weak(
			seen, seen + UNIT, on("RELEASE_RELAXED") ? relaxed : release, relaxed));
	}

	void thread(unsigned)
	{
		wait();
		number($) = number($) + 1;
		post();
	}

	void after()
	{
		RL_ASSERT(number($) == THREADS);
		RL_ASSERT(word($).load(relaxed) >> 1 == 1);
	}
};

struct once_model : rl::test_suite<once_model, THREADS> {
	enum { DONE = 1, WAITED = 2, OWNER = 4 };
	rl::atomic<int> word;
	rl::var<int> result, calls;
	lot queue;

	void before()
	{
		queue.before();
		word($).store(0, relaxed);
		result($) = calls($) = 0;
	}

	/* False: it failed. */
	bool function()
	{
		calls($) = calls($) + 1;
		if (on("FAILS") && calls($) == 1)
			return false;
		RL_ASSERT(result($) == 0);
		result($) = 1;
		return true;
	}

	void end(int next)
	{
		if (on("TAKE_FIRST") && word($).load(relaxed) & WAITED)
			queue.wake_all();
		if (word($).exchange(next, on("RELEASE_RELAXED") ? acquire : acq_rel) & WAITED &&
		    !on("TAKE_FIRST"))
			queue.wake_all();
	}

	void sleep_until_changed(int seen)
	{
		bool still;

		queue.lock.lock($);
		still = on("ENTER_UNASKED") || word($).load(relaxed) == seen;
		if (still)
			queue.enter();
		queue.lock.unlock($);
		if (still)
			queue.sleep();
	}

	/* True: it is done. False: the function of this thread failed. */
	bool call(int me)
	{
		for (;;) {
			int seen = word($).load(on("ACQUIRE_RELAXED") ? relaxed : acquire);

			if (seen == DONE)
				return true;
			if (!seen) {
				if (!word($).compare_exchange_strong(seen, me, acquire, relaxed))
					continue;
				bool done = function();
				end(done ? DONE : 0);
				return done;
			}
			if (!(seen & WAITED) &&
			    !word($).compare_exchange_strong(seen, seen | WAITED, relaxed, relaxed))
				continue;
			sleep_until_changed(seen | WAITED);
		}
	}

	void thread(unsigned index)
	{
		if (call((int)(index + 1) * OWNER))
			RL_ASSERT(result($) == 1);
	}

	void after()
	{
		RL_ASSERT(calls($) == (on("FAILS") ? 2 : 1));
	}
};

int main(int, char **argv)
{
	arguments = argv;
	if (on("SEM"))
		run<sem_model>();
	else
		run<once_model>();
	return 0;
}
