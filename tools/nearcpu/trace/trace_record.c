/* SPDX-License-Identifier: MIT */
/* nearcpu trace record: a program whose tracepoints are on from the first one, by NEAR_CONF. */
#include "trace/print.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/options.h"
#include "common/settings.h"
#include "common/launch.h"
#include "common/memory.h"
#include "common/text.h"

static const char *output, *mode, *ring, *max, *file, *files, *level, *names, *context;
static char triggers[2048]; /* separated by `;` */
static bool children, sched, sched_all;

static int take_trigger(const struct option_row *row, const char *value)
{
	struct text text = {triggers, sizeof(triggers)};

	(void)row;
	say(&text, "%s%s", *triggers ? ";" : "", value);
	if (strpbrk(value, ",;+") || strlen(triggers) + 1 == sizeof(triggers))
		return usage_error("trace", "--trigger takes no text with a comma, ; or +");
	return 0;
}

static const struct option_row rows[] = {
	{"output", "FOLDER", .string = &output,
	 .help = "where each process makes its file (one in /dev/shm)"},
	{"mode", "MODE", .string = &mode, .wants = "overwrite, stop or stream",
	 WORDS("overwrite", "stop", "stream"),
	 .help = "overwrite: the newest events stay; stop: the oldest;\n"
		 "stream: they move to further files (overwrite)"},
	{"ring", "BYTES", .string = &ring, .help = "of each ring: 256k to 1g (1m)"},
	{"max", "BYTES", .string = &max, .help = "of all rings of a process (no bound)"},
	{"file-size", "BYTES", .string = &file, .help = "of a further file of a stream (64m)"},
	{"files", "N", .string = &files, .help = "how many of these stay (4)"},
	{"level", "LEVEL", .string = &level, .words = ROWS(trace_levels + 1),
	 .wants = "a name, such as warning", .help = "events at least that important (debug)"},
	{"name", "PATTERN,...", .string = &names, .help = "only tracepoints with such a name"},
	{"context", "KIND,...", .string = &context, WORDS("ids", "thread", "process", "stack"),
	 .help = "what all events have besides: ids, thread, process,\nstack"},
	{"trigger", "TEXT", .take = take_trigger,
	 .help = "such an event takes a snapshot, as of near_trace_trigger(3):\n"
		 "'shop:order if total>100 after 1s'; more than once"},
	{"children", .flag = &children,
	 .help = "children of fork have a thread, which takes orders and\nstreams at any time"},
	{"sched", .flag = &sched, .help = "besides, when its threads run: to sched-N.trace there"},
	{"sched-all", .flag = &sched_all,
	 .help = "the same of all processes, and wake-ups; for root"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "trace",
	.rows = rows,
	.width = 22,
	.stops = true,
	.head = "usage: nearcpu trace record [OPTION...] [--] PROGRAM [ARGUMENT...]\n\n"
		"Runs a program that has tracepoints of near_trace(3), with these switched on.\n\n",
	.tail = "\nExit status: that of the program; 126 if it cannot be run, 127 if it was not "
		"found.\n",
};

static const struct setting {
	const char *key, *const *value, *option, *wants; /* wants: NULL: any text or checked */
} settings[] = {
	{"trace_mode", &mode, "--mode", NULL},
	{"trace_ring", &ring, "--ring", "a number, such as 4m"},
	{"trace_max", &max, "--max", "a number, such as 4m"},
	{"trace_file", &file, "--file-size", "a number, such as 4m"},
	{"trace_files", &files, "--files", "a number, such as 8"},
	{"trace_level", &level, "--level", NULL},
	{"trace_enable", &names, "--name", NULL},
	{"trace_context", &context, "--context", NULL},
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))

static int record_check(void)
{
	for (const struct setting *s = settings; s < settings + SETTINGS; s++)
		if (*s->value && s->wants && !setting_takes(s->key, *s->value))
			return usage_error("trace", "%s takes %s", s->option, s->wants);
	if ((file || files) && (!mode || strcmp(mode, "stream") != 0))
		return usage_error("trace", "--file-size and --files need --mode stream");
	if (*triggers && mode && strcmp(mode, "overwrite") != 0)
		return usage_error("trace", "--trigger needs --mode overwrite");
	if (output && strchr(output, ','))
		return usage_error("trace", "--output takes no name with a comma");
	return EXIT_DONE;
}

