/* SPDX-License-Identifier: MIT */
/* The figures of a run. */
#include "common/memory.h"
#include "sim/result.h"

const struct sim_row_name sim_rows[ROW_COUNT] = {
	[ROW_SINGLE] = {"single-threaded id", "single"},
	[ROW_TRANSFER] = {"transfer between threads", "transfer"},
	[ROW_HIT] = {"cache hit", "hit"},
	[ROW_EVICT] = {"cache eviction", "eviction"},
	[ROW_DISCARD] = {"cache discard", "discard"},
	[ROW_ALLOCATE] = {"allocation", "allocation"},
	[ROW_EXIT] = {"removal at exit", "removal_exit"},
	[ROW_MIGRATE] = {"removal on migration", "removal_migration"},
	[ROW_RELEASE] = {"release at a switch", "release"},
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
	r->copies[COPY_CPU] += mm->cpus_used.count;
	r->copies[COPY_THREAD] += mm->threads_most;
	r->copies[COPY_ID] += mm->ids_used.count;
	for (unsigned node = 0; node < SIM_NODES; node++)
		r->copies[COPY_NODE_ID] += mm->node_ids[node] ? mm->node_ids[node]->count : 0;
	if (mm->ids_most > r->ids_most)
		r->ids_most = mm->ids_most;
	if (id > r->id_highest)
		r->id_highest = id;
}

static void result_fill(const struct sim *s, struct sim_result *r)
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

void sim_result(const struct sim_params *params, struct sim_result *out)
{
	struct sim *s = allocate_zeros(1, sizeof(*s));

	*out = (struct sim_result){
		.policy = *params->policy, .load = params->load, .prefer = params->prefer};
	sim_begin(s, params);
	sim_run(s);
	result_fill(s, out);
	sim_end(s);
	free(s);
}
