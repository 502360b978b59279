/* SPDX-License-Identifier: MIT */
/* The table and the JSON of a comparison. */
#include "run/compare.h"

#include <stdio.h>

/* Quartiles of fewer runs mean nothing. */
#define ENOUGH 3

static const struct {
	const char *label, *name;
} measures[RUN_MEASURES] = {
	{"CPU time", "cpu_s"},
	{"wall time", "wall_s"},
	{"peak memory", "peak_bytes"},
	{"page faults", "page_faults"},
};

static const char *const verdicts[] = {
	[RUN_UNKNOWN] = "too few runs to tell",
	[RUN_SAME] = "no difference beyond the spread",
	[RUN_BETTER] = "nearcpu is better",
	[RUN_WORSE] = "the system's is better",
};

bool run_ratio(const struct run_comparison *c, enum run_measure m, struct spread *out)
{
	double ratios[MAX_REPEAT];

	for (unsigned i = 0; i < c->runs; i++) {
		if (c->values[RUN_SYSTEM][m][i] <= 0)
			return false;
		ratios[i] = c->values[RUN_OURS][m][i] / c->values[RUN_SYSTEM][m][i];
	}
	*out = spread_of(ratios, c->runs);
	return true;
}

enum run_verdict run_verdict(const struct run_comparison *c, enum run_measure m)
{
	struct spread s;

	if (c->runs < ENOUGH || !run_ratio(c, m, &s))
		return RUN_UNKNOWN;
	return s.high < 1 ? RUN_BETTER : s.low > 1 ? RUN_WORSE : RUN_SAME;
}

static double median(const struct run_comparison *c, enum run_side side, enum run_measure m)
{
	return spread_of(c->values[side][m], c->runs).median;
}

static void put_value(char *text, size_t size, enum run_measure m, double value)
{
	if (m == RUN_MEMORY)
		snprintf(text, size, "%.1f MiB", value / (1 << 20));
	else if (m == RUN_FAULTS)
		snprintf(text, size, "%.0f", value);
	else
		snprintf(text, size, "%.3f s", value);
}

static void print_measure(const struct run_comparison *c, enum run_measure m)
{
	char system[32], ours[32];
	struct spread s;

	put_value(system, sizeof(system), m, median(c, RUN_SYSTEM, m));
	put_value(ours, sizeof(ours), m, median(c, RUN_OURS, m));
	printf("%-12s %13s %13s", measures[m].label, system, ours);
	if (run_ratio(c, m, &s))
		printf("  %5.2f  %.2f to %.2f", s.median, s.low, s.high);
	else
		printf("      -            -");
	printf("  %s\n", verdicts[run_verdict(c, m)]);
}

void run_print(const struct run_comparison *c)
{
	static const char *const parts[] = {"", "malloc", "libatomic", "malloc and libatomic"};

	printf("%s, %u run%s with each %s in turn, after one to warm up; medians\n\n",
	       c->options->argv[0], c->runs, c->runs == 1 ? "" : "s", parts[c->options->parts]);
	printf("%-12s %13s %13s  %5s  %s\n", "", "system", "nearcpu", "ratio", "quartiles");
	for (enum run_measure m = 0; m < RUN_MEASURES; m++)
		print_measure(c, m);
	if (c->output_varies)
		printf("\nstandard output differs from run to run, of one side too\n");
	else if (c->output_differs)
		printf("\nstandard output differs: see --output\n");
}

json_t *run_argv_json(const struct run_options *o)
{
	json_t *argv = json_array();

	for (char *const *a = o->argv; *a; a++) {
		json_t *word = json_string(*a);

		json_array_append_new(argv, word ? word : json_null());
	}
	return argv;
}

json_t *run_parts_json(const struct run_options *o)
{
	json_t *parts = json_array();

	if (o->parts & LIBRARY_MALLOC)
		json_array_append_new(parts, json_string("malloc"));
	if (o->parts & LIBRARY_ATOMIC)
		json_array_append_new(parts, json_string("atomic"));
	return parts;
}

static json_t *values_json(const double *values, unsigned n)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < n; i++)
		json_array_append_new(array, json_real(values[i]));
	return array;
}

static json_t *measure_json(const struct run_comparison *c, enum run_measure m)
{
	static const char *const words[] = {"unknown", "same", "better", "worse"};
	struct spread s = {0};
	bool has_ratio = run_ratio(c, m, &s);
	json_t *json = json_pack("{s:f, s:f, s:s, s:o, s:o}", "system", median(c, RUN_SYSTEM, m),
				 "nearcpu", median(c, RUN_OURS, m), "nearcpu_is",
				 words[run_verdict(c, m)], "system_runs",
				 values_json(c->values[RUN_SYSTEM][m], c->runs), "nearcpu_runs",
				 values_json(c->values[RUN_OURS][m], c->runs));

	if (has_ratio)
		json_object_update_new(json, json_pack("{s:f, s:[f, f]}", "ratio", s.median,
						       "quartiles", s.low, s.high));
	return json;
}

json_t *run_json(const struct run_comparison *c)
{
	json_t *json = json_pack("{s:o, s:o, s:i, s:b, s:b}", "program", run_argv_json(c->options),
				 "libraries", run_parts_json(c->options), "runs", (int)c->runs,
				 "output_differs", c->output_differs, "output_varies",
				 c->output_varies);

	for (enum run_measure m = 0; m < RUN_MEASURES; m++)
		json_object_set_new(json, measures[m].name, measure_json(c, m));
	return json;
}
