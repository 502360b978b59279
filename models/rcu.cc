/* SPDX-License-Identifier: MIT */
/* near_rcu (src/rcu/rcu.h) with C11's orderings: two grace periods, readers in two sections
 * each, a driver that sleeps; and callbacks. rcu.pml has more threads, signal handlers and fork.
 *
 * The updater publishes a version, waits for a grace period, and writes to the one before, which is
 * plain memory, as is what a version contains. By default the readers use sequences; with PORTABLE
 * no thread has rseq, and near__fence does nothing. CALLS: a thread calls twice; the worker runs
 * the callbacks and sleeps.
 *
 * Checked: no race for a version, or for what is called; not more sections end than begin; each
 * callback runs once. A thread that is never woken is a livelock.
 *
 * The broken variants:
 *   NO_FIRST_FENCE        nothing is between publication and flip
 *   NO_SECOND_FENCE       sections are added up directly after the flip
 *   PHASE_OUTSIDE         the phase is loaded before the sequence
 *   OUT_RELAXED           counting out does not release
 *   SUM_RELAXED           the sum of sections that ended does not acquire
 *   SLEEP_UNFENCED        the driver announces that it sleeps without a fence
 *   FENCE_ABORTS_NOBODY   the fence only orders memory
 *   FENCE_ORDERS_NOTHING  it only aborts
 *   ONE_CHECK             PORTABLE: a reader does not load the phase again
 *   IN_RELAXED            PORTABLE: nothing about counting in is sequentially consistent
 *   WAKE_RELAXED          PORTABLE: nor the load of the announcement
 *   TAKE_UNFENCED         CALLS: a list is taken without the grace period's fence
 *   BATCH_OUTSIDE         CALLS: the batch is loaded before the sequence
 *   WORKER_UNFENCED       CALLS: the worker announces that it sleeps without a fence
 */
#include "rseq.h"

enum { THREADS = 3, READERS = 2, SECTIONS = 2, VERSIONS = 3, SPINS = 4, NODES = 2 };
static const rl::memory_order seq_cst = rl::mo_seq_cst;

struct rcu_model : rl::test_suite<rcu_model, THREADS> {
	rl::atomic<int> phase, pointer, sleeps;
	rl::atomic<int> in[2 * READERS], out[2 * READERS]; /* 2 * slot + phase */
	rl::atomic<int> all_in[2], all_out[2];             /* of a fallback slot */
	rl::var<int> version[VERSIONS];
	/* Callbacks. */
	rl::atomic<int> batch, list[2], call_wakes, woken;
	rl::var<int> next[NODES + 1], payload[NODES + 1];
	int ran;

	void before()
	{
		kernel_start(THREADS);
		phase($).store(0, relaxed);
		pointer($).store(0, relaxed);
		sleeps($).store(0, relaxed);
		batch($).store(0, relaxed);
		call_wakes($).store(0, relaxed);
		woken($).store(0, relaxed);
		for (int i = 0; i < 2 * READERS; i++) {
			in[i]($).store(0, relaxed);
			out[i]($).store(0, relaxed);
		}
		for (int i = 0; i < 2; i++) {
			all_in[i]($).store(0, relaxed);
			all_out[i]($).store(0, relaxed);
			list[i]($).store(0, relaxed);
		}
		for (int i = 0; i < VERSIONS; i++)
			version[i]($) = 0;
		for (int i = 0; i <= NODES; i++) {
			next[i]($) = 0;
			payload[i]($) = 0;
		}
		ran = 0;
	}

	/* ---- readers ---- */

	bool try_enter(int slot, int &at)
	{
		unsigned began;
		int was;

		if (on("PHASE_OUTSIDE")) {
			at = phase($).load(relaxed);
			rl::ctx().sched();
		}
		began = fences_here();
		if (!on("PHASE_OUTSIDE"))
			STEP(at = phase($).load(relaxed));
		STEP(was = in[2 * slot + at]($).load(relaxed));
		STEP(in[2 * slot + at]($).store(was + 1, relaxed));
		return true;
failed:
		return false;
	}

	bool try_exit(int slot, int at)
	{
		unsigned began = fences_here();
		int was;

		STEP(was = out[2 * slot + at]($).load(relaxed));
		STEP(out[2 * slot + at]($).store(was + 1, on("OUT_RELAXED") ? relaxed : release));
		return true;
failed:
		return false;
	}

	int enter_portable()
	{
		rl::memory_order order = on("IN_RELAXED") ? relaxed : seq_cst;

		for (;;) {
			int at = phase($).load(order);

			all_in[at]($).fetch_add(1, order);
			if (on("ONE_CHECK") || phase($).load(order) == at)
				return at;
			all_in[at]($).fetch_sub(1, order);
			wake();
		}
	}

