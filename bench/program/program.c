/* SPDX-License-Identifier: MIT */
/* One run of a program that measures rows itself: a pattern on an allocator, or threads that wait
 * for each other.
 *
 * The dynamic linker ignores a library that it cannot preload, so the program reports the file of
 * its malloc, which is compared with the preloaded one. */
#include "program/report.h"
#include "common/installed.h"

#include <string.h>

#define WAIT_TIMEOUT_S 120
#define LATENCY_PART 4 /* of the work: single calls are timed in a run of their own */

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void check_allocator(struct row_result *r, struct bench_sample *s, const char *preload,
			    const char *found)
{
	char text[240];

	if (!*preload || strcmp(file_of(preload), file_of(found)) == 0)
		return;
	s->ops = 0;
	if (r->row->package)
		snprintf(text, sizeof(text), "%.100s cannot be loaded (package %s)", preload,
			 r->row->package);
	else
		snprintf(text, sizeof(text), "%.100s cannot be preloaded", file_of(preload));
	row_note(r, !r->row->package, text);
}

/* A percentage without a number of iterations. */
static void put_rounds(const struct table_result *t, uint64_t iterations, bool latency, char *out,
		       size_t size)
{
	uint64_t part = latency ? LATENCY_PART : 1;

	if (t->bench->kind != BENCH_ALLOCATOR)
		iterations *= t->threads;
	if (iterations)
		snprintf(out, size, "%llu", (unsigned long long)(iterations + part - 1) / part);
	else
		snprintf(out, size, "%u%%", t->percent / (unsigned)part);
}

static int run_pattern(const struct table_result *t, struct row_result *r, const char *const *argv,
		       const char *preload, struct bench_sample *s)
{
	json_t *answer;
	int err = row_run(r, argv, preload, ROW_TIMEOUT_S, s, &answer);
	const char *allocator = json_string_value(json_object_get(answer, "allocator"));

	if (answer)
		check_allocator(r, s, preload, allocator ? allocator : "");
	json_decref(answer);
	r->said[0] = 0;
	/* An operation of the loop is a pair of calls; memory is that of the process. */
	if (t->bench->kind == BENCH_TIME)
		s->ops /= 2;
	if (t->bench->kind == BENCH_MEMORY && s->ops)
		s->ops = 1;
	return err;
}

int program_measure(const struct table_result *t, struct row_result *r, uint64_t iterations,
		    bool latency, struct bench_sample *s)
{
	char program[PATH_MAX], ours[PATH_MAX], threads[24], rounds[32];
	const char *preload = r->row->preload;
	const char *argv[8] = {program, t->bench->pattern, threads, rounds};
	size_t n = 4;

	r->note[0] = 0;
	if (find_program("nearcpu-malloc-patterns", program)) {
		row_note(r, true, "nearcpu-malloc-patterns was not found where this command is");
		return 0;
	}
	if (strcmp(preload, BENCH_OURS_PRELOAD) == 0) {
		if (find_library(LIBRARY_MALLOC, ours)) {
			row_note(r, false, MALLOC_FILE " was not found where this command is");
			return 0;
		}
		preload = ours;
	}
	snprintf(threads, sizeof(threads), "%u", t->threads);
	put_rounds(t, iterations, latency, rounds, sizeof(rounds));
	if (latency)
		argv[n++] = "--latency";
	if (r->row->heap) {
		argv[n++] = "--heap";
		argv[n++] = r->row->heap;
	}
	return run_pattern(t, r, argv, preload, s);
}

/* ---- threads that wait for each other ---- */

static int run_window(struct table_result *t, struct row_result *r, const char *program,
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
	err = row_run(r, argv, NULL, WAIT_TIMEOUT_S, s, &answer);
	if (answer)
		t->rate = json_number_value(json_object_get(answer, "rate"));
	json_decref(answer);
	return err;
}

/* Keeps the lines of what the program wrote. */
static void keep_lines(char *text)
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
	err = run_window(t, r, program, window_ms, s);
	if (!err && !s->ops && !r->note[0])
		row_note(r, true, "no operation ended in the window");
	keep_lines(r->said);
	return err;
}
