/* SPDX-License-Identifier: MIT */
/* row: one measurement in a process of its own.
 *
 * The parent starts this program again with the row's settings in the environment, where alone
 * they can be changed, and reads one JSON object from it: a sample, or why there is none.
 */
#include "common/child.h"
#include "bench/report.h"
#include "common/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* A row that hangs is a fault of ours; the longest that can be right is far below. */
#define TIMEOUT_S 600

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

void row_note_death(struct row_result *r, const struct child_result *result)
{
	char text[240];

	if (WIFSIGNALED(result->status))
		snprintf(text, sizeof(text), "%s%s%s", strsignal(WTERMSIG(result->status)),
			 result->error[0] ? ": " : "", result->error);
	else
		snprintf(text, sizeof(text), "%s", result->error[0] ? result->error : "no answer");
	row_note(r, true, text);
}

json_t *row_answer(const struct child_result *result)
{
	if (WIFEXITED(result->status) && !WEXITSTATUS(result->status))
		return json_loads(result->out, 0, NULL);
	return NULL;
}

static void read_answer(const struct child_result *result, struct row_result *r,
			struct bench_sample *s)
{
	json_t *json = row_answer(result);
	json_int_t ops, wall, user, system, bytes;
	const char *text;

	if (json_unpack(json, "{s:s}", "missing", &text) == 0) {
		row_note(r, false, text);
	} else if (json_unpack(json, "{s:s}", "error", &text) == 0) {
		row_note(r, true, text);
	} else if (json_unpack(json, "{s:I, s:I, s:I, s:I, s:I}", "ops", &ops, "wall_ns", &wall,
			       "user_ns", &user, "system_ns", &system, "bytes", &bytes) == 0) {
		*s = (struct bench_sample){
			.ops = (uint64_t)ops,
			.wall_ns = (uint64_t)wall,
			.user_ns = (uint64_t)user,
			.system_ns = (uint64_t)system,
			.bytes = (uint64_t)bytes,
		};
	} else {
		row_note_death(r, result);
	}
	json_decref(json);
}

int row_measure(const struct table_result *t, struct row_result *r, uint64_t iterations,
		struct bench_sample *sample)
{
	char name[96], threads[24], count[24];
	const char *argv[] = {"/proc/self/exe", "bench", "--row", name, threads, count, NULL};
	const char *set[5] = {NULL};
	struct child child = {.argv = argv, .set = set, .timeout_s = TIMEOUT_S};
	struct child_result result;
	size_t n = 0;
	int err;

	row_name(t->bench, r->row, name, sizeof(name));
	snprintf(threads, sizeof(threads), "%u", t->threads);
	snprintf(count, sizeof(count), "%llu", (unsigned long long)iterations);
	if (r->row->conf) {
		set[n++] = "NEAR_CONF";
		set[n++] = r->row->conf;
	}
	if (r->row->tunables) {
		set[n++] = "GLIBC_TUNABLES";
		set[n++] = r->row->tunables;
	}
	r->note[0] = 0;
	err = child_run(&child, &result);
	if (!err)
		read_answer(&result, r, sample);
	free(result.out);
	if (err != -ETIME)
		return err;
	row_note(r, true, "did not end in ten minutes");
	return 0;
}
