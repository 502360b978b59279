/* SPDX-License-Identifier: MIT */
/* Orders to a process without a thread (src/trace/orders.c, nearcpu trace enable), with C11's
 * orderings.
 *
 * A command leaves an order: it writes the text, stores `request`, a release, and after a fence
 * stores 0 to `end` of the ring. Then it has a second one: if the process has not claimed the
 * first, it takes that back and leaves both. The process has two events. The first one enters a
 * sub-buffer, so that it stores `end` in any case; the second one does so where `end` is 0. Each of
 * them then, after a fence, loads `request`; it copies the text, claims the order and carries it
 * out.
 *
 * Checked: an order is carried out once, and its text is whole; one that is not has left `end` at
 * 0, where the next event finds it.
 *
 * The broken variants:
 *   NO_FENCE          the event does not fence
 *   COMMAND_NO_FENCE  the command does not
 *   END_FIRST         the command stores `end` before `request`
 *   CLAIM_FIRST       the process claims the order before it copies the text
 *   NO_TAKE_BACK      the command takes nothing back
 */
#include "rseq.h"

enum { FIRST = 1, SECOND = 2, NEXT = 64 };

struct order_model : rl::test_suite<order_model, 2> {
	rl::atomic<int> text[2], request, done, claimed, end;
	int obeyed;

	void before()
	{
		kernel_start(2);
		for (auto &word : text)
			word($).store(0, relaxed);
		request($).store(0, relaxed);
		done($).store(0, relaxed);
		claimed($).store(0, relaxed);
		end($).store(NEXT, relaxed);
		obeyed = 0;
	}

	bool claim(int n)
	{
		return claimed($).exchange(n, acq_rel) != n;
	}

	/* ---- the command ---- */

	void leave(int orders, int n)
	{
		for (auto &word : text)
			word($).store(orders, relaxed);
		if (on("END_FIRST"))
			end($).store(0, relaxed);
		request($).store(n, release);
		if (!on("COMMAND_NO_FENCE"))
			rl::atomic_thread_fence(rl::mo_seq_cst, $);
		if (!on("END_FIRST"))
			end($).store(0, relaxed);
	}

	void command()
	{
		int orders = SECOND;

		leave(FIRST, 1);
		if (!on("NO_TAKE_BACK") && done($).load(acquire) != 1 && claim(1))
			orders |= FIRST;
		leave(orders, 2);
	}

	/* ---- the process ---- */

	void obey(int n)
	{
		bool is_mine = on("CLAIM_FIRST") && claim(n);
		int first = text[0]($).load(relaxed), second = text[1]($).load(relaxed);

		if (is_mine || (!on("CLAIM_FIRST") && claim(n))) {
			RL_ASSERT(first == second);
			RL_ASSERT(!(obeyed & first));
			obeyed |= first;
		}
		done($).store(n, release);
	}

	void event(bool enters)
	{
		int n;

		if (!enters && end($).load(relaxed))
			return;
		end($).store(NEXT, relaxed);
		if (!on("NO_FENCE"))
			rl::atomic_thread_fence(rl::mo_seq_cst, $);
		n = request($).load(acquire);
		if (n != done($).load(relaxed))
			obey(n);
	}

	void thread(unsigned index)
	{
		thread_start();
		if (index == 0) {
			command();
			return;
		}
		event(true);
		event(false);
	}

	void after()
	{
		if (done($).load(relaxed) == 2)
			RL_ASSERT(obeyed == (FIRST | SECOND));
		else
			RL_ASSERT(end($).load(relaxed) == 0);
	}
};

int main(int, char **argv)
{
	arguments = argv;
	run<order_model>();
	return 0;
}
