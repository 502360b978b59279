/* SPDX-License-Identifier: MIT */
/* wait: benchmarks in which threads wait for each other: one run of their programs, and what is
 * said of fairness and waits. */
#include "common/child.h"
#include "bench/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_S 120

static int start(const struct table_result *t, const struct row_result *r, const char *program,
		 uint64_t window_ms, struct child_result *out)
{
	char threads[16], window[24], rate[32];
	const char *name = r->row->program_row ? r->row->program_row : r->row->name;
	const char *argv[10] = {program, name, threads, window};
	const char *set[3] = {NULL};
	struct child child = {.argv = argv, .set = set, .timeout_s = TIMEOUT_S};
	size_t n = 4;

	snprintf(threads, sizeof(threads), "%u", t->threads);
	snprintf(window, sizeof(window), "%llu", (unsigned long long)window_ms);
	for (size_t i = 0; i < 2 && t->bench->args[i]; i++)
		argv[n++] = t->bench->args[i];
	/* One for the table: so sections are of one length, whatever the row. */
	if (t->rate > 0) {
		snprintf(rate, sizeof(rate), "%.9g", t->rate);
		argv[n++] = "--rate";
		argv[n++] = rate;
	}
	if (r->row->conf) {
		set[0] = "NEAR_CONF";
		set[1] = r->row->conf;
	}
	return child_run(&child, out);
}

static bool unpack(json_t *json, struct table_result *t, struct bench_sample *s)
{
	json_int_t ops, wall, user, system, least, most, p99, p999, longest;

	if (json_unpack(json, "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f}", "ops", &ops,
			"wall_ns", &wall, "user_ns", &user, "system_ns", &system, "least", &least,
			"most", &most, "p99_ns", &p99, "p999_ns", &p999, "longest_ns", &longest,
			"rate", &t->rate))
		return false;
	*s = (struct bench_sample){
		.ops = (uint64_t)ops,
		.wall_ns = (uint64_t)wall,
		.user_ns = (uint64_t)user,
		.system_ns = (uint64_t)system,
		.p99_ns = (uint64_t)p99,
		.p999_ns = (uint64_t)p999,
		.least = (uint64_t)least,
		.most = (uint64_t)most,
		.longest_ns = (uint64_t)longest,
	};
	return true;
}

/* Line by line, as it was written. */
static void keep_said(struct row_result *r, const char *text)
{
	snprintf(r->said, sizeof(r->said), "%s", text);
	for (char *at = r->said; *at; at++)
		if ((*at < ' ' || *at > '~') && *at != '\n')
			*at = '?';
}

static void read_answer(const struct child_result *result, struct table_result *t,
			struct row_result *r, struct bench_sample *s)
{
	json_t *json = row_answer(result);
	const char *text;

	if (json_unpack(json, "{s:s}", "missing", &text) == 0)
		row_note(r, false, text);
	else if (json_unpack(json, "{s:s}", "error", &text) == 0)
		row_note(r, true, text);
	else if (!unpack(json, t, s))
		row_note_death(r, result);
	else if (!s->ops)
		row_note(r, true, "no operation ended in the window");
	else
		keep_said(r, result->said);
	json_decref(json);
}

int wait_measure(struct table_result *t, struct row_result *r, uint64_t window_ms,
		 struct bench_sample *s)
{
	struct child_result result;
	char program[PATH_MAX], text[120];
	int err;

	r->note[0] = 0;
	if (program_find(t->bench->program, program)) {
		snprintf(text, sizeof(text), "%s was not found where this command is",
			 t->bench->program);
		row_note(r, true, text);
		return 0;
	}
	err = start(t, r, program, window_ms, &result);
	if (!err)
		read_answer(&result, t, r, s);
	free(result.out);
	if (err != -ETIME)
		return err;
	row_note(r, true, "did not end in two minutes");
	return 0;
}

json_t *wait_json_sample(const struct bench_sample *s)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ops", (json_int_t)s->ops,
			 "wall_ns", (json_int_t)s->wall_ns, "user_ns", (json_int_t)s->user_ns,
			 "system_ns", (json_int_t)s->system_ns, "fewest", (json_int_t)s->least,
			 "most", (json_int_t)s->most, "p99_ns", (json_int_t)s->p99_ns, "p999_ns",
			 (json_int_t)s->p999_ns, "longest_ns", (json_int_t)s->longest_ns);
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
