/* SPDX-License-Identifier: MIT */
/* The figures of nearcpu sim as JSON. */
#include "sim/result.h"

#include <jansson.h>

static json_t *set_json(const struct bits *b, unsigned limit)
{
	json_t *list = json_array();

	for (unsigned i = bits_next(b, 0, limit); i < limit; i = bits_next(b, i + 1, limit))
		json_array_append_new(list, json_integer(i));
	return list;
}

static json_t *profile_json(const struct sim_result *r)
{
	json_t *rows = json_object();

	for (unsigned i = 0; i < ROW_COUNT; i++)
		json_object_set_new(rows, sim_rows[i].key, json_real(r->row[i]));
	return rows;
}

static json_t *copies_json(const struct sim_result *r, uint64_t size)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "cpu", (json_int_t)r->copies[COPY_CPU] * size,
			 "thread", (json_int_t)r->copies[COPY_THREAD] * size, "cid",
			 (json_int_t)r->copies[COPY_ID] * size, "node_cid",
			 (json_int_t)r->copies[COPY_NODE_ID] * size);
}

static json_t *result_json(const struct sim_result *r, uint64_t size)
{
	const struct sim_counts *c = &r->counts;

	return json_pack("{s:s, s:I, s:I, s:o, s:f, s:f, s:f, s:f, s:i, s:i, s:i, s:o, s:o, s:I, "
			 "s:I, s:f, s:f, s:f, s:I}",
			 "policy", r->policy.name, "switches", (json_int_t)c->switches,
			 "switches_to_threads", (json_int_t)c->user_switches, "profile_percent",
			 profile_json(r), "atomics_per_switch", r->atomics, "kept_percent", r->kept,
			 "node_change_percent", r->node_changes, "ids_mean", r->ids_mean,
			 "ids_most", (int)r->ids_most, "id_highest", (int)r->id_highest,
			 "processes", (int)r->processes, "copies", copies_json(r, 1), "bytes",
			 copies_json(r, size), "migrations", (json_int_t)c->migrations,
			 "node_migrations", (json_int_t)c->node_migrations, "ms", r->ms, "wait_us",
			 r->wait_us, "work_per_ms", r->work, "violations",
			 (json_int_t)c->violations);
}

static json_t *side_json(struct sim_side s)
{
	static const char *const keys[SIDE_FIGURES] = {
		"node_cid",        "cid",     "node_change_percent",
		"node_migrations", "wait_us", "work_per_ms"};
	json_t *figures = json_object();

	for (unsigned i = 0; i < SIDE_FIGURES; i++)
		json_object_set_new(figures, keys[i], json_real(s.figure[i]));
	return figures;
}

static json_t *question_json(const struct sim_report *r)
{
	json_t *rows = json_array();
	char text[800];

	for (unsigned load = 0; load < r->load_count; load++)
		for (unsigned i = 0; i < r->policy_count; i++) {
			const struct sim_answer *a = &r->answers[load][i];

			if (a->runs)
				json_array_append_new(
					rows, json_pack("{s:s, s:s, s:i, s:o, s:o}", "load",
							r->loads[load]->name, "policy",
							r->policies[i].name, "runs", (int)a->runs,
							"without", side_json(sim_side_mean(a, 0)),
							"with", side_json(sim_side_mean(a, 1))));
		}
	sim_conclude(r, text, sizeof(text));
	return json_pack("{s:o, s:s}", "rows", rows, "answer", text);
}

json_t *sim_json(const struct sim_report *r)
{
	const struct sim_params *p = &r->params;
	json_t *loads = json_array();
	json_t *json = json_pack("{s:s, s:i, s:i, s:o, s:i, s:i, s:I, s:I, s:I, s:o}", "tool",
				 "nearcpu sim", "cpus", (int)p->cpus, "nodes", (int)p->nodes,
				 "cpuset", set_json(p->cpuset, p->cpus), "groups", (int)p->groups,
				 "threads", (int)p->threads, "switches", (json_int_t)p->switches,
				 "seed", (json_int_t)p->seed, "size", (json_int_t)r->size, "loads",
				 loads);

	for (unsigned load = 0; load < r->load_count; load++) {
		json_t *policies = json_array();

		for (unsigned i = 0; i < r->policy_count; i++)
			json_array_append_new(policies, result_json(&r->results[load][i], r->size));
		json_array_append_new(
			loads, json_pack("{s:s, s:s, s:o}", "load", r->loads[load]->name, "about",
					 r->loads[load]->about, "policies", policies));
	}
	if (r->runs)
		json_object_set_new(json, "question", question_json(r));
	return json;
}
