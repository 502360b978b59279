/* SPDX-License-Identifier: MIT */
/* near_rwlock's readers and writers (src/locks/rwlock*.c) with C11's orderings. No thread sleeps:
 * one that would have to gives up.
 *
 * Thread 0 writes, twice with AGAIN; the others read twice, each on a slot of its own: by a
 * sequence, or in the word; a reader that locks by the word restores the bias if there is none.
 *
 * Checked: what the lock guards is plain memory, on which relacy finds races; a writer is alone;
 * the count is 0 at the end. FRESH begins with gates that were never opened; WORD without bias and
 * with threads that are not live; with WRITERS_FIRST readers do not pass a writer that waits.
 * OPEN_RELAXED opens without release, and is correct: the fence orders what was before it. The
 * broken variants:
 *   NO_FIRST_FENCE        the copies are added up as soon as the gates are closed
 *   NO_SECOND_FENCE       the gates are opened, with release, as soon as the word is BIASED
 *   FENCE_LATE            the gates are opened before that fence
 *   FENCE_ABORTS_NOBODY   the fence only orders memory, as membarrier without RSEQ
 *   FENCE_ORDERS_NOTHING  the fence only aborts
 *   NO_CHECK              a sequence does not check the gate
 *   OPEN_UNLOCKED         a gate is opened for the first time without the gates' lock
 *   ENTER_RELAXED         a reader enters by the word without acquire
 *   PASS_ANYWAY           a reader passes a writer though no reader is counted
 *   LEAVE_RELAXED         a reader leaves by the word without release
 *   CLAIM_RELAXED         a writer claims, and drains, without acquire
 *   WRITER_RELAXED        a writer leaves without release
 */
#include "rseq.h"

enum { UNOPENED, OPEN, CLOSED };
enum { BIASED = 1, WRITER = 0x10, WRITERS = 0xff0, READER = 0x1000 };
enum { READERS = 2 };

struct rwlock_model : rl::test_suite<rwlock_model, 1 + READERS> {
	rl::atomic<int> word, gate[READERS], count[READERS];
	rl::var<int> guarded;
	rl::mutex gates;
	bool writing;
	int reading;

	void before()
	{
		int fresh = on("WORD") ? CLOSED : on("FRESH") ? UNOPENED : OPEN;

		kernel_start(1 + READERS);
		word($).store(on("WORD") ? 0 : BIASED, relaxed);
		for (int s = 0; s < READERS; s++) {
			gate[s]($).store(fresh, relaxed);
			count[s]($).store(0, relaxed);
		}
		guarded($) = 0;
		writing = false;
		reading = 0;
	}

	bool change(int &seen, int next, rl::memory_order order)
	{
		return word($).compare_exchange_strong(seen, next, order, relaxed);
	}

	/* near__add_behind_gate */
	bool try_count(int slot, int n)
	{
		unsigned began = fences_here();
		int state, was;

		STEP(state = gate[slot]($).load(relaxed));
		if (state != OPEN && !on("NO_CHECK"))
			goto failed;
		STEP(was = count[slot]($).load(relaxed));
		STEP(count[slot]($).store(was + n, relaxed));
		return true;
failed:
		return false;
	}

	void open_first(int slot)
	{
		int fresh = UNOPENED;

		if (gate[slot]($).load(relaxed) != UNOPENED)
			return;
		if (!on("OPEN_UNLOCKED"))
			gates.lock($);
		if (word($).load(relaxed) & BIASED)
			gate[slot]($).compare_exchange_strong(fresh, OPEN, rl::mo_acq_rel, acquire);
		if (!on("OPEN_UNLOCKED"))
			gates.unlock($);
	}

	bool count_on_slot(int slot, int n)
	{
		if (on("WORD"))
			return false;
		if (try_count(slot, n))
			return true;
		open_first(slot);
		return try_count(slot, n);
	}

	void revoke()
	{
		int sum = 0, seen;

		gates.lock($);
		for (int s = 0; s < READERS; s++) {
			int open = OPEN;

			gate[s]($).compare_exchange_strong(open, CLOSED, acquire, relaxed);
		}
		if (!on("NO_FIRST_FENCE"))
			fence();
		for (int s = 0; s < READERS; s++) {
			sum += count[s]($).load(relaxed);
			count[s]($).store(0, relaxed);
		}
		seen = word($).load(relaxed);
		while (!change(seen, (seen & ~BIASED) + sum * READER, relaxed))
			;
		gates.unlock($);
	}

	void open_closed()
	{
		for (int s = 0; s < READERS; s++)
			if (gate[s]($).load(relaxed) == CLOSED)
				gate[s]($).store(OPEN, on("OPEN_RELAXED") ? relaxed : release);
	}

	void restore_bias()
	{
		int seen;

		gates.lock($);
		seen = word($).load(relaxed);
		while (!(seen & WRITERS) && !(seen & BIASED))
			if (change(seen, seen | BIASED, relaxed)) {
				if (on("FENCE_LATE"))
					open_closed();
				if (!on("NO_SECOND_FENCE"))
					fence();
				open_closed();
				break;
			}
		gates.unlock($);
	}

	/* A writer that claimed has not revoked yet, or waits for readers. */
	bool may_pass(int seen)
	{
		if (on("WRITERS_FIRST"))
			return false;
		return on("PASS_ANYWAY") || seen & BIASED || seen / READER > 0;
	}

	bool read_lock(int slot)
	{
		int seen;

		if (count_on_slot(slot, 1))
			return true;
		seen = word($).load(relaxed);
		do {
			if (seen & WRITERS && !may_pass(seen))
				return false;
		} while (!change(seen, seen + READER, on("ENTER_RELAXED") ? relaxed : acquire));
		if (!(seen & BIASED) && !on("WORD"))
			restore_bias();
		return true;
	}

	void read_unlock(int slot)
	{
		int seen;

		if (count_on_slot(slot, -1))
			return;
		seen = word($).load(relaxed);
		while (!change(seen, seen - READER, on("LEAVE_RELAXED") ? relaxed : release))
			;
	}

	void read(int slot)
	{
		if (!read_lock(slot))
			return;
		reading++;
		RL_ASSERT(!writing);
		(void)(int)guarded($);
		RL_ASSERT(!writing);
		reading--;
		read_unlock(slot);
	}

	void write()
	{
		rl::memory_order taking = on("CLAIM_RELAXED") ? relaxed : acquire;
		int seen = word($).load(relaxed);

		while (!change(seen, seen + WRITER, taking))
			;
		if (seen & BIASED)
			revoke();
		seen = word($).load(taking);
		if (seen == WRITER) {
			RL_ASSERT(!reading);
			writing = true;
			guarded($) = 1;
			writing = false;
		}
		seen = word($).load(relaxed);
		while (!change(seen, seen - WRITER, on("WRITER_RELAXED") ? relaxed : release))
			;
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == 0) {
			write();
			if (on("AGAIN"))
				write();
			return;
		}
		read((int)index - 1);
		read((int)index - 1);
	}

	void after()
	{
		int sum = 0;

		for (int s = 0; s < READERS; s++)
			sum += count[s]($).load(relaxed);
		RL_ASSERT((word($).load(relaxed) & ~BIASED) + sum * READER == 0);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<rwlock_model>();
	return 0;
}
