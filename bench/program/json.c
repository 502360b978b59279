/* SPDX-License-Identifier: MIT */
/* The report as JSON: every sample, and the figures derived from them. */
#include "program/report.h"

#include <string.h>

static void suite_json_row(json_t *json, const struct table_result *t, size_t row)
{
	const struct suite_kind *kind = suite_kind_of(t);
	json_t *ratios = json_object();
	struct spread ratio;

	for (size_t i = 0; i < kind->measure_count; i++)
		if (suite_ratio(t, row, &kind->measures[i], &ratio))
			json_object_set_new(ratios, kind->measures[i].key, spread_json(ratio));
	json_object_set_new(json, "ratio_to_first", ratios);
	if (t->bench->kind == BENCH_ALLOCATOR)
		json_object_update_new(
			json,
			json_pack("{s:f, s:f, s:f}", "peak_bytes",
				  row_measure_of(t, &t->rows[row], BENCH_MEGABYTES).median * 1e6,
				  "p99_ns", row_measure_of(t, &t->rows[row], BENCH_P99).median,
				  "p999_ns", row_measure_of(t, &t->rows[row], BENCH_P999).median));
}

/* Of all threads: "threads" is null. */
static json_t *means_json(const struct suite *s, size_t row, unsigned threads)
{
	json_t *json = json_pack("{s:o, s:i}", "threads",
				 threads ? json_integer(threads) : json_null(), "lines",
				 (int)suite_mean(s, row, s->kind->measures, threads).lines);

	for (size_t i = 0; i < s->kind->measure_count; i++) {
		const struct suite_measure *m = &s->kind->measures[i];
		struct suite_mean mean = suite_mean(s, row, m, threads);

		json_object_set_new(json, m->key, mean.lines ? json_real(mean.mean) : json_null());
	}
	return json;
}

static json_t *of_one(const struct suite *s)
{
	const struct table_result *first = suite_first(s);
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(s, s->kind->measures, threads);
	json_t *json = json_object();

	for (size_t i = 0; i < first->bench->row_count; i++) {
		json_t *means = json_array();

		json_array_append_new(means, means_json(s, i, 0));
		for (size_t j = 0; j < n; j++)
			json_array_append_new(means, means_json(s, i, threads[j]));
		json_object_set_new(json, first->rows[i].row->name, means);
	}
	return json;
}

/* What a page says of the suite. */
static json_t *kind_json(const struct suite *s)
{
	json_t *measures = json_array();

	for (size_t i = 0; i < s->kind->measure_count; i++)
		json_array_append_new(measures, json_pack("{s:s, s:s, s:s, s:i}", "key",
							  s->kind->measures[i].key, "title",
							  s->kind->measures[i].title, "unit",
							  s->kind->measures[i].unit, "decimals",
							  s->kind->measures[i].decimals));
	return json_pack("{s:s, s:s, s:s, s:s, s:o}", "benchmark", s->kind->name, "title",
			 s->kind->title, "text", s->kind->text, "means", s->kind->key, "measures",
			 measures);
}

static void suite_json(json_t *json, const struct report *report)
{
	json_t *suites = json_array();

	for (const struct suite_kind *kind = suite_kinds; kind->name; kind++) {
		struct suite s = {kind, report};

		if (!suite_first(&s))
			continue;
		json_object_set_new(json, kind->key, of_one(&s));
		json_array_append_new(suites, kind_json(&s));
	}
	json_object_set_new(json, "suites", suites);
}

static void add_costs(json_t *json, const struct table_result *t, const struct row_result *r)
{
	bool is_memory = t->bench->kind == BENCH_MEMORY;

	json_object_set_new(json, "iterations", json_integer((json_int_t)r->iterations));
	json_object_set_new(json, is_memory ? "bytes_each" : "cpu_ns_per_op",
			    spread_json(row_cost(t, r)));
	if (!is_memory)
		json_object_set_new(json, "wall_ns_per_op",
				    real_json(row_measure_of(t, r, BENCH_WALL).median));
}

static void add_waits(json_t *json, const struct table_result *t, const struct row_result *r)
{
	const struct row_result *against = find_row(t, t->bench->against);

	json_object_set_new(json, "window_ms", json_integer((json_int_t)r->iterations));
	json_object_set_new(json, "wall_ns_per_op", spread_json(row_cost(t, r)));
	json_object_set_new(json, "cpu_ns_per_op",
			    json_real(row_measure_of(t, r, BENCH_CPU).median));
	json_object_set_new(json, "fairness",
			    json_real(1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median));
	json_object_set_new(json, "p999_ns", json_real(row_measure_of(t, r, BENCH_P999).median));
	if (r->said[0])
		json_object_set_new(json, "said", json_string(r->said));
	if (against && against != r)
		json_object_set_new(json, "throughput_ratio",
				    spread_json(cost_ratio(t, against, r)));
}

