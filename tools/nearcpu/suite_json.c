/* SPDX-License-Identifier: MIT */
#include "suite.h"

void suite_json_row(json_t *json, const struct table_result *t, size_t row)
{
	json_t *ratios = json_object();
	struct spread ratio;

	for (int m = 0; m < SUITE_MEASURES; m++)
		if (suite_ratio(t, row, m, &ratio))
			json_object_set_new(ratios, suite_key(m), spread_json(ratio));
	json_object_set_new(json, "peak_bytes",
			    json_real(suite_value(t, row, SUITE_MEMORY).median * 1e6));
	json_object_set_new(json, "p99_ns", json_real(suite_value(t, row, SUITE_P99).median));
	json_object_set_new(json, "p999_ns", json_real(suite_value(t, row, SUITE_P999).median));
	json_object_set_new(json, "ratio_to_first", ratios);
}

/* Of all threads: "threads" is null. */
static json_t *means_json(const struct report *report, size_t row, unsigned threads)
{
	json_t *json = json_object();

	json_object_set_new(json, "threads", threads ? json_integer(threads) : json_null());
	json_object_set_new(json, "lines",
			    json_integer(suite_mean(report, row, SUITE_CPU, threads).lines));
	for (int m = 0; m < SUITE_MEASURES; m++) {
		struct suite_mean mean = suite_mean(report, row, m, threads);

		json_object_set_new(json, suite_key(m),
				    mean.lines ? json_real(mean.mean) : json_null());
	}
	return json;
}

json_t *suite_json(const struct report *report)
{
	const struct table_result *first = suite_first(report);
	unsigned threads[MAX_THREAD_COUNTS];
	size_t n = suite_threads(report, threads);
	json_t *json;

	if (!first)
		return NULL;
	json = json_object();
	for (size_t i = 0; i < first->bench->row_count; i++) {
		json_t *means = json_array();

		json_array_append_new(means, means_json(report, i, 0));
		for (size_t j = 0; j < n; j++)
			json_array_append_new(means, means_json(report, i, threads[j]));
		json_object_set_new(json, first->rows[i].row->name, means);
	}
	return json;
}
