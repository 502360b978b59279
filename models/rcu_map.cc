/* SPDX-License-Identifier: MIT */
/* near_rcu_map (src/rcu/map.h) with C11's orderings: three threads, a bucket of one slot in each
 * table; rcu_map.pml has iterations, several resizes and grace periods.
 *
 * By default, one thread inserts an entry, removes it and inserts another in its slot; two threads
 * look up. MOVE: one thread moves the bucket, another one publishes the new table, the third looks
 * up. CHANGE: one thread moves and publishes, and then writes to the old table, which is plain
 * memory then; the others change an entry in whatever table they find.
 *
 * Checked: no race for what is in entries, or in the old table; who has found an entry finds it
 * again, or a later one; one that is there for ever is always found; no change is lost.
 *
 * The broken variants:
 *   TAG_LAST          an insertion stores the slot before the tag
 *   SLOT_RELAXED      it stores the slot without release
 *   LOAD_RELAXED      a lookup loads the slot without acquire
 *   MOVED_RELAXED     MOVE: a bucket is marked as moved without release
 *   CONTROL_RELAXED   MOVE: a lookup loads the control word without acquire
 *   TABLE_RELAXED     MOVE: the new table is published without release
 *   LOADED_RELAXED    MOVE: a lookup loads the table without acquire
 *   MOVED_UNLOCKED    MOVE: who publishes loads the count of moved buckets without the lock
 *   RETIRE_UNLOCKED   CHANGE: the old table is retired without a wait for who has the lock
 *   TABLE_UNLOCKED    CHANGE: a change loads the table before it takes the lock
 */
#include "rseq.h"

enum { THREADS = 3, TABLES = 2, ENTRIES = 4 };
enum { TAG = 1, MOVED = 2 }; /* of a control word */

struct map_model : rl::test_suite<map_model, THREADS> {
	rl::atomic<int> table, next, moved;
	rl::atomic<int> control[TABLES], slot[TABLES];
	rl::var<int> contents[ENTRIES], memory[TABLES];
	rl::mutex stripe;
	int changes;

	void before()
	{
		table($).store(0, relaxed);
		next($).store(0, relaxed);
		moved($).store(0, relaxed);
		for (int t = 0; t < TABLES; t++) {
			memory[t]($) = 0;
			control[t]($).store(0, relaxed);
			slot[t]($).store(0, relaxed);
		}
		for (int e = 0; e < ENTRIES; e++)
			contents[e]($) = 0;
		changes = 0;
		if (on("MOVE") || on("CHANGE")) {
			contents[1]($) = 1;
			slot[0]($).store(1, relaxed);
			control[0]($).store(TAG, relaxed);
		}
	}

	rl::memory_order unless(const char *name, rl::memory_order order)
	{
		return on(name) ? relaxed : order;
	}

	/* ---- lookups ---- */

	/* The entry, or 0. */
	int find()
	{
		int t = table($).load(unless("LOADED_RELAXED", acquire)), word, e;

		while ((word = control[t]($).load(unless("CONTROL_RELAXED", acquire))) & MOVED)
			t = next($).load(acquire);
		e = word & TAG ? slot[t]($).load(unless("LOAD_RELAXED", acquire)) : 0;
		RL_ASSERT(!e || contents[e]($) == e);
		return e;
	}

	/* ---- changes ---- */

	void set_tag(int t)
	{
		control[t]($).store(control[t]($).load(relaxed) | TAG, release);
	}

	void insert(int t, int e)
	{
		contents[e]($) = e;
		if (!on("TAG_LAST"))
			set_tag(t);
		slot[t]($).store(e, unless("SLOT_RELAXED", release));
		if (on("TAG_LAST"))
			set_tag(t);
	}

	void remove(int t)
	{
		slot[t]($).store(0, relaxed);
		control[t]($).store(control[t]($).load(relaxed) & ~TAG, release);
	}

	/* A replacement, by the next entry. */
	void replace()
	{
		int t = table($).load(relaxed), e;

		stripe.lock($);
		if (!on("TABLE_UNLOCKED"))
			t = table($).load(relaxed);
		rl::ctx().sched(); /* plain memory alone does not let other threads run */
		(void)(int)memory[t]($);
		if (control[t]($).load(relaxed) & MOVED)
			t = next($).load(relaxed);
		e = slot[t]($).load(relaxed);
		RL_ASSERT(e == 1 + changes);
		changes++;
		contents[e + 1]($) = e + 1;
		slot[t]($).store(e + 1, release);
		stripe.unlock($);
	}

	/* ---- a resize ---- */

	void move()
	{
		stripe.lock($);
		next($).store(1, relaxed);
		control[1]($).store(TAG, relaxed);
		slot[1]($).store(slot[0]($).load(relaxed), relaxed);
		control[0]($).store(TAG | MOVED, unless("MOVED_RELAXED", release));
		moved($).store(1, relaxed);
		stripe.unlock($);
	}

	bool has_moved()
	{
		bool all;

		if (on("MOVED_UNLOCKED"))
			return moved($).load(relaxed);
		stripe.lock($);
		all = moved($).load(relaxed);
		stripe.unlock($);
		return all;
	}

	void publish()
	{
		if (!has_moved())
			return;
		table($).store(next($).load(relaxed), unless("TABLE_RELAXED", release));
		if (on("RETIRE_UNLOCKED"))
			return;
		stripe.lock($);
		moved($).store(0, relaxed);
		stripe.unlock($);
	}

	/* ---- threads ---- */

	void look_up(int times)
	{
		for (int last = 0; times; times--) {
			int e = find();

			if (on("MOVE"))
				RL_ASSERT(e == 1);
			RL_ASSERT(last != 2 || e == 2);
			last = e;
		}
	}

	void insert_twice()
	{
		insert(0, 1);
		remove(0);
		insert(0, 2);
	}

	void thread(unsigned index)
	{
		thread_start();
		if (on("CHANGE") && index) {
			replace();
		} else if (on("CHANGE")) {
			move();
			publish();
			memory[0]($) = 1;
		} else if (on("MOVE") && index < 2) {
			index ? publish() : move();
		} else if (index == 0) {
			insert_twice();
		} else {
			look_up(2);
		}
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<map_model>();
	return 0;
}
