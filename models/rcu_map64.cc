/* SPDX-License-Identifier: MIT */
/* near_rcu_map64 (src/rcu/map64.h) with C11's orderings: three threads, tables of one line of two
 * slots. A value names what its writer has stored in plain memory before.
 *
 * By default one thread moves the table, in which key 1 is, one counts the key's value up, and one
 * looks up. TWICE: the second table moves, too, to a third one. FULL: the second table has no place
 * for key 1. REMOVE: the second thread removes the key and inserts it again. INSERT: the table is
 * empty, and two threads insert key 1, one of them after key 3. NARROW: so that there is no place.
 *
 * Checked: of two insertions one succeeds; what is there is found; a value that was found is not
 * followed by an older one; no change is lost; no race for what a value names.
 *
 * The broken variants:
 *   CLAIM_STORED      a slot is claimed by a store
 *   KEY_REMOVED       a removal makes the slot free
 *   UNCLAIMED         a key is inserted in the next table without a claim in the free slot of the
 *                     first one, since that has MOVED
 *   FREE_UNMOVED      a free slot does not get MOVED
 *   MOVED_STORED      a value becomes MOVED by a store
 *   MOVED_FIRST       before it is copied
 *   COPIED_ONCE       a value that has changed is not copied again
 *   ZERO_UNCOPIED     nor one that was removed after it was copied
 *   NEXT_RELAXED      the next table is loaded without acquire
 *   MOVED_RELAXED     MOVED is stored without release
 *   STORE_RELAXED     a value is stored without release
 *   LOAD_RELAXED      and loaded without acquire
 */
#include "rseq.h"

enum { THREADS = 3, TABLES = 3, SLOTS = 2, VALUES = 6 };
enum { MOVED = 99, NONE = -1 };

struct map64_model : rl::test_suite<map64_model, THREADS> {
	rl::atomic<int> root;
	rl::atomic<int> next[TABLES]; /* 0: none */
	rl::atomic<int> keys[TABLES][SLOTS], values[TABLES][SLOTS];
	rl::var<int> contents[VALUES], made[TABLES];
	rl::mutex moving;
	int inserted, last;

	void before()
	{
		root($).store(0, relaxed);
		for (int t = 0; t < TABLES; t++) {
			next[t]($).store(0, relaxed);
			made[t]($) = 0;
			for (int s = 0; s < SLOTS; s++) {
				keys[t][s]($).store(0, relaxed);
				values[t][s]($).store(0, relaxed);
			}
		}
		for (int v = 0; v < VALUES; v++)
			contents[v]($) = 0;
		made[0]($) = 1;
		inserted = 0;
		last = 1;
		if (on("NARROW"))
			keys[0][0]($).store(4, relaxed);
		if (!on("INSERT")) {
			contents[1]($) = 1;
			keys[0][0]($).store(1, relaxed);
			values[0][0]($).store(1, relaxed);
		}
		if (on("FULL"))
			for (int s = 0; s < SLOTS; s++)
				keys[1][s]($).store(2 + s, relaxed);
	}

	rl::memory_order unless(const char *name, rl::memory_order order)
	{
		return on(name) ? relaxed : order;
	}

	/* ---- slots ---- */

	int next_of(int t)
	{
		return next[t]($).load(unless("NEXT_RELAXED", acquire));
	}

	/* The slot that has the key, or is free; NONE. */
	int search(int t, int key, int *found)
	{
		RL_ASSERT(made[t]($));
		for (int s = 0; s < SLOTS; s++) {
			*found = keys[t][s]($).load(relaxed);
			if (*found == key || !*found)
				return s;
		}
		return NONE;
	}

	bool claim(int t, int s, int key)
	{
		int now = 0;

		if (on("CLAIM_STORED")) {
			keys[t][s]($).store(key, relaxed);
			return true;
		}
		return keys[t][s]($).compare_exchange_strong(now, key, relaxed) || now == key;
	}

	/* ---- lookups ---- */

	int find_slow(int t, int key)
	{
		do {
			int found, s = search(t, key, &found), value = 0;

			if (s != NONE && found)
				value = values[t][s]($).load(unless("LOAD_RELAXED", acquire));
			if (s != NONE && value != MOVED)
				return value;
		} while ((t = next_of(t)));
		return 0;
	}

	int find(int key)
	{
		int t = root($).load(acquire), value = 0;
		int end = keys[t][1]($).load(relaxed), s = end == key;

		if (s || keys[t][0]($).load(relaxed) == key) {
			value = values[t][s]($).load(unless("LOAD_RELAXED", acquire));
			if (value == MOVED)
				value = find_slow(t, key);
		} else if (end) {
			value = find_slow(t, key);
		}
		RL_ASSERT(!value || contents[value]($) == value);
		return value;
	}

