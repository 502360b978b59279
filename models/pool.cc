/* SPDX-License-Identifier: MIT */
/* The lock-free list of a pool, `returned`, and the lock under which it moves to the center
 * (src/pool/center.c) with C11's orderings.
 *
 * Each of three threads gives an object: into the center if it gets the lock, else on `returned`.
 * A thread that has pushed, or released the lock, then fences, loads the list, and, if that is not
 * empty, tries the lock. Checked: no race for objects, links and the center; at the end all objects
 * are in the center, and none is left on `returned`.
 *
 * The broken variants:
 *   NO_PUSH_FENCE    no fence between the push and the load of the lock's word
 *   NO_LEAVE_FENCE   nor between the release of the lock and the load of the list
 *   PUSH_RELAXED     the push does not release
 *   COLLECT_RELAXED  the exchange that takes the list does not acquire
 */
#include "rseq.h"

static const rl::memory_order seq_cst = rl::mo_seq_cst;

struct pool_model : rl::test_suite<pool_model, 3> {
	enum { THREADS = 3 };

	rl::atomic<int> lock, returned; /* object's number; 0: none */
	rl::var<int> link[THREADS + 1], content[THREADS + 1], count;

	void before()
	{
		kernel_start(THREADS);
		lock($).store(0, relaxed);
		returned($).store(0, relaxed);
		count($) = 0;
		for (int i = 0; i <= THREADS; i++)
			link[i]($) = content[i]($) = 0;
	}

	/* As near_lock_try_lock: a word that is locked is only loaded. */
	bool try_lock()
	{
		int seen = lock($).load(relaxed);

		return !seen && lock($).compare_exchange_strong(seen, 1, acquire, relaxed);
	}

	void unlock()
	{
		int locked = 1;

		RL_ASSERT(lock($).compare_exchange_strong(locked, 0, release, relaxed));
	}

	void push(int object)
	{
		int head = returned($).load(relaxed);

		do
			link[object]($) = head;
		while (!returned($).compare_exchange_strong(
			head, object, on("PUSH_RELAXED") ? relaxed : release, relaxed));
	}

	/* With the lock. */
	void collect()
	{
		int object = 0;

		if (returned($).load(relaxed))
			object = returned($).exchange(0, on("COLLECT_RELAXED") ? relaxed : acquire);
		for (; object; object = link[object]($))
			keep(object);
	}

	void keep(int object)
	{
		RL_ASSERT(content[object]($) == object);
		count($) = count($) + 1;
	}

	void settle(bool fenced)
	{
		for (;; fenced = !on("NO_LEAVE_FENCE")) {
			if (fenced)
				rl::atomic_thread_fence(seq_cst, $);
			if (!returned($).load(relaxed) || !try_lock())
				return;
			collect();
			unlock();
		}
	}

	void thread(unsigned index)
	{
		int object = (int)index + 1;

		content[object]($) = object;
		if (try_lock()) {
			keep(object);
			unlock();
			settle(!on("NO_LEAVE_FENCE"));
		} else {
			push(object);
			settle(!on("NO_PUSH_FENCE"));
		}
	}

	void after()
	{
		RL_ASSERT(returned($).load(relaxed) == 0);
		RL_ASSERT(count($) == THREADS);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<pool_model>();
	return 0;
}
