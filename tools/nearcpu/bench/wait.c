/* SPDX-License-Identifier: MIT */
/* Benchmarks in which threads wait for each other: one run of their programs, and the
 * sentence about fairness and waits. */
#include "bench/report.h"
#include "common/installed.h"

#define TIMEOUT_S 120

static int run(struct table_result *t, struct row_result *r, const char *program,
	       uint64_t window_ms, struct bench_sample *s)
{
	char threads[16], window[24], rate[32];
	const char *name = r->row->program_row ? r->row->program_row : r->row->name;
	const char *argv[10] = {program, name, threads, window};
	json_t *answer;
	size_t n = 4;
	int err;

	snprintf(threads, sizeof(threads), "%u", t->threads);
	snprintf(window, sizeof(window), "%llu", (unsigned long long)window_ms);
	for (size_t i = 0; i < 2 && t->bench->args[i]; i++)
		argv[n++] = t->bench->args[i];
	/* The same rate for all rows of the table: then their sections have one length. */
	if (t->rate > 0) {
		snprintf(rate, sizeof(rate), "%.9g", t->rate);
		argv[n++] = "--rate";
		argv[n++] = rate;
	}
	err = row_run(r, argv, NULL, TIMEOUT_S, s, &answer);
	if (answer)
		t->rate = json_number_value(json_object_get(answer, "rate"));
	json_decref(answer);
	return err;
}

/* Keeps the lines of what the program wrote. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if ((*text < ' ' || *text > '~') && *text != '\n')
			*text = '?';
}

int wait_measure(struct table_result *t, struct row_result *r, uint64_t window_ms,
		 struct bench_sample *s)
{
	char program[PATH_MAX], text[120];
	int err;

	if (find_program(t->bench->program, program)) {
		snprintf(text, sizeof(text), "%s was not found where this command is",
			 t->bench->program);
		row_note(r, true, text);
		return 0;
	}
	err = run(t, r, program, window_ms, s);
	if (!err && !s->ops && !r->note[0])
		row_note(r, true, "no operation ended in the window");
	make_printable(r->said);
	return err;
}

void wait_json_row(json_t *json, const struct table_result *t, const struct row_result *r)
{
	const struct row_result *against = find_row(t, t->bench->against);

	json_object_set_new(json, "window_ms", json_integer((json_int_t)r->iterations));
	json_object_set_new(json, "wall_ns_per_op", spread_json(row_cost(t, r)));
	json_object_set_new(json, "cpu_ns_per_op", json_real(row_part_ns(r, PART_CPU)));
	json_object_set_new(json, "fairness",
			    json_real(1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median));
	json_object_set_new(json, "p999_ns", json_real(row_measure_of(t, r, BENCH_P999).median));
	if (r->said[0])
		json_object_set_new(json, "said", json_string(r->said));
	if (against && against != r)
		json_object_set_new(json, "throughput_ratio",
				    spread_json(cost_ratio(t, against, r)));
}

/* Of the others: the least of what is measured. */
static const struct row_result *best_by(const struct table_result *t, const struct row_result *r,
					enum bench_measure m)
{
	const struct row_result *best = NULL;

	for (size_t i = 0; i < t->bench->row_count; i++) {
		const struct row_result *other = &t->rows[i];

		if (other->count && other->row->role == BENCH_PEER && other != r &&
		    (!best ||
		     row_measure_of(t, other, m).median < row_measure_of(t, best, m).median))
			best = other;
	}
	return best;
}

void wait_say(struct text *text, const struct table_result *t, const struct row_result *r)
{
	const struct row_result *fair = best_by(t, r, BENCH_UNFAIRNESS),
				*quick = best_by(t, r, BENCH_P999);

	if (t->bench->kind != BENCH_WAIT || t->threads < 2)
		return;
	say(text, "The least served of its threads got %.2f of what the most served one got",
	    1 / row_measure_of(t, r, BENCH_UNFAIRNESS).median);
	if (fair)
		say(text, " (best of the others: \"%s\", %.2f)", fair->row->label,
		    1 / row_measure_of(t, fair, BENCH_UNFAIRNESS).median);
	say(text, "; 999 of 1,000 waits took at most %s",
	    say_cost(BENCH_TIME, row_measure_of(t, r, BENCH_P999).median).text);
	if (quick)
		say(text, " (best of the others: \"%s\", %s)", quick->row->label,
		    say_cost(BENCH_TIME, row_measure_of(t, quick, BENCH_P999).median).text);
	say(text, ". ");
}
