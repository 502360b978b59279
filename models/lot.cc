/* SPDX-License-Identifier: MIT */
/* One wait in the parking lot (src/parking/lot.c, src/parking/cancel.c) with C11's orderings:
 * thread 0 waits, with a deadline and a token; thread 1 unparks it if it finds it, thread 2 sets
 * the token.
 *
 * Checked: the waiter sees what was written before the unpark, or the set, that ended its wait, and
 * so does a thread that sees the token set; no thread accesses the waiter after its frame has ended
 * (modelled by a plain variable, which each access to the waiter reads); a thread that was unparked
 * returns no other result. park.pml checks that no wake-up is lost: here a sleep may end at any
 * time.
 *
 * CANCEL_RELEASED cancels with release, which is more than is needed. The broken variants:
 *   WAKE_RELAXED     the waker's last access does not release
 *   LOAD_RELAXED     the waiter loads its word without acquire
 *   SET_RELAXED      the token is set without release
 *   IS_SET_RELAXED   and loaded without acquire
 *   LEAVE_UNASKED    a waiter leaves without a check whether it was taken
 *   LEAVE_UNWOKEN    a waiter that was taken returns before it is woken
 *   STAY_ON_LIST     a waiter returns and is still on the token's list
 *   CANCEL_UNLOCKED  the thread that sets the token releases the lock before it cancels
 */
#include "rseq.h"

enum { ASLEEP = 1, CANCELLED_BIT = 2, WOKEN = 4 };
enum { NONE, TIMED_OUT, CANCELED };
enum { WAITER, WAKER, CANCELLER, ROLES };

struct lot_model : rl::test_suite<lot_model, ROLES> {
	rl::mutex bucket, list; /* the locks of the waiter's bucket, and of the token's */
	rl::atomic<int> word, is_set;
	rl::var<int> queued, token, listed, frame; /* plain memory */
	rl::var<int> written_by_waker, written_by_canceller;

	void before()
	{
		word($).store(0, relaxed);
		is_set($).store(0, relaxed);
		queued($) = listed($) = token($) = frame($) = 0;
		written_by_waker($) = written_by_canceller($) = 0;
	}

	/* near__cancel_join */
	bool join_token()
	{
		bool set = is_set($).load(on("IS_SET_RELAXED") ? relaxed : acquire);

		if (set)
			return false;
		list.lock($);
		set = is_set($).load(relaxed);
		if (!set)
			listed($) = 1;
		list.unlock($);
		return !set;
	}

	void leave_token()
	{
		if (on("STAY_ON_LIST"))
			return;
		list.lock($);
		listed($) = 0;
		list.unlock($);
	}

	/* The kernel may send a sleeper back for any reason, or for its deadline. */
	int futex_wait(int seen)
	{
		if (!word($).compare_exchange_strong(seen, seen | ASLEEP, relaxed, relaxed))
			return NONE;
		rl::yield(1, $);
		word($).fetch_and(~ASLEEP, relaxed);
		return rl::rand(2) ? TIMED_OUT : NONE;
	}

	int load()
	{
		return word($).load(on("LOAD_RELAXED") ? relaxed : acquire);
	}

	/* False: a waker was first. */
	bool leave()
	{
		bool was;

		bucket.lock($);
		was = queued($);
		queued($) = 0;
		bucket.unlock($);
		while (!was && !(load() & WOKEN) && !on("LEAVE_UNWOKEN"))
			rl::yield(1, $);
		return was || on("LEAVE_UNASKED");
	}

	/* near__lot_sleep */
	int sleep()
	{
		int r = join_token() ? NONE : CANCELED, seen;

		while (!((seen = load()) & WOKEN) && !r)
			r = seen & CANCELLED_BIT ? CANCELED : futex_wait(seen);
		leave_token();
		return r && !(seen & WOKEN) && leave() ? r : NONE;
	}

	void wait()
	{
		int r;

		bucket.lock($);
		queued($) = 1;
		bucket.unlock($);
		r = sleep();
		if (r == NONE) {
			RL_ASSERT(token($) == 7);
			RL_ASSERT(written_by_waker($) == 1);
		} else {
			RL_ASSERT(token($) == 0);
		}
		if (r == CANCELED)
			RL_ASSERT(written_by_canceller($) == 1);
		frame($) = 1;
	}

	/* near_unpark_with, near__lot_wake */
	void unpark()
	{
		bool taken;

		written_by_waker($) = 1;
		bucket.lock($);
		taken = queued($);
		if (taken) {
			queued($) = 0;
			token($) = 7;
		}
		bucket.unlock($);
		if (!taken)
			return;
		RL_ASSERT(frame($) == 0);
		word($).fetch_or(WOKEN, on("WAKE_RELAXED") ? relaxed : release);
	}

	void cancel()
	{
		RL_ASSERT(frame($) == 0);
		word($).fetch_or(CANCELLED_BIT, on("CANCEL_RELEASED") ? release : relaxed);
	}

	/* near_cancel_set */
	void set()
	{
		bool found;

		written_by_canceller($) = 1;
		list.lock($);
		is_set($).store(1, on("SET_RELAXED") ? relaxed : release);
		found = listed($);
		listed($) = 0;
		if (found && !on("CANCEL_UNLOCKED"))
			cancel();
		list.unlock($);
		if (found && on("CANCEL_UNLOCKED"))
			cancel();
	}

	void thread(unsigned index)
	{
		if (index == WAITER) {
			wait();
		} else if (index == WAKER) {
			unpark();
			if (is_set($).load(on("IS_SET_RELAXED") ? relaxed : acquire))
				RL_ASSERT(written_by_canceller($) == 1);
		} else {
			set();
		}
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<lot_model>();
	return 0;
}
