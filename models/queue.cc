/* SPDX-License-Identifier: MIT */
/* near_queue (src/queue/queue.h) with C11's orderings: one ring, puts by sequences, gets by CAS,
 * getters and putters that sleep, close. queue.pml has several rings, deadlines, and when puts
 * fence.
 *
 * One thread puts PUTS elements, whose content is plain memory; the others get them. By default the
 * ring has room for all of them, and getters sleep. ROOM: it has room for one, and the putter
 * sleeps, while getters poll. CLOSE: one of the getters closes the queue instead, and nobody
 * sleeps. FENCED: puts fence already, and getters sleep without a membarrier.
 *
 * Checked: no race for the content, no element is lost or taken twice; after close nothing is put.
 * A thread that is never woken is a livelock.
 *
 * The broken variants:
 *   TAIL_RELAXED          the commit does not release
 *   LOAD_TAIL_RELAXED     a get loads the tail without acquire
 *   SEEN_RELAXED          a get believes what another one has loaded, without release and acquire
 *   HEAD_RELAXED          the CAS of a get does not release
 *   PUTTERS_RELAXED       nothing about the putter's flag is sequentially consistent
 *   NO_FENCE              a getter sets GETTERS, and scans without a membarrier
 *   FENCE_FIRST           the membarrier comes before GETTERS is set
 *   FENCED_UNFENCED       FENCED: a put does not fence
 *   FENCED_BLIND          FENCED: a getter does not fence
 *   CLOSE_UNFENCED        CLOSED is set without a membarrier
 *   FENCE_ABORTS_NOBODY   the membarrier only orders memory
 *   FENCE_ORDERS_NOTHING  it only aborts
 *   CLOSED_RELAXED        a get loads CLOSED without acquire
 */
#include "rseq.h"

/* SLEEPERS: GETTERS of `state`, PUTTERS of `putters` */
enum { THREADS = 3, PUTS = 2, CELLS = 2, SLEEPERS = 1, CLOSED = 8 };
static const rl::memory_order seq_cst = rl::mo_seq_cst;

struct queue_model : rl::test_suite<queue_model, THREADS> {
	rl::atomic<int> open, state, tail, head, seen, putters;
	rl::atomic<int> cells[CELLS];
	rl::var<int> content[PUTS + 1];
	rl::mutex bucket;
	rl::var<int> queued[THREADS];
	rl::atomic<int> woken[THREADS], taken[PUTS + 1], all;
	int limit; /* of the one slot: its thread alone loads and stores it */

	int capacity() const
	{
		return on("ROOM") ? 1 : CELLS;
	}

	void before()
	{
		kernel_start(THREADS);
		open($).store(1, relaxed);
		state($).store(0, relaxed);
		tail($).store(0, relaxed);
		head($).store(0, relaxed);
		seen($).store(0, relaxed);
		putters($).store(0, relaxed);
		all($).store(0, relaxed);
		limit = 0;
		for (int i = 0; i < CELLS; i++)
			cells[i]($).store(0, relaxed);
		for (int i = 0; i <= PUTS; i++) {
			content[i]($) = 0;
			taken[i]($).store(0, relaxed);
		}
		for (int i = 0; i < THREADS; i++) {
			queued[i]($) = 0;
			woken[i]($).store(0, relaxed);
		}
	}

	/* ---- the parking lot: the putter waits for room, all others for elements ---- */

	void wake(bool putter)
	{
		int first = putter ? 0 : 1, end = putter ? 1 : THREADS, found = -1, left = 0;

		bucket.lock($);
		for (int i = first; i < end; i++)
			if (queued[i]($) && found < 0)
				found = i;
			else
				left |= queued[i]($);
		if (found >= 0)
			queued[found]($) = 0;
		if (!left && putter)
			putters($).store(0, relaxed);
		else if (!left)
			state($).fetch_and(~SLEEPERS, relaxed);
		bucket.unlock($);
		if (found >= 0)
			woken[found]($).store(1, release);
	}

	void leave()
	{
		unsigned self = rl::thread_index();

		bucket.lock($);
		queued[self]($) = 0;
		bucket.unlock($);
	}

	void enter(rl::atomic<int> &flag, rl::memory_order order)
	{
		unsigned self = rl::thread_index();

		bucket.lock($);
		queued[self]($) = 1;
		woken[self]($).store(0, relaxed);
		flag($).fetch_or(SLEEPERS, order);
		bucket.unlock($);
	}

