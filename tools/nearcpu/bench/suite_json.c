/* SPDX-License-Identifier: MIT */
#include "bench/suite.h"

void suite_json_row(json_t *json, const struct table_result *t, size_t row)
{
	const struct suite_kind *kind = suite_kind_of(t);
	json_t *ratios = json_object();
	struct spread ratio;

	for (size_t i = 0; i < kind->measure_count; i++)
		if (suite_ratio(t, row, kind->measures[i], &ratio))
			json_object_set_new(ratios, suite_key(kind->measures[i]),
					    spread_json(ratio));
	json_object_set_new(json, "ratio_to_first", ratios);
	if (t->bench->kind != BENCH_ALLOCATOR)
		return;
	json_object_set_new(json, "peak_bytes",
			    json_real(suite_value(t, row, SUITE_MEMORY).median * 1e6));
	json_object_set_new(json, "p99_ns", json_real(suite_value(t, row, SUITE_P99).median));
	json_object_set_new(json, "p999_ns", json_real(suite_value(t, row, SUITE_P999).median));
}

/* Of all threads: "threads" is null. */
static json_t *means_json(const struct suite *s, size_t row, unsigned threads)
{
	json_t *json = json_object();

	json_object_set_new(json, "threads", threads ? json_integer(threads) : json_null());
	json_object_set_new(json, "lines",
			    json_integer(suite_mean(s, row, s->kind->measures[0], threads).lines));
	for (size_t i = 0; i < s->kind->measure_count; i++) {
		enum suite_measure m = s->kind->measures[i];
		struct suite_mean mean = suite_mean(s, row, m, threads);

		json_object_set_new(json, suite_key(m),
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