static void add_results(json_t *json, const struct table_result *t, const struct row_result *r)
{
	const struct row_result *best = best_other(t, r);
	json_t *samples = json_array();
	struct spread gain;
	bool decided;

	for (unsigned i = 0; i < r->count; i++)
		json_array_append_new(samples, sample_json(t, &r->samples[i]));
	if (t->bench->kind == BENCH_WAIT)
		add_waits(json, t, r);
	else
		add_costs(json, t, r);
	if (row_gain(t, r, &gain, &decided)) {
		json_object_set_new(json, "best_other", json_string(best->row->name));
		json_object_set_new(json, "ratio_to_best_other", real_json(gain.median));
		json_object_set_new(json, "decided", json_boolean(decided));
	}
	if (row_is_scaled(t, r))
		json_object_set_new(json, "fewer_operations", json_true());
	if (t->bench->together)
		suite_json_row(json, t, (size_t)(r - t->rows));
	json_object_set_new(json, "samples", samples);
}

static json_t *row_json(const struct table_result *t, const struct row_result *r)
{
	json_t *json = json_pack("{s:s, s:s, s:s, s:s?, s:s?}", "name", r->row->name, "label",
				 r->row->label, "role", role_names[r->row->role], "NEAR_CONF",
				 r->row->conf, "GLIBC_TUNABLES", r->row->tunables);

	if (r->count)
		add_results(json, t, r);
	else
		json_object_set_new(json, r->failed ? "failed" : "missing", json_string(r->note));
	return json;
}

static json_t *figure_json(const struct bench_figure *f, double value)
{
	return json_pack("{s:s, s:s, s:s?, s:s?, s:s, s:o, s:f, s:b}", "text", f->text, "row",
			 f->row, "less", f->less, "against", f->against, "is",
			 !f->against     ? "cost"
			 : f->difference ? "difference"
					 : "ratio",
			 "value", real_json(value), "at_most", f->goal, "reached",
			 value <= f->goal);
}

static json_t *table_json(const struct table_result *t)
{
	static const char *const kinds[] = {"time", "memory", "allocator", "wait"};
	json_t *rows = json_array(), *figures = json_array();
	const struct row_result *own = default_row(t);
	char title[160], conditions[200];
	double value;

	for (size_t i = 0; i < t->bench->row_count; i++)
		json_array_append_new(rows, row_json(t, &t->rows[i]));
	for (size_t i = 0; i < t->bench->figure_count; i++)
		if (figure_value(t, &t->bench->figures[i], &value))
			json_array_append_new(figures, figure_json(&t->bench->figures[i], value));
	table_title(t, title, sizeof(title));
	table_conditions(t, conditions, sizeof(conditions));
	return json_pack(
		"{s:s, s:s?, s:s, s:s, s:s, s:i, s:s, s:s, s:s, s:b, s:b, s:b, s:s?, s:s?, "
		"s:s?, s:o, s:o}",
		"benchmark", t->bench->name, "part", t->bench->part, "title", t->bench->title,
		"heading", title, "text", t->bench->text, "threads", (int)t->threads, "operation",
		t->bench->op, "kind", kinds[t->bench->kind], "conditions", conditions, "latency",
		t->bench->latency, "apart", t->bench->apart, "together", t->bench->together, "base",
		t->bench->base, "against", t->bench->against, "default",
		own ? own->row->name : NULL, "rows", rows, "figures", figures);
}

json_t *report_json(const struct report *report)
{
	json_t *tables = json_array(), *json;
	char started[32];

	strftime(started, sizeof(started), "%Y-%m-%dT%H:%M:%SZ", gmtime(&report->started));
	for (size_t i = 0; i < report->count; i++)
		json_array_append_new(tables, table_json(&report->tables[i]));
	json = json_pack("{s:o, s:s, s:s, s:f, s:b, s:b, s:i, s:o, s:{s:f, s:f, s:b}}", "machine",
			 machine_json(&report->machine), "compiler", COMPILER, "started", started,
			 "seconds", report->seconds, "quick", report->options.quick, "complete",
			 !report->cut, "repeat", (int)report->options.repeat, "tables", tables,
			 "load", "others", report->load.others, "stolen", report->load.stolen,
			 "quiet", load_is_quiet(&report->load));
	suite_json(json, report);
	return json;
}