/* Programs may have other working directories. */
static char *make_folder(void)
{
	char new[] = "/dev/shm/nearcpu-XXXXXX";
	char *path;

	if (!output)
		path = mkdtemp(new) ? strdup(new) : NULL;
	else if (mkdir(output, 0777) && errno != EEXIST)
		path = NULL;
	else
		path = realpath(output, NULL);
	if (!path)
		failure("trace", "cannot make '%s': %s", output ? output : new, strerror(errno));
	return path;
}

/* Patterns are separated by `+` there. */
static void write_conf(FILE *to, const char *folder)
{
	const char *had = getenv("NEAR_CONF");

	fprintf(to, "%s%strace:%s", had ? had : "", had && *had ? "," : "", folder);
	for (unsigned i = 0; i < SETTINGS; i++) {
		const char *value = *settings[i].value;

		if (!value)
			continue;
		fprintf(to, ",%s:", settings[i].key);
		for (; *value; value++)
			fputc(*value == ',' ? '+' : *value, to);
	}
	if (*triggers)
		fputs(",trace_trigger:", to);
	for (const char *c = triggers; *c; c++)
		fputc(*c == ' ' || *c == '\t' ? '+' : *c, to);
	if (children)
		fputs(",trace_children:thread", to);
}

static bool is_empty(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	while (d && n <= 2 && readdir(d))
		n++; /* `.` and `..`, too */
	if (d)
		closedir(d);
	return d && n <= 2;
}

/* A folder that this command has made goes with the message. */
static void record_report(const char *folder)
{
	if (!is_empty(folder))
		return;
	fprintf(stderr, "nearcpu trace: no process made a trace: the program has no tracepoints of "
			"near_trace(3)\n");
	if (!output)
		rmdir(folder);
}

static void announce(const char *folder)
{
	struct statfs fs;

	fprintf(stderr, "nearcpu trace: the events go to %s\n", folder);
	if (statfs(folder, &fs) == 0 && fs.f_type != TMPFS_MAGIC && fs.f_type != RAMFS_MAGIC)
		fprintf(stderr, "nearcpu trace: warning: this is on a disk, whose writing back may "
				"delay the program\n");
}

/* Its exit status. */
static int record_run(char **argv, const char *folder, const char *conf)
{
	const char *set[] = {"NEAR_CONF", conf, NULL};
	struct spawn program = {.argv = argv, .set = set, .in = -1, .out = -1, .err = -1};
	struct launch_end end;
	int err;

	launch_begin();
	sched |= sched_all;
	if (sched && trace_sched_start(folder, ring ? ring : "1m", sched_all)) {
		if (!output)
			rmdir(folder);
		return EXIT_FAILED;
	}
	announce(folder);
	err = launch_with_signals(&program, &end);
	if (sched)
		trace_sched_stop(!err);
	if (!err) {
		record_report(folder);
		return launch_exit_code(end.status);
	}
	if (!output)
		rmdir(folder);
	return launch_failure("trace", argv[0], err);
}

int trace_record(int argc, char **argv)
{
	struct memory_file conf;
	char *folder;
	int code;

	output = mode = ring = max = file = files = level = names = context = NULL;
	children = sched = sched_all = false;
	*triggers = 0;
	code = parse_options(&table, argc, argv);
	if (code != OPTIONS_DONE)
		return code;
	code = record_check();
	if (code)
		return code;
	if (optind >= argc)
		return usage_error("trace", "no program given");
	folder = make_folder();
	if (!folder)
		return EXIT_FAILED;
	write_conf(memory_open(&conf), folder);
	memory_close(&conf);
	code = record_run(argv + optind, folder, conf.text);
	free(folder);
	free(conf.text);
	return code;
}
