/* SPDX-License-Identifier: MIT */
/* A reader of a trace in another process, concurrently with a writer (src/trace/format.h), with
 * C11's orderings.
 *
 * The ring has two sub-buffers, each with room for a record and an end mark; byte p of the ring
 * is word p here. The writer stores records, and commits each by storing the position, a release;
 * at the end of a sub-buffer it first stores an end mark and commits the begin of the next one. All
 * data are relaxed: the records of the next sub-buffer may become visible before an earlier
 * position. The reader loads the position, copies what is before it, fences
 * (membarrier(GLOBAL_EXPEDITED) orders, and aborts nobody), loads the position again, and drops
 * what may have been overwritten. With -DKILL the writer ends at any instruction, and the reader
 * begins after that.
 *
 * Checked: each record that is left is the one that was written there.
 *
 * The broken variants:
 *   NO_FENCE           no fence between the copy and the second load
 *   NO_SECOND_LOAD     the position is not loaded again
 *   NO_SWITCH          the first record of a sub-buffer is stored before its begin is committed
 *   COMMIT_RELAXED     the position is no release
 *   ONE_MORE           the sub-buffer that is being overwritten is not dropped
 *   COMMIT_FIRST       the position is stored before the record
 *   FENCE_ORDERS_NOTHING
 */
#include "rseq.h"

struct trace_model : rl::test_suite<trace_model, 2> {
	enum { SUB = 2, SIZE = 2 * SUB, RECORDS = 4, MOST = 16 };

	rl::atomic<int> data[SIZE], position, dead;
	int lives;

	void before()
	{
		kernel_start(2);
		for (int i = 0; i < SIZE; i++)
			data[i]($).store(0, relaxed);
		position($).store(0, relaxed);
		dead($).store(0, relaxed);
		lives = on("KILL") ? (int)rl::rand(3 * RECORDS) : 1000;
	}

	bool is_killed()
	{
		return lives-- <= 0;
	}

	void commit(int p)
	{
		position($).store(p, on("COMMIT_RELAXED") ? relaxed : release);
	}

	void write()
	{
		int p = 0;

		for (int i = 0; i < RECORDS; i++) {
			if (p % SUB == SUB - 1) {
				if (is_killed())
					return;
				data[p % SIZE]($).store(0, relaxed);
				p = (p / SUB + 1) * SUB;
				if (is_killed())
					return;
				if (!on("NO_SWITCH"))
					commit(p);
			}
			if (on("COMMIT_FIRST"))
				commit(p + 1);
			if (is_killed())
				return;
			data[p % SIZE]($).store(p + 1, relaxed);
			p++;
			if (is_killed())
				return;
			commit(p);
		}
	}

	/* The sub-buffer after that of p - SIZE. */
	static int oldest(int p)
	{
		int first = p < SIZE ? 0 : ((p - SIZE) / SUB + 1) * SUB;

		return on("ONE_MORE") && first ? first - SUB : first;
	}

	void read()
	{
		int end = position($).load(acquire), from = oldest(end), copy[MOST];

		for (int p = from; p < end; p++)
			copy[p] = data[p % SIZE]($).load(relaxed);
		if (!on("NO_FENCE"))
			fence();
		if (!on("NO_SECOND_LOAD"))
			from = std::max(from, oldest(position($).load(relaxed)));
		for (int p = from; p < end;) {
			if (p % SUB == SUB - 1) {
				RL_ASSERT(copy[p] == 0);
				p = (p / SUB + 1) * SUB;
				continue;
			}
			RL_ASSERT(copy[p] == p + 1);
			p++;
		}
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == 0) {
			write();
			dead($).store(1, release);
			return;
		}
		if (on("KILL"))
			while (!dead($).load(acquire))
				rl::yield(1, $);
		read();
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<trace_model>();
	return 0;
}
