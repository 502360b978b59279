/* SPDX-License-Identifier: MIT */
/* The figures of a run. */
#include "sim/result.h"

#include <errno.h>
#include <stdlib.h>

const char *const sim_row_names[ROW_COUNT] = {
	"single-threaded id",  "transfer between threads",
	"cache hit",           "cache eviction",
	"cache discard",       "allocation",
	"removal at exit",     "removal on migration",
	"release at a switch",
};

const char *const sim_row_keys[ROW_COUNT] = {
	"single",       "transfer",          "hit",     "eviction", "discard", "allocation",
	"removal_exit", "removal_migration", "release",
};

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static unsigned highest(const struct bits *b, unsigned limit)
{
	unsigned last = 0;

	for (unsigned i = bits_next(b, 0, limit); i < limit; i = bits_next(b, i + 1, limit))
		last = i;
	return last;
}

static void count_process(const struct sim *s, const struct sim_mm *mm, struct sim_result *r)
{
	unsigned id = highest(&mm->ids_used, s->cpu_count);

	r->processes++;
	r->ids_mean += (double)mm->ids_time;
	r->by_cpu += mm->cpus_used.count;
	r->by_thread += mm->threads_most;
	r->by_id += mm->ids_used.count;
	for (unsigned node = 0; node < SIM_NODES; node++)
		r->by_node_id += mm->node_ids[node] ? mm->node_ids[node]->count : 0;
	if (mm->ids_most > r->ids_most)
		r->ids_most = mm->ids_most;
	if (id > r->id_highest)
		r->id_highest = id;
}

static void fill(const struct sim *s, struct sim_result *r)
{
	const struct sim_counts *c = &s->counts;
	uint64_t sum = 0;

	r->counts = *c;
	for (unsigned i = 0; i < ROW_COUNT; i++)
		sum += c->rows[i];
	for (unsigned i = 0; i < ROW_COUNT; i++)
		r->row[i] = 100 * ratio((double)c->rows[i], (double)sum);
	for (unsigned i = 0; i < s->mm_count; i++)
		if (s->mms[i]->counted)
			count_process(s, s->mms[i], r);
	r->ids_mean = ratio(r->ids_mean, (double)s->now * r->processes);
	r->atomics = ratio((double)c->atomics, (double)c->switches);
	r->kept = 100 * ratio((double)c->kept, (double)c->returns);
	r->node_changes = 100 * ratio((double)c->node_changes, (double)c->uses);
	r->ms = (double)s->now / 1e6;
	r->wait_us = ratio((double)c->wait_ns / 1e3, (double)c->waits);
	r->work = ratio((double)c->work, r->ms);
}

int sim_result(const struct sim_params *params, struct sim_result *out)
{
	struct sim *s = malloc(sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*out = (struct sim_result){
		.policy = *params->policy, .load = params->load, .prefer = params->prefer};
	if (!sim_begin(s, params))
		s->error = -ENOMEM;
	else
		sim_run(s);
	err = s->error;
	if (!err)
		fill(s, out);
	sim_end(s);
	free(s);
	return err;
}
