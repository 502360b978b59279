/* SPDX-License-Identifier: MIT */
/* One measurement in a process of its own.
 *
 * The parent executes this program again with the row's settings in the environment, as they apply
 * to a whole process, and reads one JSON object from it: a sample, or why there is none.
 */
#include "common/child.h"
#include "bench/report.h"
#include "common/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void row_name(const struct bench *b, const struct bench_row *row, char *out, size_t size)
{
	snprintf(out, size, "%s%s%s/%s", b->name, b->part ? "." : "", b->part ? b->part : "",
		 row->name);
}

static bool parse_row(const char *text, const struct bench_row **row)
{
	char name[96];

	for (size_t i = 0; bench_registry[i]; i++) {
		const struct bench *b = bench_registry[i];

		for (size_t j = 0; j < b->row_count; j++) {
			row_name(b, &b->rows[j], name, sizeof(name));
			if (strcmp(text, name) == 0) {
				*row = &b->rows[j];
				return true;
			}
		}
	}
	return false;
}

static json_t *measure_here(const struct bench_row *row, struct bench_run *run)
{
	const char *missing = row->missing ? row->missing() : NULL;
	struct bench_sample s = {0};
	int err;

	if (missing)
		return json_pack("{s:s}", "missing", missing);
	err = bench_measure(row, run, &s);
	if (err == -EAGAIN)
		return json_pack("{s:s}", "error",
				 "the system allows fewer threads (see ulimit -u and the "
				 "limits of the control group); ask for fewer");
	if (err)
		return json_pack("{s:s}", "error", strerror(-err));
	if (run->wrong)
		return json_pack("{s:s}", "error", run->wrong);
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "ops", (json_int_t)s.ops, "wall_ns",
			 (json_int_t)s.wall_ns, "user_ns", (json_int_t)s.user_ns, "system_ns",
			 (json_int_t)s.system_ns, "bytes", (json_int_t)s.bytes);
}

int row_main(int argc, char **argv)
{
	const struct bench_row *row;
	struct bench_run run = {0};
	uint64_t threads;
	json_t *json;

	if (argc != 3 || !parse_row(argv[0], &row) ||
	    !parse_number(argv[1], 1, BENCH_MAX_THREADS, &threads) ||
	    !parse_number(argv[2], 0, UINT64_MAX, &run.iterations))
		return usage_error("bench", "--row is internal: BENCHMARK/ROW THREADS ITERATIONS");
	run.threads = (unsigned)threads;
	json = measure_here(row, &run);
	json_dumpf(json, stdout, JSON_COMPACT);
	json_decref(json);
	return finish_stdout("bench", EXIT_DONE);
}

void row_note(struct row_result *r, bool failed, const char *text)
{
	snprintf(r->note, sizeof(r->note), "%s", text);
	machine_ascii(r->note);
	r->failed = failed;
}

/* How the child ended, if it did not answer. */
static void note_death(struct row_result *r, const struct child_result *result)
{
	char text[240];

	if (WIFSIGNALED(result->status))
		snprintf(text, sizeof(text), "%s%s%s", strsignal(WTERMSIG(result->status)),
			 result->error[0] ? ": " : "", result->error);
	else
		snprintf(text, sizeof(text), "%s", result->error[0] ? result->error : "no answer");
	row_note(r, true, text);
}

/* Fills *s, or r->note if there is no sample. */
static json_t *read_answer(const struct child_result *result, struct row_result *r,
			   struct bench_sample *s)
{
	json_t *json = NULL;
	const char *text;

	if (WIFEXITED(result->status) && !WEXITSTATUS(result->status))
		json = json_loads(result->out, 0, NULL);
	if (json_unpack(json, "{s:s}", "missing", &text) == 0)
		row_note(r, false, text);
	else if (json_unpack(json, "{s:s}", "error", &text) == 0)
		row_note(r, true, text);
	else if (!sample_read(json, s))
		note_death(r, result);
	else
		return json;
	json_decref(json);
	return NULL;
}

int row_run(struct row_result *r, const char *const *argv, const char *preload, unsigned timeout_s,
	    struct bench_sample *s, json_t **answer)
{
	const char *pairs[][2] = {{"LD_PRELOAD", preload},
				  {"NEAR_CONF", r->row->conf},
				  {"GLIBC_TUNABLES", r->row->tunables}};
	const char *set[7] = {NULL};
	struct child child = {.argv = argv, .set = set, .timeout_s = timeout_s};
	struct child_result result;
	size_t n = 0;
	int err;

	for (size_t i = 0; i < 3; i++)
		if (pairs[i][1]) {
			set[n++] = pairs[i][0];
			set[n++] = pairs[i][1];
		}
	r->note[0] = 0;
	*answer = NULL;
	err = child_run(&child, &result);
	if (!err) {
		*answer = read_answer(&result, r, s);
		snprintf(r->said, sizeof(r->said), "%s", *answer ? result.said : "");
	}
	free(result.out);
	if (err != -ETIME)
		return err;
	row_note(r, true,
		 timeout_s == 600 ? "did not end in ten minutes" : "did not end in two minutes");
	return 0;
}

int row_measure(const struct table_result *t, struct row_result *r, uint64_t iterations,
		struct bench_sample *sample)
{
	char name[96], threads[24], count[24];
	const char *argv[] = {"/proc/self/exe", "bench", "--row", name, threads, count, NULL};
	json_t *answer;
	int err;

	row_name(t->bench, r->row, name, sizeof(name));
	snprintf(threads, sizeof(threads), "%u", t->threads);
	snprintf(count, sizeof(count), "%llu", (unsigned long long)iterations);
	err = row_run(r, argv, NULL, ROW_TIMEOUT_S, sample, &answer);
	json_decref(answer);
	r->said[0] = 0;
	return err;
}
