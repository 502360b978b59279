/* SPDX-License-Identifier: MIT */
/* Close, fence, change, fence, open (src/percpu/gate.h) with C11's orderings, on a near_stack of
 * one slot: its thread pops and pushes by sequences while others take its list.
 *
 * Checked: each node has one owner at a time, none is lost, and no thread accesses a node that
 * another one owns (relacy finds races on the links, which are plain memory).
 *
 * TWO_CLOSERS has two threads take the list. OPEN_RELAXED opens without release, and is correct:
 * the second fence orders the change before all later accesses of each thread. The broken variants:
 *   NO_FIRST_FENCE        the change follows the close without a fence
 *   FENCE_FIRST           the first fence comes before the close
 *   ONE_FENCE             the gate opens, with release, directly after the change
 *   OPEN_EARLY            the gate opens before the second fence
 *   FENCE_ABORTS_NOBODY   the fence only orders memory, as membarrier without RSEQ
 *   FENCE_ORDERS_NOTHING  the fence only aborts
 *   NO_CHECK              a pop does not check the gate
 *   CHECK_OUTSIDE         a pop checks the gate before its sequence begins
 */
#include "rseq.h"

enum { UNOPENED, OPEN, CLOSED };
enum { NODES = 2, TRIES = 2 };

template <int closers> struct gate_model : rl::test_suite<gate_model<closers>, 1 + closers> {
	rl::atomic<int> gate, head, spare; /* spare: the fallback list */
	rl::var<int> next[NODES + 1];
	rl::mutex lock;
	bool owned[NODES + 1];

	void before()
	{
		kernel_start(1 + closers);
		gate($).store(OPEN, relaxed);
		head($).store(1, relaxed);
		spare($).store(0, relaxed);
		for (int node = 1; node <= NODES; node++) {
			next[node]($) = node < NODES ? node + 1 : 0;
			owned[node] = false;
		}
	}

	/* The thread that has taken a node may write to it. */
	void own(int node)
	{
		RL_ASSERT(!owned[node]);
		owned[node] = true;
		next[node]($) = 0;
	}

	void own_list(int list)
	{
		for (int node = list, after; node; node = after) {
			after = next[node]($);
			own(node);
		}
	}

	/* near__stack_try_pop */
	bool try_pop(int &node)
	{
		int state = on("CHECK_OUTSIDE") ? gate($).load(acquire) : CLOSED;
		unsigned began;
		int after;

		if (on("CHECK_OUTSIDE"))
			rl::ctx().sched();
		began = fences_here();
		if (!on("CHECK_OUTSIDE"))
			STEP(state = gate($).load(relaxed));
		if (state != OPEN && !on("NO_CHECK"))
			goto failed;
		STEP(node = head($).load(relaxed));
		if (!node)
			return true;
		STEP(after = next[node]($));
		STEP(head($).store(after, relaxed));
		return true;
failed:
		node = 0;
		return false;
	}

	/* near__stack_try_push */
	bool try_push(int node)
	{
		unsigned began = fences_here();
		int state, first;

		STEP(state = gate($).load(relaxed));
		if (state != OPEN)
			goto failed;
		STEP(first = head($).load(relaxed));
		STEP(next[node]($) = first);
		STEP(head($).store(node, relaxed));
		return true;
failed:
		return false;
	}

	void push(int node)
	{
		int first = 0;

		owned[node] = false;
		for (int i = 0; i < TRIES; i++)
			if (try_push(node))
				return;
		first = spare($).load(relaxed);
		do
			next[node]($) = first;
		while (!spare($).compare_exchange_strong(first, node, release, relaxed));
	}

	int pop()
	{
		int node = 0;

		for (int i = 0; i < TRIES; i++)
			if (try_pop(node))
				break;
		if (node)
			own(node);
		return node;
	}

	/* take_batch */
	int take()
	{
		int was = OPEN, list = 0;

		lock.lock($);
		if (on("FENCE_FIRST"))
			fence();
		if (gate($).compare_exchange_strong(was, CLOSED, acquire, relaxed)) {
			if (!on("NO_FIRST_FENCE") && !on("FENCE_FIRST"))
				fence();
			list = head($).load(relaxed);
			head($).store(0, relaxed);
			if (on("OPEN_EARLY"))
				gate($).store(OPEN, release);
			if (!on("ONE_FENCE"))
				fence();
			if (!on("OPEN_EARLY"))
				gate($).store(OPEN, on("OPEN_RELAXED") ? relaxed : release);
		}
		lock.unlock($);
		return list;
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index > 0) {
			own_list(take());
		} else {
			int node = pop();

			if (node)
				push(node);
			pop();
		}
	}

	void after()
	{
		own_list(head($).load(relaxed));
		own_list(spare($).load(relaxed));
		for (int node = 1; node <= NODES; node++)
			RL_ASSERT(owned[node]);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	if (on("TWO_CLOSERS"))
		run<gate_model<2>>();
	else
		run<gate_model<1>>();
	return 0;
}
