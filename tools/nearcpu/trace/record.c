/* SPDX-License-Identifier: MIT */
/* nearcpu trace record: a program whose tracepoints are on from the first one, by NEAR_CONF. */
#include "trace/print.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/options.h"
#include "common/spawn.h"
#include "common/tool.h"

static const char *output, *mode, *ring, *max, *file, *files, *level, *names;
static bool children;

static const struct option_row rows[] = {
	{"output", "FOLDER", .string = &output,
	 .help = "where each process makes its file (one in /dev/shm)"},
	{"mode", "MODE", .string = &mode,
	 .help = "overwrite: the newest events stay; stop: the oldest;\n"
		 "stream: they move to further files (overwrite)"},
	{"ring", "BYTES", .string = &ring, .help = "of each ring: 256k to 1g (1m)"},
	{"max", "BYTES", .string = &max, .help = "of all rings of a process (no bound)"},
	{"file-size", "BYTES", .string = &file, .help = "of a further file of a stream (64m)"},
	{"files", "N", .string = &files, .help = "how many of these stay (4)"},
	{"level", "LEVEL", .string = &level, .help = "events at least that important (debug)"},
	{"name", "PATTERN,...", .string = &names, .help = "only tracepoints with such a name"},
	{"children", .flag = &children,
	 .help = "children of fork have a thread, which takes orders and\nstreams at any time"},
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

static bool is_one_of(const char *word, const char *const *words)
{
	for (; *words; words++)
		if (strcmp(word, *words) == 0)
			return true;
	return false;
}

/* As NEAR_CONF takes it. */
static bool is_size(const char *s)
{
	size_t digits = strspn(s, "0123456789");

	return digits && (!s[digits] || (strchr("kmg", s[digits]) && !s[digits + 1]));
}

static const struct setting {
	const char *key, *const *value, *option;
	bool is_size;
} settings[] = {
	{",trace_mode:", &mode, "--mode", false},    {",trace_ring:", &ring, "--ring", true},
	{",trace_max:", &max, "--max", true},        {",trace_file:", &file, "--file-size", true},
	{",trace_files:", &files, "--files", true},  {",trace_level:", &level, "--level", false},
	{",trace_enable:", &names, "--name", false},
};
#define SETTINGS (sizeof(settings) / sizeof(*settings))

static int check(void)
{
	static const char *const modes[] = {"overwrite", "stop", "stream", NULL};
	static const char *const levels[] = {"error", "warning", "notice", "info",
					     "debug", "verbose", NULL};

	if (mode && !is_one_of(mode, modes))
		return usage_error("trace", "--mode takes overwrite, stop or stream");
	if ((file || files) && (!mode || strcmp(mode, "stream") != 0))
		return usage_error("trace", "--file-size and --files need --mode stream");
	if (level && !is_one_of(level, levels))
		return usage_error("trace", "--level takes a name, such as warning");
	for (unsigned i = 0; i < SETTINGS; i++)
		if (settings[i].is_size && *settings[i].value && !is_size(*settings[i].value))
			return usage_error("trace", "%s takes a number, such as %s",
					   settings[i].option,
					   settings[i].value == &files ? "8" : "4m");
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
		fputs(settings[i].key, to);
		for (; *value; value++)
			fputc(*value == ',' ? '+' : *value, to);
	}
	if (children)
		fputs(",trace_children:thread", to);
}

static bool make_conf(char **conf, const char *folder)
{
	size_t size;
	FILE *to = open_memstream(conf, &size);

	if (!to)
		return false;
	write_conf(to, folder);
	return fclose(to) == 0;
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

/* As a shell does: the terminal's signals are the program's. Others are passed on. */
static volatile sig_atomic_t recorded;

static void pass_on(int signal)
{
	int saved = errno;

	kill((pid_t)recorded, signal); /* it may have ended */
	errno = saved;
}

static void leave_signals_to(pid_t pid)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};
	const struct sigaction passed = {.sa_handler = pass_on, .sa_flags = SA_RESTART};

	recorded = pid;
	sigaction(SIGINT, &ignored, NULL);
	sigaction(SIGQUIT, &ignored, NULL);
	sigaction(SIGTERM, &passed, NULL);
	sigaction(SIGHUP, &passed, NULL);
	sigaction(SIGUSR1, &passed, NULL);
	sigaction(SIGUSR2, &passed, NULL);
}

/* The program's status, or its signal. */
static int wait_for(pid_t pid)
{
	int status = 0;

	leave_signals_to(pid);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	return 128 + WTERMSIG(status);
}

/* A folder that this command has made goes with the message. */
static void report(const char *folder)
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

int trace_record(int argc, char **argv)
{
	char *conf = NULL, *folder;
	const char *set[] = {"NEAR_CONF", NULL, NULL};
	int code, err;
	pid_t pid;

	output = mode = ring = max = file = files = level = names = NULL;
	children = false;
	code = parse_options(&table, argc, argv);
	if (code != OPTIONS_DONE)
		return code;
	code = check();
	if (code)
		return code;
	if (optind >= argc)
		return usage_error("trace", "no program given");
	folder = make_folder();
	if (!folder)
		return EXIT_FAILED;
	err = -ENOMEM;
	if (make_conf(&conf, folder)) {
		const struct spawn program = {argv + optind, set, .in = -1, .out = -1, .err = -1};

		set[1] = conf;
		announce(folder);
		err = spawn(&program, &pid);
	}
	if (!err) {
		code = wait_for(pid);
		report(folder);
	} else {
		code = err == -ENOENT ? 127 : 126;
		failure("trace", "cannot run '%s': %s", argv[optind], strerror(-err));
		if (!output)
			rmdir(folder);
	}
	free(folder);
	free(conf);
	return code;
}
