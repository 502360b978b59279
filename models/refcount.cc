/* SPDX-License-Identifier: MIT */
/* near_refcount's kill and revive (src/percpu/refcount.c) with C11's orderings.
 *
 * Thread 0 kills. Thread 1 runs sequences on the one slot, thread 2 takes the fallback word; both
 * may go to the exact count at any time (all tries aborted, the lock not to be had). Each uses the
 * object while it holds a reference.
 *
 * Checked: the release callback runs once, after kill, when all references are put; what each user
 * did before its last put is visible in it (relacy finds the race otherwise); no count is lost.
 *
 *   FRESH     the slot and the word were not used before
 *   REVIVE    the killer holds a reference, revives, and kills again
 *   AGAIN     the killer revives after the release, and kills again; the others try to get a
 *             reference
 *   PORTABLE  no thread is live, and there is no fence
 *
 * The broken variants:
 *   NO_FIRST_FENCE        kill adds up directly after closing
 *   NO_SECOND_FENCE       revive opens without a fence
 *   FENCE_ABORTS_NOBODY   the fence only orders memory
 *   FENCE_ORDERS_NOTHING  the fence only aborts
 *   COUNT_KEPT            kill leaves the slot's count where it is
 *   BIAS_FIRST            kill subtracts the bias before it has added up
 *   BIAS_LAST             revive adds the bias after all gates are open
 *   OPEN_UNLOCKED         the slot's gate is opened without the lock and a check of the mode
 *   STATE_APART           the state of the fallback word is not part of what a fallback changes
 *   PUT_RELAXED           a put to the word does not release
 *   GET_RELAXED           a get from the word does not acquire
 *   KILL_RELAXED          kill takes the word without acquire
 *   EXACT_RELAXED         a put to the exact count does neither
 */
#include "rseq.h"

enum { UNOPENED, OPEN, CLOSED };
enum { PER_CPU, KILLED };
enum { KILLER, LIVE, DEAD, ROLES };
enum { BIAS = 1 << 20, TRIES = 2, STATE = 3, COUNT = 4 };

struct refcount_model : rl::test_suite<refcount_model, ROLES> {
	rl::atomic<int> gate, count, word, exact, mode, gone;
	rl::var<int> object[ROLES]; /* the part that each thread writes */
	rl::mutex lock;
	int released;
	bool killed;

	void before()
	{
		bool fresh = on("FRESH");

		kernel_start(ROLES);
		gate($).store(fresh ? UNOPENED : OPEN, relaxed);
		count($).store(fresh ? 0 : 1, relaxed);
		word($).store(fresh ? UNOPENED : OPEN + COUNT, relaxed);
		mode($).store(PER_CPU, relaxed);
		gone($).store(0, relaxed);
		/* The owner's reference; one for the killer if it revives; one for each user. */
		exact($).store(BIAS + 1 + on("REVIVE") + (fresh ? 2 : 0), relaxed);
		for (int i = 0; i < ROLES; i++)
			object[i]($) = 0;
		released = 0;
		killed = false;
	}

	int releases() const
	{
		return on("AGAIN") ? 2 : 1;
	}

	void release_object()
	{
		RL_ASSERT(killed);
		RL_ASSERT(++released <= releases());
		for (int i = 0; i < ROLES; i++)
			object[i]($) = -1;
		gone($).store(1, release);
	}

	/* near__add_behind_gate */
	bool try_add(int n)
	{
		unsigned began = fences_here();
		int state, value;

		STEP(state = gate($).load(relaxed));
		if (state != OPEN)
			goto failed;
		STEP(value = count($).load(relaxed));
		STEP(count($).store(value + n, relaxed));
		return true;
failed:
		return false;
	}

	bool open_own()
	{
		int state = gate($).load(acquire), fresh = UNOPENED;

		if (state == UNOPENED && on("OPEN_UNLOCKED")) {
			gate($).compare_exchange_strong(fresh, OPEN, acq_rel, acquire);
			state = gate($).load(relaxed);
		} else if (state == UNOPENED && lock.try_lock($)) {
			if (mode($).load(relaxed) == PER_CPU)
				gate($).compare_exchange_strong(fresh, OPEN, acq_rel, acquire);
			state = gate($).load(relaxed);
			lock.unlock($);
		}
		return state == OPEN;
	}