	/* ---- put ---- */

	enum outcome { FAILED, COMMITTED, FULL };

	outcome append(int element)
	{
		unsigned began = fences_here();
		int at;

		STEP(if (open($).load(relaxed) != 1) goto failed);
		STEP(at = tail($).load(relaxed));
		if (at >= limit)
			return FULL;
		STEP(cells[at % CELLS]($).store(element, relaxed));
		STEP(tail($).store(at + 1, on("TAIL_RELAXED") ? relaxed : release));
		return COMMITTED;
failed:
		return FAILED;
	}

	bool is_full()
	{
		return tail($).load(seq_cst) -
			       head($).load(on("PUTTERS_RELAXED") ? relaxed : seq_cst) >=
		       capacity();
	}

	void wait_for_room()
	{
		enter(putters, on("PUTTERS_RELAXED") ? relaxed : seq_cst);
		if (is_full())
			while (!woken[0]($).load(acquire))
				rl::yield(1, $);
		else
			leave();
	}

	bool put(int element)
	{
		outcome done;

		while ((done = append(element)) != COMMITTED) {
			if (!open($).load(seq_cst))
				return false;
			if (done == FAILED)
				continue;
			limit = head($).load(acquire) + capacity();
			if (limit <= tail($).load(relaxed))
				wait_for_room();
		}
		if (on("FENCED") && !on("FENCED_UNFENCED"))
			rl::atomic_thread_fence(seq_cst, $);
		if (state($).load(relaxed) & SLEEPERS)
			wake(false);
		return true;
	}

	/* ---- get ---- */

	/* 0: empty */
	int take()
	{
		int at = head($).load(acquire), end, element;

		do {
			end = seen($).load(on("SEEN_RELAXED") ? relaxed : acquire);
			if (end <= at) {
				end = tail($).load(on("LOAD_TAIL_RELAXED") ? relaxed : acquire);
				if (end <= at)
					return 0;
				seen($).store(end, on("SEEN_RELAXED") ? relaxed : release);
			}
			element = cells[at % CELLS]($).load(relaxed);
		} while (!head($).compare_exchange_strong(
			at, at + 1, on("HEAD_RELAXED") ? relaxed : seq_cst, acquire));
		if (putters($).load(on("PUTTERS_RELAXED") ? relaxed : seq_cst))
			wake(true);
		return element;
	}

	void own(int element)
	{
		RL_ASSERT(content[element]($) == element);
		RL_ASSERT(taken[element]($).fetch_add(1, relaxed) == 0);
	}

	bool is_empty()
	{
		return head($).load(acquire) == tail($).load(acquire);
	}

	/* Ends when all elements are taken. */
	void sleep()
	{
		if (on("FENCE_FIRST"))
			fence();
		enter(state, seq_cst);
		if (on("FENCED") && !on("FENCED_BLIND"))
			rl::atomic_thread_fence(seq_cst, $);
		else if (!on("FENCED") && !on("NO_FENCE") && !on("FENCE_FIRST"))
			fence();
		if (is_empty())
			while (!woken[rl::thread_index()]($).load(acquire) &&
			       all($).load(relaxed) < PUTS)
				rl::yield(1, $);
		leave();
	}

	void get_all()
	{
		while (all($).load(relaxed) < PUTS) {
			int element = take();

			if (element) {
				own(element);
				all($).fetch_add(1, relaxed);
			} else if (on("ROOM")) {
				rl::yield(1, $);
			} else {
				sleep();
			}
		}
	}

	/* ---- close ---- */

	void close()
	{
		open($).store(0, seq_cst);
		if (!on("CLOSE_UNFENCED"))
			fence();
		state($).fetch_or(CLOSED, release);
	}

	void get_until_closed()
	{
		for (;;) {
			bool closed = state($).load(on("CLOSED_RELAXED") ? relaxed : acquire) &
				      CLOSED;
			int element = take();

			if (element)
				own(element);
			else if (closed)
				return;
			else
				rl::yield(1, $);
		}
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == 0) {
			for (int e = 1; e <= PUTS; e++) {
				content[e]($) = e;
				if (!put(e))
					break;
			}
		} else if (!on("CLOSE")) {
			get_all();
		} else if (index == 1) {
			close();
		} else {
			get_until_closed();
		}
	}

	void after()
	{
		RL_ASSERT(head($).load(relaxed) == tail($).load(relaxed));
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<queue_model>();
	return 0;
}
