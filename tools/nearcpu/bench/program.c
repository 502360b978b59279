/* SPDX-License-Identifier: MIT */
/* program: one run of a pattern under an allocator.
 *
 * The loader goes on without a preload that it cannot load, so the program says where its malloc
 * came from, and that is compared with what was asked for. */
#include "common/child.h"
#include "bench/report.h"
#include "run/run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_S 600
#define LATENCY_PART 4 /* of the work: single calls are timed in a run of their own */

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* In the build tree it stands beside this program. */
int program_find(const char *name, char path[PATH_MAX])
{
	static const char *const dirs[] = {"", NEARCPU_LIBEXECDIR "/nearcpu/"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -errno;
	self[n] = 0;
	*(strrchr(self, '/') + 1) = 0;
	for (size_t i = 0; i < sizeof(dirs) / sizeof(dirs[0]); i++) {
		int len = snprintf(path, PATH_MAX, "%s%s%s", dirs[i][0] == '/' ? "" : self, dirs[i],
				   name);

		if (len < PATH_MAX && access(path, X_OK) == 0)
			return 0;
	}
	return -ENOENT;
}

static void set_env(const char *set[7], const struct bench_row *row, const char *preload)
{
	size_t n = 0;

	set[n++] = "LD_PRELOAD";
	set[n++] = preload;
	if (row->conf) {
		set[n++] = "NEAR_CONF";
		set[n++] = row->conf;
	}
	if (row->tunables) {
		set[n++] = "GLIBC_TUNABLES";
		set[n++] = row->tunables;
	}
	set[n] = NULL;
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

static void read_answer(const struct child_result *result, struct row_result *r,
			const char *preload, struct bench_sample *s)
{
	json_t *json = row_answer(result);
	json_int_t ops, wall, user, system, bytes, p99, p999;
	const char *allocator;

	if (json_unpack(json, "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "ops", &ops, "wall_ns",
			&wall, "user_ns", &user, "system_ns", &system, "bytes", &bytes, "p99_ns",
			&p99, "p999_ns", &p999, "allocator", &allocator) == 0) {
		*s = (struct bench_sample){
			.ops = (uint64_t)ops,
			.wall_ns = (uint64_t)wall,
			.user_ns = (uint64_t)user,
			.system_ns = (uint64_t)system,
			.bytes = (uint64_t)bytes,
			.p99_ns = (uint64_t)p99,
			.p999_ns = (uint64_t)p999,
		};
		check_allocator(r, s, preload, allocator);
	} else {
		row_note_death(r, result);
	}
	json_decref(json);
}

/* "0%" is not "0", which is all. */
static void say_rounds(const struct table_result *t, uint64_t iterations, bool latency, char *out,
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

static int run(const struct table_result *t, struct row_result *r, const char *const *argv,
	       const char *preload, struct bench_sample *s)
{
	const char *set[7];
	struct child child = {.argv = argv, .set = set, .timeout_s = TIMEOUT_S};
	struct child_result result;
	int err;

	set_env(set, r->row, preload);
	err = child_run(&child, &result);
	if (!err)
		read_answer(&result, r, preload, s);
	free(result.out);
	if (err == -ETIME) {
		row_note(r, true, "did not end in ten minutes");
		err = 0;
	}
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
	if (program_find("nearcpu-malloc-patterns", program)) {
		row_note(r, true, "nearcpu-malloc-patterns was not found where this command is");
		return 0;
	}
	if (strcmp(preload, BENCH_OURS_PRELOAD) == 0) {
		if (run_find_library(RUN_MALLOC, ours)) {
			row_note(r, false,
				 "libnearcpu-malloc.so.0 was not found where this command is");
			return 0;
		}
		preload = ours;
	}
	snprintf(threads, sizeof(threads), "%u", t->threads);
	say_rounds(t, iterations, latency, rounds, sizeof(rounds));
	if (latency)
		argv[n++] = "--latency";
	if (r->row->heap) {
		argv[n++] = "--heap";
		argv[n++] = r->row->heap;
	}
	return run(t, r, argv, preload, s);
}
