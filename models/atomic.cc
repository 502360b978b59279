/* SPDX-License-Identifier: MIT */
/* Sections of libatomic, and loads that hold no lock (src/atomic/table.h, locked.c), with C11's
 * orderings. An object is two words; it has one lock, or with MANY two.
 *
 * Two threads store, each one value to both words; one loads. With ORDER, one thread stores and
 * then loads a sequentially consistent atomic that has no lock, another stores to that and then
 * loads the object.
 *
 * Checked: no load returns a word of one store and a word of another; with ORDER, at least one of
 * the two threads sees the other's store.
 *
 * A release store releases a lock: the take is sequentially consistent, and a load that runs after
 * it finds the lock held. Only the unlocker's load of `waiters` needs more: atomic_lock.pml. FENCED
 * is where waiters cannot execute a barrier for all threads: a sequentially consistent store, or
 * with MANY a fence after the stores.
 * The broken variants:
 *   NO_RELEASE_FENCE   a store to the object may precede that of the odd word
 *   NO_ACQUIRE_FENCE   the second load of the word may precede the loads of the object
 *   NO_SECOND_CHECK    there is no second load of the word
 *   FIRST_RELAXED      the first load of the word is not an acquire
 *   RELEASE_RELAXED    the store that releases the lock is not a release
 *   SHRINK             with MANY: one of the words is less after a section
 *   TAKE_ACQUIRED      with ORDER: the take is no more than an acquire
 *   CHECK_ACQUIRED     with ORDER: nor is the first load of the word
 */
#include "rseq.h"

static const rl::memory_order seq_cst = rl::mo_seq_cst;

enum { THREADS = 3, READER = 2 };

struct atomic_model : rl::test_suite<atomic_model, THREADS> {
	rl::atomic<int> word[2], half[2], plain;
	int locks, seen[THREADS][2], plain_seen, object_seen;

	void before()
	{
		locks = on("MANY") ? 2 : 1;
		for (int i = 0; i < 2; i++) {
			word[i]($).store(4, relaxed);
			half[i]($).store(0, relaxed);
		}
		plain($).store(0, relaxed);
		plain_seen = object_seen = 1;
	}

	/* near__try_take */
	bool try_take(int lock)
	{
		int was = word[lock]($).load(relaxed);

		if (was & 1 || !word[lock]($).compare_exchange_strong(
				       was, 1, on("TAKE_ACQUIRED") ? acquire : seq_cst, relaxed))
			return false;
		if (!on("NO_RELEASE_FENCE"))
			rl::atomic_thread_fence(release, $);
		seen[rl::thread_index()][lock] = was;
		return true;
	}

	void take_all()
	{
		for (int i = 0; i < locks; i++)
			while (!try_take(i))
				rl::yield(1, $);
	}

	/* near__release, near__release_first */
	void release_all()
	{
		for (int i = 0; i < locks; i++) {
			int was = seen[rl::thread_index()][i];
			int next = on("SHRINK") && i ? was - 2 : was + 2;

			if (on("RELEASE_RELAXED"))
				word[i]($).store(next, relaxed);
			else if (on("FENCED") && !on("MANY"))
				word[i]($).store(next, seq_cst);
			else
				word[i]($).store(next, release);
		}
		if (on("FENCED") && on("MANY"))
			rl::atomic_thread_fence(seq_cst, $);
	}

	void put(int value)
	{
		half[0]($).store(value, relaxed);
		half[1]($).store(value, relaxed);
	}

	void store(int value)
	{
		take_all();
		put(value);
		release_all();
	}

	/* The sum of the words, or -1. */
	int check_words(rl::memory_order order)
	{
		int sum = 0;

		for (int i = 0; i < locks; i++) {
			int now = word[i]($).load(order);

			if (now & 1)
				return -1;
			sum += now;
		}
		return sum;
	}

	/* copy_unlocked, load_unlocked. Returns the value, or -1. */
	int try_load()
	{
		int before = check_words(on("FIRST_RELAXED")    ? relaxed
					 : on("CHECK_ACQUIRED") ? acquire
								: seq_cst);
		int first, second;

		if (before < 0)
			return -1;
		first = half[0]($).load(relaxed);
		second = half[1]($).load(relaxed);
		if (!on("NO_ACQUIRE_FENCE"))
			rl::atomic_thread_fence(acquire, $);
		if (!on("NO_SECOND_CHECK") && check_words(relaxed) != before)
			return -1;
		RL_ASSERT(first == second);
		return first;
	}

	void order(unsigned index)
	{
		if (index == 0) {
			store(1);
			plain_seen = plain($).load(seq_cst);
		} else if (index == READER) {
			plain($).store(1, seq_cst);
			while ((object_seen = try_load()) < 0)
				rl::yield(1, $);
		}
	}

	void thread(unsigned index)
	{
		if (on("ORDER"))
			order(index);
		else if (index == READER)
			for (int i = 0; i < 2; i++)
				try_load();
		else
			store((int)index + 1);
	}

	void after()
	{
		RL_ASSERT(plain_seen || object_seen);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<atomic_model>();
	return 0;
}