	/* ---- changes: what was found ---- */

	void begin(int t)
	{
		moving.lock($);
		if (!next[t]($).load(relaxed)) {
			made[t + 1]($) = 1;
			next[t]($).store(t + 1, release);
		}
		moving.unlock($);
	}

	/* Stores `value` if `from` is found. */
	int change(int key, int from, int value)
	{
		int t = root($).load(acquire), found, s, now;

		for (;;) {
			s = search(t, key, &found);
			if (s != NONE && !found && from)
				return 0;
			if (on("UNCLAIMED") && s != NONE && !found &&
			    values[t][s]($).load(acquire) == MOVED)
				s = NONE;
			if (s != NONE && !found && !claim(t, s, key))
				continue;
			if (s != NONE) {
				now = values[t][s]($).load(acquire);
				while (now == from &&
				       !values[t][s]($).compare_exchange_strong(
					       now, value, unless("STORE_RELAXED", acq_rel)))
					;
				if (now != MOVED) {
					if (now == from && !value && on("KEY_REMOVED"))
						keys[t][s]($).store(0, release);
					return now;
				}
			}
			if (!next_of(t))
				begin(t);
			t = next_of(t);
		}
	}

	int store(int key, int from, int value)
	{
		contents[value]($) = value;
		return change(key, from, value);
	}

	/* ---- a move ---- */

	void copy(int t, int key, int value)
	{
		int found, s;

		for (;;) {
			RL_ASSERT(t);
			s = search(t, key, &found);
			if (s == NONE)
				t = next_of(t);
			else if (found || claim(t, s, key))
				break;
		}
		values[t][s]($).store(value, unless("STORE_RELAXED", release));
	}

	void move_slot(int t, int s)
	{
		int now = values[t][s]($).load(acquire);
		bool copied = false;

		if (on("FREE_UNMOVED") && !keys[t][s]($).load(relaxed))
			return;
		if (on("MOVED_FIRST"))
			values[t][s]($).exchange(MOVED, acq_rel);
		do {
			if (!(on("COPIED_ONCE") && copied) &&
			    (now || (copied && !on("ZERO_UNCOPIED"))))
				copy(next_of(t), keys[t][s]($).load(relaxed), now);
			copied = copied || now;
			if (on("MOVED_STORED") || on("MOVED_FIRST")) {
				values[t][s]($).store(MOVED, release);
				break;
			}
		} while (!values[t][s]($).compare_exchange_strong(
			now, MOVED, unless("MOVED_RELAXED", acq_rel)));
	}

	void move(int t)
	{
		begin(t);
		if (on("FULL"))
			begin(t + 1);
		for (int s = 0; s < SLOTS; s++)
			move_slot(t, s);
		root($).store(t + 1, release);
	}

	/* ---- threads ---- */

	void insert_one(int value)
	{
		int was = store(1, 0, value);

		inserted += !was;
		RL_ASSERT(find(1) == (was ? was : value));
	}

	void count_up()
	{
		for (int v = 1; v < 3; v++) {
			RL_ASSERT(store(1, v, v + 1) == v);
			last = v + 1;
			RL_ASSERT(find(1) == v + 1);
		}
	}

	void remove_and_insert()
	{
		RL_ASSERT(change(1, 1, 0) == 1);
		RL_ASSERT(find(1) == 0);
		RL_ASSERT(store(1, 0, 2) == 0);
		RL_ASSERT(find(1) == 2);
	}

	void look_up(bool always)
	{
		static const int order[] = {1, 0, 2, 3}; /* of a value that follows another */
		int place = always ? 0 : -1, value;

		for (int i = 0; i < 2; i++) {
			int before = place;

			value = find(1);
			RL_ASSERT(value || !always);
			for (place = 0; order[place] != value;)
				place++;
			RL_ASSERT(place >= before);
		}
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == 0) {
			move(0);
			if (on("TWICE"))
				move(1);
		} else if (on("INSERT")) {
			if (index == 1)
				RL_ASSERT(store(3, 0, 3) == 0);
			insert_one(index);
		} else if (index == 1) {
			on("REMOVE") ? remove_and_insert() : count_up();
		} else {
			look_up(!on("REMOVE"));
		}
	}

	void after()
	{
		if (on("INSERT")) {
			RL_ASSERT(inserted == 1);
			RL_ASSERT(find(1) && find(3) == 3);
		} else {
			RL_ASSERT(find(1) == (on("REMOVE") ? 2 : last));
		}
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<map64_model>();
	return 0;
}
