/* SPDX-License-Identifier: MIT */
/* The open question of the talk: should a migration prefer nodes that have ids already? */
#include "common/text.h"
#include "sim/result.h"

#include <math.h>

/* A change by the preference in %, and the standard error of its mean over the seeds. */
struct change {
	double mean, error;
};

typedef double get_figure(const struct sim_side *side);

/* With one seed: the mean over loads and policies. What is 0 without the preference does not
 * count. */
static double change_of_run(const struct sim_report *r, unsigned run, get_figure *get)
{
	double sum = 0;
	unsigned count = 0;

	for (unsigned load = 0; load < r->load_count; load++)
		for (unsigned i = 0; i < r->policy_count; i++) {
			const struct sim_answer *a = &r->answers[load][i];
			const struct sim_side *sides = a->sides[run];

			if (!a->runs || get(&sides[0]) <= 0)
				continue;
			sum += 100 * (get(&sides[1]) / get(&sides[0]) - 1);
			count++;
		}
	return count ? sum / count : 0;
}

static struct change change(const struct sim_report *r, get_figure *get)
{
	double sum = 0, squares = 0, n = r->runs;

	for (unsigned run = 0; run < r->runs; run++) {
		double value = change_of_run(r, run, get);

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

static double copies(const struct sim_side *side)
{
	return side->by_node_id;
}

static double node_changes(const struct sim_side *side)
{
	return side->node_changes;
}

static double waits(const struct sim_side *side)
{
	return side->wait_us;
}

static double work(const struct sim_side *side)
{
	return side->work;
}

struct sim_side sim_side_mean(const struct sim_answer *a, unsigned with)
{
	struct sim_side sum = {0};

	for (unsigned run = 0; run < a->runs; run++) {
		const struct sim_side *side = &a->sides[run][with];

		sum.by_node_id += side->by_node_id / a->runs;
		sum.by_id += side->by_id / a->runs;
		sum.node_changes += side->node_changes / a->runs;
		sum.node_migrations += side->node_migrations / a->runs;
		sum.wait_us += side->wait_us / a->runs;
		sum.work += side->work / a->runs;
	}
	return sum;
}

static const char *answer(bool saves, bool costs)
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
	struct change memory = change(r, copies), moved = change(r, node_changes),
		      wait = change(r, waits), done = change(r, work);

	out[0] = 0;
	say(&text,
	    "By the preference, in %% and with twice the standard error: (node, cid) copies "
	    "%+.1f (%.1f), changes of node %+.1f (%.1f), time in the queue %+.1f (%.1f), "
	    "work %+.1f (%.1f). ",
	    memory.mean, 2 * memory.error, moved.mean, 2 * moved.error, wait.mean, 2 * wait.error,
	    done.mean, 2 * done.error);
	say(&text, "Answer: %s",
	    answer(is_beyond(memory, -1, 2) || is_beyond(moved, -1, 5),
		   is_beyond(done, -1, 1) || is_beyond(wait, 1, 10)));
}