	void wake()
	{
		rl::memory_order order = on("PORTABLE") && !on("WAKE_RELAXED") ? seq_cst : relaxed;

		if (sleeps($).load(order))
			sleeps($).exchange(0, seq_cst);
	}

	void read(int slot)
	{
		int at = 0, found;

		if (on("PORTABLE"))
			at = enter_portable();
		else
			while (!try_enter(slot, at))
				;
		found = pointer($).load(acquire);
		rl::ctx().sched(); /* plain memory alone does not let other threads run */
		(void)(int)version[found]($);
		if (on("PORTABLE"))
			all_out[at]($).fetch_add(1, on("OUT_RELAXED")    ? relaxed
						    : on("WAKE_RELAXED") ? release
									 : seq_cst);
		else
			while (!try_exit(slot, at))
				;
		wake();
	}

	/* ---- grace periods ---- */

	void full_fence()
	{
		if (!on("PORTABLE"))
			fence();
		rl::atomic_thread_fence(seq_cst, $);
	}

	bool is_drained(int old, int begun)
	{
		/* relacy knows no order between a fence and what is sequentially consistent. */
		rl::memory_order order = on("SUM_RELAXED") ? relaxed
					 : on("PORTABLE")  ? seq_cst
							   : acquire;
		int ended = 0;

		for (int s = 0; s < READERS; s++)
			ended += out[2 * s + old]($).load(order);
		begun += all_in[old]($).load(seq_cst);
		ended += all_out[old]($).load(order);
		RL_ASSERT(ended <= begun);
		return begun == ended;
	}

	void synchronize()
	{
		int old = phase($).load(relaxed), begun = 0;

		if (!on("NO_FIRST_FENCE"))
			full_fence();
		phase($).store(1 - old, seq_cst);
		if (!on("NO_SECOND_FENCE"))
			full_fence();
		for (int s = 0; s < READERS; s++)
			begun += in[2 * s + old]($).load(relaxed);
		for (int i = 0; i < SPINS; i++)
			if (is_drained(old, begun))
				return;
		for (;;) {
			sleeps($).store(1, seq_cst);
			if (!on("SLEEP_UNFENCED"))
				full_fence();
			if (is_drained(old, begun))
				break;
			while (sleeps($).load(relaxed))
				rl::yield(1, $);
		}
		sleeps($).store(0, relaxed);
	}

	void update()
	{
		for (int i = 1; i < VERSIONS; i++) {
			version[i]($) = i;
			pointer($).store(i, release);
			synchronize();
			version[i - 1]($) = -1;
		}
	}

	/* ---- callbacks ---- */

	bool try_push(int node)
	{
		unsigned began;
		int b = 0, first;

		if (on("BATCH_OUTSIDE")) {
			b = batch($).load(relaxed);
			rl::ctx().sched();
		}
		began = fences_here();
		if (!on("BATCH_OUTSIDE"))
			STEP(b = batch($).load(relaxed));
		STEP(first = list[b]($).load(relaxed));
		STEP(next[node]($) = first);
		STEP(list[b]($).store(node, relaxed));
		return true;
failed:
		return false;
	}

	void call(int node)
	{
		payload[node]($) = node;
		while (!try_push(node))
			;
		if (call_wakes($).load(relaxed))
			woken($).store(1, seq_cst);
	}

	void run_batch()
	{
		int old = batch($).load(relaxed), node;

		batch($).store(1 - old, seq_cst);
		if (!on("TAKE_UNFENCED"))
			synchronize();
		node = list[old]($).load(relaxed);
		list[old]($).store(0, relaxed);
		for (; node; node = next[node]($), ran++)
			RL_ASSERT(payload[node]($) == node);
	}

	bool has_calls()
	{
		return list[0]($).load(relaxed) || list[1]($).load(relaxed);
	}

	void work()
	{
		while (ran < NODES) {
			woken($).store(0, relaxed);
			call_wakes($).store(1, seq_cst);
			if (!on("WORKER_UNFENCED"))
				full_fence();
			if (!has_calls())
				while (!woken($).load(acquire))
					rl::yield(1, $);
			call_wakes($).store(0, seq_cst);
			run_batch();
		}
	}

	void thread(unsigned index)
	{
		thread_start();
		if (on("CALLS")) {
			if (index == 0)
				work();
			for (int node = 1; index == 1 && node <= NODES; node++)
				call(node);
		} else if (index == 0) {
			update();
		} else {
			for (int i = 0; i < SECTIONS; i++)
				read((int)index - 1);
		}
	}

	void after()
	{
		RL_ASSERT(!on("CALLS") || ran == NODES);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<rcu_model>();
	return 0;
}
