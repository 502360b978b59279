/* SPDX-License-Identifier: MIT */
/* The open question of the talk: should a migration prefer nodes that have ids already? */
#include "common/text.h"
#include "sim/result.h"

#include <math.h>

/* A change by the preference in %, and the standard error of its mean over the seeds. */
struct change {
	double mean, error;
};

/* With one seed: the mean over loads and policies. What is 0 without the preference does not
 * count. */
static double change_of_run(const struct sim_report *r, unsigned run, enum sim_figure figure)
{
	double sum = 0;
	unsigned count = 0;

	for (unsigned load = 0; load < r->load_count; load++)
		for (unsigned i = 0; i < r->policy_count; i++) {
			const struct sim_answer *a = &r->answers[load][i];
			double without = a->sides[run][0].figure[figure];

			if (!a->runs || without <= 0)
				continue;
			sum += 100 * (a->sides[run][1].figure[figure] / without - 1);
			count++;
		}
	return count ? sum / count : 0;
}

static struct change change(const struct sim_report *r, enum sim_figure figure)
{
	double sum = 0, squares = 0, n = r->runs;

	for (unsigned run = 0; run < r->runs; run++) {
		double value = change_of_run(r, run, figure);

		sum += value;
		squares += value * value;
	}
	squares -= sum * sum / n;
	return (struct change){sum / n, squares > 0 ? sqrt(squares / (n * (n - 1))) : 0};
}

/* More than `least` % in the direction of `sign`, and not by chance. */
static bool is_beyond(struct change c, double sign, double least)
{
	return c.mean * sign > least && c.mean * sign > 2 * c.error;
}

struct sim_side sim_side_mean(const struct sim_answer *a, unsigned with)
{
	struct sim_side sum = {0};

	for (unsigned run = 0; run < a->runs; run++)
		for (unsigned i = 0; i < SIDE_FIGURES; i++)
			sum.figure[i] += a->sides[run][with].figure[i] / a->runs;
	return sum;
}

static const char *question_answer(bool saves, bool costs)
{
	if (saves && costs)
		return "no. What it saves costs time: tasks wait while a CPU of a node without "
		       "ids of their process is idle.";
	if (costs)
		return "no. It saves nothing here, and tasks wait while a CPU of a node without "
		       "ids of their process is idle.";
	if (saves)
		return "yes, for this machine and these loads: it saves memory or remote data, "
		       "and costs no time.";
	return "it makes no difference for this machine and these loads.";
}

void sim_conclude(const struct sim_report *r, char *out, size_t size)
{
	struct text text = {out, size};
	struct change memory = change(r, SIDE_NODE_ID), moved = change(r, SIDE_NODE_CHANGES),
		      wait = change(r, SIDE_WAIT), done = change(r, SIDE_WORK);

	out[0] = 0;
	say(&text,
	    "By the preference, in %% and with twice the standard error: (node, cid) copies "
	    "%+.1f (%.1f), changes of node %+.1f (%.1f), time in the queue %+.1f (%.1f), "
	    "work %+.1f (%.1f). ",
	    memory.mean, 2 * memory.error, moved.mean, 2 * moved.error, wait.mean, 2 * wait.error,
	    done.mean, 2 * done.error);
	say(&text, "Answer: %s",
	    question_answer(is_beyond(memory, -1, 2) || is_beyond(moved, -1, 5),
			    is_beyond(done, -1, 1) || is_beyond(wait, 1, 10)));
}
