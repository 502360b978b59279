/* SPDX-License-Identifier: MIT */
/* A ring is opened, and its first sub-buffer becomes ready (src/trace/grow.c), with C11's
 * orderings.
 *
 * A thread makes the ring's begin ready and publishes the ring: it allocates the blocks of the
 * begin and touches their page by a compare-exchange of 0 to 0. It stores a record there, whose
 * word is the one that is touched, and commits it by the position, a release. For the next record,
 * after the begin, it makes the whole sub-buffer ready: it allocates all blocks, touches all pages,
 * and raises `ready`, a release. The session's thread does so at any time, also before the ring is
 * opened; whichever loads that it is ready, an acquire, does nothing. A reader loads the ring's
 * word and the position, then the records.
 *
 * Checked: a record is stored after its blocks were allocated, the reader finds it, whenever the
 * other thread touches the page, and a published ring has the blocks of its begin.
 *
 * The broken variants:
 *   PLAIN_TOUCH    the page is touched by a store of the 0 that was loaded
 *   READY_FIRST    `ready` is raised before the blocks are allocated
 *   READY_RELAXED  `ready` is no release
 *   COMMIT_RELAXED the position is no release
 *   RING_RELAXED   the ring's word is no release
 *   ONLY_BEGIN     the record after the begin does not wait for the whole sub-buffer
 */
#include "rseq.h"

struct grow_model : rl::test_suite<grow_model, 3> {
	enum { BEGIN, REST, PARTS };
	rl::atomic<int> data[PARTS], allocated[PARTS], ready, ring, position;

	void before()
	{
		kernel_start(3);
		for (int part = BEGIN; part < PARTS; part++) {
			data[part]($).store(0, relaxed);
			allocated[part]($).store(0, relaxed);
		}
		ready($).store(0, relaxed);
		ring($).store(0, relaxed);
		position($).store(0, relaxed);
	}

	void touch(int part)
	{
		int zero = 0;

		if (!on("PLAIN_TOUCH"))
			data[part]($).compare_exchange_strong(zero, 0, relaxed, relaxed);
		else if (data[part]($).load(relaxed) == 0)
			data[part]($).store(0, relaxed);
	}

	void provide_part(int part)
	{
		allocated[part]($).store(1, relaxed);
		touch(part);
	}

	void raise()
	{
		int none = 0;

		ready($).compare_exchange_strong(none, 1, on("READY_RELAXED") ? relaxed : release,
						 relaxed);
	}

	void make_ready()
	{
		if (ready($).load(acquire))
			return;
		if (on("READY_FIRST"))
			raise();
		provide_part(BEGIN);
		provide_part(REST);
		raise();
	}

	void open()
	{
		if (!ready($).load(acquire))
			provide_part(BEGIN);
		ring($).store(1, on("RING_RELAXED") ? relaxed : release);
	}

	void write(int part)
	{
		RL_ASSERT(allocated[part]($).load(relaxed) == 1);
		data[part]($).store(7, relaxed);
		position($).store(part + 1, on("COMMIT_RELAXED") ? relaxed : release);
	}

	void read()
	{
		if (ring($).load(acquire))
			RL_ASSERT(allocated[BEGIN]($).load(relaxed) == 1);
		for (int part = position($).load(acquire); part > BEGIN; part--)
			RL_ASSERT(data[part - 1]($).load(relaxed) == 7);
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == 0) {
			open();
			write(BEGIN);
			if (!on("ONLY_BEGIN"))
				make_ready();
			write(REST);
		} else if (index == 1) {
			make_ready();
		} else {
			read();
		}
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<grow_model>();
	return 0;
}
