/* SPDX-License-Identifier: MIT */
/* The ratios and means of suites as JSON. */
#include "bench/suite.h"

void suite_json_row(json_t *json, const struct table_result *t, size_t row)
{
	const struct suite_kind *kind = suite_kind_of(t);
	json_t *ratios = json_object();
	struct spread ratio;

	for (size_t i = 0; i < kind->measure_count; i++)
		if (suite_ratio(t, row, kind->measures[i], &ratio))
			json_object_set_new(ratios, suite_texts[kind->measures[i]].key,
					    spread_json(ratio));
	json_object_set_new(json, "ratio_to_first", ratios);
	if (t->bench->kind == BENCH_ALLOCATOR)
		json_object_update_new(
			json, json_pack("{s:f, s:f, s:f}", "peak_bytes",
					suite_value(t, row, SUITE_MEMORY).median * 1e6, "p99_ns",
					suite_value(t, row, SUITE_P99).median, "p999_ns",
					suite_value(t, row, SUITE_P999).median));
}

/* Of all threads: "threads" is null. */
static json_t *means_json(const struct suite *s, size_t row, unsigned threads)
{
	json_t *json = json_pack("{s:o, s:i}", "threads",
				 threads ? json_integer(threads) : json_null(), "lines",
				 (int)suite_mean(s, row, s->kind->measures[0], threads).lines);

	for (size_t i = 0; i < s->kind->measure_count; i++) {
		enum suite_measure m = s->kind->measures[i];
		struct suite_mean mean = suite_mean(s, row, m, threads);

		json_object_set_new(json, suite_texts[m].key,
				    mean.lines ? json_real(mean.mean) : json_null());
	}
	return json;
}

static json_t *of_one(const struct suite *s)
{
	const struct table_result *first = suite_first(s);
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(s, s->kind->measures[0], threads);
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

void suite_json(json_t *json, const struct report *report)
{
	for (const struct suite_kind *kind = suite_kinds; kind->name; kind++) {
		struct suite s = {kind, report};

		if (suite_first(&s))
			json_object_set_new(json, kind->key, of_one(&s));
	}
}
