/* SPDX-License-Identifier: MIT */
/* nearcpu run --stats: each process of the program writes its statistics of malloc to a temporary
 * directory; the libatomic prints its counts itself. */
#include "run/run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/output.h"
#include "common/own_malloc.h"
#include "common/tool.h"

struct found {
	json_t *own;   /* of the program itself; NULL: it wrote none */
	json_t *total; /* of all processes, by size class */
	unsigned processes;
};

/* ---- the directory ---- */

/* A comma would end the setting. */
static int make_directory(char dir[PATH_MAX])
{
	const char *where = getenv("TMPDIR");

	if (!where || where[0] != '/' || strchr(where, ',') || strlen(where) > 1000)
		where = "/tmp";
	snprintf(dir, PATH_MAX, "%s/nearcpu-run.XXXXXX", where);
	return mkdtemp(dir) ? 0 : -errno;
}

static void add_number(json_t *to, const json_t *from, const char *name)
{
	json_int_t sum = json_integer_value(json_object_get(to, name)) +
			 json_integer_value(json_object_get(from, name));

	json_object_set_new(to, name, json_integer(sum));
}

static void add_class(json_t *classes, const json_t *from)
{
	static const char *const names[] = {"misses", "in_use"};
	json_int_t size = json_integer_value(json_object_get(from, "size"));
	json_t *class = NULL;
	size_t i;

	json_array_foreach(classes, i,
			   class) if (json_integer_value(json_object_get(class, "size")) ==
				      size) break;
	if (i == json_array_size(classes)) {
		class = json_pack("{s:I}", "size", size);
		json_array_append_new(classes, class);
	}
	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		add_number(class, from, names[n]);
}

static void add_process(struct found *f, json_t *process, bool own)
{
	static const char *const names[] = {"misses",     "large_allocations", "refills",
					    "spills",     "central_refills",   "central_spills",
					    "given_back", "give_backs"};
	json_t *class;
	size_t i;

	for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
		add_number(f->total, process, names[n]);
	json_array_foreach(json_object_get(process, "by_class"), i, class)
		add_class(json_object_get(f->total, "by_class"), class);
	f->processes++;
	if (own)
		f->own = json_incref(process);
}

