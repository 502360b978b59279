/* SPDX-License-Identifier: MIT */
/* A sub-buffer of a ring becomes ready (src/trace/grow.c), with C11's orderings.
 *
 * Two threads find that it is not ready. Each allocates its blocks, touches its page by a
 * compare-exchange of 0 to 0, and raises `ready`, a release; then it goes on. The first one stores
 * a record, whose word is the one that is touched, and commits it by the position, a release. A
 * reader loads the position, then the record.
 *
 * Checked: the record is stored after the blocks were allocated, and the reader finds it, whenever
 * the other thread touches the page.
 *
 * The broken variants:
 *   PLAIN_TOUCH    the page is touched by a store of the 0 that was loaded
 *   READY_FIRST    `ready` is raised before the blocks are allocated
 *   READY_RELAXED  `ready` is no release
 *   COMMIT_RELAXED the position is no release
 */
#include "rseq.h"

struct grow_model : rl::test_suite<grow_model, 3> {
	rl::atomic<int> data, ready, allocated, position;

	void before()
	{
		kernel_start(3);
		data($).store(0, relaxed);
		ready($).store(0, relaxed);
		allocated($).store(0, relaxed);
		position($).store(0, relaxed);
	}

	void touch()
	{
		int zero = 0;

		if (!on("PLAIN_TOUCH"))
			data($).compare_exchange_strong(zero, 0, relaxed, relaxed);
		else if (data($).load(relaxed) == 0)
			data($).store(0, relaxed);
	}

	void raise()
	{
		int none = 0;

		ready($).compare_exchange_strong(none, 1, on("READY_RELAXED") ? relaxed : release,
						 relaxed);
	}

	void provide()
	{
		if (ready($).load(acquire))
			return;
		if (on("READY_FIRST"))
			raise();
		allocated($).store(1, relaxed);
		touch();
		raise();
	}

	void write()
	{
		RL_ASSERT(allocated($).load(relaxed) == 1);
		data($).store(7, relaxed);
		position($).store(1, on("COMMIT_RELAXED") ? relaxed : release);
	}

	void read()
	{
		if (position($).load(acquire))
			RL_ASSERT(data($).load(relaxed) == 7);
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == 2) {
			read();
			return;
		}
		provide();
		if (index == 0)
			write();
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<grow_model>();
	return 0;
}
