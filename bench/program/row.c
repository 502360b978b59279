/* SPDX-License-Identifier: MIT */
/* One measurement in a process of its own.
 *
 * The parent executes this program again with the row's settings in the environment, as they apply
 * to a whole process, and reads one JSON object from it: a sample, or why there is none. The report
 * has the samples as JSON, too.
 */
#include "common/child.h"
#include "program/report.h"
#include "common/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* The name that the processes use, the name in the report if that differs, and the kinds whose
 * report has it. BENCH_MEMORY has its own form. */
static const struct {
	const char *name, *shown;
	size_t at;
	unsigned kinds;
} members[] = {
#define ALL (1u << BENCH_TIME | 1u << BENCH_ALLOCATOR | 1u << BENCH_WAIT)
#define CALLS (1u << BENCH_ALLOCATOR | 1u << BENCH_WAIT)
#define AT(member) offsetof(struct bench_sample, member)
	{"ops", "ops", AT(ops), ALL},
	{"wall_ns", "wall_ns", AT(wall_ns), ALL},
	{"user_ns", "user_ns", AT(user_ns), ALL},
	{"system_ns", "system_ns", AT(system_ns), ALL},
	{"bytes", "peak_bytes", AT(bytes), 1u << BENCH_ALLOCATOR},
	{"least", "fewest", AT(least), 1u << BENCH_WAIT},
	{"most", "most", AT(most), 1u << BENCH_WAIT},
	{"p99_ns", "p99_ns", AT(p99_ns), CALLS},
	{"p999_ns", "p999_ns", AT(p999_ns), CALLS},
	{"longest_ns", "longest_ns", AT(longest_ns), 1u << BENCH_WAIT},
#undef ALL
#undef CALLS
#undef AT
};

#define MEMBERS (sizeof(members) / sizeof(members[0]))

static json_int_t member_of(const struct bench_sample *s, size_t i)
{
	return (json_int_t) * (const uint64_t *)((const char *)s + members[i].at);
}

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
	const char *missing = row->choose    ? row->choose(row->impl)
			      : row->missing ? row->missing()
					     : NULL;
	struct bench_sample s = {0};
	json_t *json;
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
	json = json_object();
	for (size_t i = 0; i < MEMBERS; i++)
		json_object_set_new(json, members[i].name, json_integer(member_of(&s, i)));
	return json;
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
	make_printable(r->note, "");
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
	const char *argv[] = {"/proc/self/exe", "--row", name, threads, count, NULL};
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

bool sample_read(const json_t *json, struct bench_sample *s)
{
	if (!json_object_get(json, "ops") || !json_object_get(json, "wall_ns"))
		return false;
	for (size_t i = 0; i < MEMBERS; i++)
		*(uint64_t *)((char *)s + members[i].at) =
			(uint64_t)json_integer_value(json_object_get(json, members[i].name));
	return true;
}

json_t *sample_json(const struct table_result *t, const struct bench_sample *s)
{
	json_t *json = json_object();

	if (t->bench->kind == BENCH_MEMORY && !t->bench->pattern)
		json_object_set_new(json, "counters", json_integer((json_int_t)s->ops));
	if (t->bench->kind == BENCH_MEMORY)
		json_object_set_new(json, "bytes", json_integer((json_int_t)s->bytes));
	for (size_t i = 0; i < MEMBERS; i++)
		if (members[i].kinds >> t->bench->kind & 1)
			json_object_set_new(json, members[i].shown, json_integer(member_of(s, i)));
	return json;
}