/* Reads the files in the directory, and removes them with it. */
static void collect(const char *dir, pid_t pid, struct found *f)
{
	DIR *d = opendir(dir);
	const struct dirent *entry;
	char path[2 * PATH_MAX];

	f->total = json_pack("{s:[]}", "by_class");
	while (d && (entry = readdir(d))) {
		json_t *process;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		process = json_load_file(path, 0, NULL);
		if (process)
			add_process(f, process, strtol(entry->d_name, NULL, 10) == pid);
		json_decref(process);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

/* ---- text ---- */

static unsigned long long number(const json_t *from, const char *name)
{
	return (unsigned long long)json_integer_value(json_object_get(from, name));
}

static void print_bytes(const char *label, uint64_t bytes)
{
	if (bytes < 1 << 20)
		fprintf(stderr, "%s%.1f KiB", label, (double)bytes / 1024);
	else
		fprintf(stderr, "%s%.1f MiB", label, (double)bytes / (1 << 20));
}

static void print_classes(const json_t *total)
{
	const json_t *class;
	size_t i;

	fprintf(stderr, "  %8s %15s %15s\n", "bytes", "cache misses", "at the end");
	json_array_foreach(json_object_get(total, "by_class"), i, class)
	{
		unsigned long long n = number(class, "misses");

		if (n)
			fprintf(stderr, "  %8llu %15llu %15llu\n", number(class, "size"), n,
				number(class, "in_use"));
	}
}

static void print_memory(const json_t *own, bool alone)
{
	print_bytes("at the end    in use ", number(own, "in_use"));
	print_bytes(", in caches ", number(own, "cached"));
	print_bytes(", behind them ", number(own, "central"));
	print_bytes(", free ", number(own, "free_dirty"));
	print_bytes("\ngiven back    ", number(own, "given_back"));
	fprintf(stderr, " in %llu pieces", number(own, "give_backs"));
	print_bytes("; held at the end ", number(own, "resident"));
	fprintf(stderr, " of memory, at most%s\n", alone ? "" : " (the program itself)");
}

static const char *why_none(const struct run_options *o, int status)
{
	if (WIFSIGNALED(status))
		return "it was killed";
	if (*o->elf && own_malloc(o->elf))
		return "it has a malloc of its own, and uses that";
	return "it ended by _exit, or allocated nothing";
}

static void print_found(const struct run_options *o, int status, const struct found *f)
{
	if (!f->own && o->parts & LIBRARY_MALLOC)
		fprintf(stderr, "nearcpu run: the program left no statistics: %s\n",
			why_none(o, status));
	if (!f->processes)
		return;
	fprintf(stderr, "allocations   %llu small ones missed the cache of a slot; %llu large",
		number(f->total, "misses"), number(f->total, "large_allocations"));
	if (f->processes > 1)
		fprintf(stderr, "; in %u processes", f->processes);
	fputc('\n', stderr);
	if (f->own)
		print_memory(f->own, f->processes == 1);
	print_classes(f->total);
}

static void stats_print(const struct run_options *o, const struct launch_end *end,
			const struct found *f)
{
	const struct rusage *u = &end->usage;

	launch_print_end("run", o->argv[0], end->status);
	fprintf(stderr, "time          %.3f s wall, %.3f s user, %.3f s system\n", end->wall_s,
		to_seconds(u->ru_utime), to_seconds(u->ru_stime));
	fprintf(stderr, "peak memory   %.1f MiB, %ld page faults, %ld of them from disk\n",
		(double)u->ru_maxrss / 1024, u->ru_minflt + u->ru_majflt, u->ru_majflt);
	print_found(o, end->status, f);
}

/* ---- JSON ---- */

static json_t *make_json(const struct run_options *o, const struct launch_end *end,
			 const struct found *f)
{
	const struct rusage *u = &end->usage;
	json_t *json = run_options_json(o);

	launch_end_json(json, end->status);
	json_object_update_new(
		json,
		json_pack("{s:f, s:f, s:f, s:I, s:I, s:I, s:o, s:O?, s:O?}", "wall_s", end->wall_s,
			  "user_s", to_seconds(u->ru_utime), "system_s", to_seconds(u->ru_stime),
			  "peak_bytes", (json_int_t)u->ru_maxrss * 1024, "minor_faults",
			  (json_int_t)u->ru_minflt, "major_faults", (json_int_t)u->ru_majflt,
			  "processes", f->total ? json_integer(f->processes) : json_null(),
			  "malloc", f->own, "all_processes", f->total));
	return json;
}

static int stats_report(const struct run_options *o, const struct launch_end *end,
			const struct found *f)
{
	if (!o->json) {
		stats_print(o, end, f);
		return 0;
	}
	return finish_stdout("run", output_json("run", o->json, make_json(o, end, f)));
}

/* Makes the libraries write statistics. */
static bool set_conf(struct run_options *o, const char *dir)
{
	char path[PATH_MAX + 4];

	snprintf(path, sizeof(path), "%s/%%p", dir);
	return (!(o->parts & LIBRARY_MALLOC) || run_add_conf(o, "malloc_stats:", path)) &&
	       (!(o->parts & LIBRARY_ATOMIC) || run_add_conf(o, "atomic_stats:", "1"));
}

int run_stats(struct run_options *o)
{
	struct spawn program = {.argv = o->argv, .in = -1, .out = -1, .err = -1};
	struct launch_end end = {0};
	struct found found = {0};
	const bool with_malloc = o->parts & LIBRARY_MALLOC;
	char dir[PATH_MAX] = "";
	int code, err = with_malloc ? make_directory(dir) : 0;

	if (err)
		return failure("run", "cannot make a directory in TMPDIR: %s", strerror(-err));
	if (!set_conf(o, dir)) {
		if (with_malloc)
			rmdir(dir);
		return failure("run", "NEAR_CONF is too long");
	}
	program.set = run_settings(o);
	err = launch_with_signals(&program, &end);
	if (with_malloc)
		collect(dir, end.pid, &found);
	code = err ? 0 : stats_report(o, &end, &found);
	json_decref(found.own);
	json_decref(found.total);
	if (err)
		return launch_failure("run", o->argv[0], err);
	launch_end_as(end.status, code);
}