	bool start_fallback()
	{
		int fresh = UNOPENED;

		if (!lock.try_lock($))
			return false;
		word($).compare_exchange_strong(
			fresh, mode($).load(relaxed) == PER_CPU ? OPEN : CLOSED, relaxed, relaxed);
		lock.unlock($);
		return true;
	}

	bool add_to_fallback(int n)
	{
		rl::memory_order order = on("PUT_RELAXED")   ? acquire
					 : on("GET_RELAXED") ? release
							     : acq_rel;
		int was = word($).load(relaxed);

		for (;;) {
			if ((was & STATE) == CLOSED)
				return false;
			if ((was & STATE) == UNOPENED) {
				if (!start_fallback())
					return false;
				was = word($).load(relaxed);
			} else if (on("STATE_APART")) {
				word($).fetch_add(n * COUNT, acq_rel);
				return true;
			} else if (word($).compare_exchange_strong(was, was + n * COUNT, order,
								   relaxed)) {
				return true;
			}
		}
	}

	bool add_per_cpu(int n)
	{
		if (rl::rand(2))
			return false;
		if (rl::thread_index() == LIVE && !on("PORTABLE")) {
			if (try_add(n))
				return true;
			for (int i = 0; i < TRIES && open_own(); i++)
				if (try_add(n))
					return true;
		}
		return add_to_fallback(n);
	}

	void add_exact(int n)
	{
		int now = n + exact($).fetch_add(n, on("EXACT_RELAXED") ? relaxed : acq_rel);

		RL_ASSERT(now >= 0);
		if (now == 0)
			release_object();
	}

	void get()
	{
		if (!add_per_cpu(1))
			RL_ASSERT(exact($).fetch_add(1, relaxed) > 0);
	}

	/* near_refcount_try_get: needs no reference. */
	bool try_get()
	{
		int was;

		if (add_per_cpu(1))
			return true;
		was = exact($).load(relaxed);
		while (was > 0)
			if (exact($).compare_exchange_strong(was, was + 1, acquire, relaxed))
				return true;
		return false;
	}

	void put()
	{
		if (!add_per_cpu(-1))
			add_exact(-1);
	}

	int close_copies()
	{
		rl::memory_order order = on("KILL_RELAXED") ? relaxed : acq_rel;
		int was = OPEN, total;

		gate($).compare_exchange_strong(was, CLOSED, acquire, relaxed);
		if (!on("NO_FIRST_FENCE") && !on("PORTABLE"))
			fence();
		total = word($).exchange(CLOSED, order) >> 2;
		total += count($).load(relaxed);
		if (!on("COUNT_KEPT"))
			count($).store(0, relaxed);
		return total;
	}

	void kill()
	{
		lock.lock($);
		killed = true;
		mode($).store(KILLED, release);
		if (on("BIAS_FIRST"))
			add_exact(-BIAS - 1);
		add_exact(close_copies());
		lock.unlock($);
		if (!on("BIAS_FIRST"))
			add_exact(-BIAS - 1);
	}

	void revive()
	{
		int state;

		lock.lock($);
		killed = false;
		if (!on("BIAS_LAST"))
			exact($).fetch_add(BIAS + 1, acq_rel);
		if (!on("NO_SECOND_FENCE") && !on("PORTABLE"))
			fence();
		word($).store(OPEN, release);
		state = gate($).load(relaxed);
		if (state == CLOSED)
			gate($).store(OPEN, release);
		mode($).store(PER_CPU, release);
		if (on("BIAS_LAST"))
			exact($).fetch_add(BIAS + 1, acq_rel);
		lock.unlock($);
	}

	void use()
	{
		object[rl::thread_index()]($) = 1;
	}

	/* Comes with a reference. */
	void user()
	{
		use();
		get();
		put();
		use();
		put();
		if (on("AGAIN") && try_get()) {
			use();
			put();
		}
	}

	void killer()
	{
		kill();
		if (on("AGAIN"))
			while (!gone($).load(acquire))
				rl::yield(1, $);
		else if (!on("REVIVE"))
			return;
		use();
		revive();
		use();
		if (on("REVIVE"))
			put();
		kill();
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == KILLER)
			killer();
		else
			user();
	}

	void after()
	{
		RL_ASSERT(released == releases());
		RL_ASSERT(exact($).load(relaxed) == 0);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<refcount_model>();
	return 0;
}
