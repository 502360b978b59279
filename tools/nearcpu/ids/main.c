/* SPDX-License-Identifier: MIT */
/* nearcpu ids: which concurrency ids, CPUs and nodes the threads of a program used. */
#include "ids/ids.h"

#include <getopt.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "common/installed.h"
#include "common/launch.h"
#include "common/options.h"
#include "common/output.h"
#include "common/tool.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

static struct ids f = {.interval = 1000, .size = 64};
static const char *html, *json;

static const struct option_row rows[] = {
	{"html", "FILE", .string = &html, .help = "a page with lanes of threads, ids and CPUs"},
	{"json", "FILE", .string = &json, .help = "the results as JSON; - is standard output"},
	{"size", "BYTES", .number = &f.size, .least = 1, .most = UINT64_C(1) << 40,
	 .wants = "a number of bytes, at least 1",
	 .help = "of each copy of the data that would be per CPU, per\nthread or per id (64)"},
	{"interval", "US", .number = &f.interval, .least = 100, .most = 10000000,
	 .wants = "microseconds, 100 to 10000000", .help = "microseconds between samples (1000)"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "ids",
	.rows = rows,
	.width = 18,
	.stops = true,
	.head = "usage: nearcpu ids [OPTION...] [--] PROGRAM [ARGUMENT...]\n\n"
		"Runs a program, as it is, and prints on standard error which concurrency ids,\n"
		"CPUs and nodes its threads used, and how many copies data per CPU, per thread\n"
		"and per id would have had.\n\n",
	.tail = "\nExit status: that of the program; 126 if it cannot be observed, 127 if it was "
		"not\nfound.\n",
};

/* The kernel does not grant privileges to a program that this process observes. 0; else the exit
 * status. */
static int check_rights(void)
{
	char path[PATH_MAX];
	const char *why, *name = f.argv[0];

	if (geteuid() == 0)
		return 0;
	if (!strchr(name, '/'))
		name = find_in_path(name, path) ? "" : path;
	why = launch_rights(name);
	if (!why)
		return 0;
	failure("ids",
		"'%s' gets more rights than you have (%s): it cannot be observed, except by root",
		f.argv[0], why);
	return LAUNCH_CANNOT;
}

static int cannot_observe(int err)
{
	failure("ids",
		"cannot observe '%s': ptrace is refused (%s), by a seccomp filter of this "
		"container, by a debugger of this command, or by "
		"/proc/sys/kernel/yama/ptrace_scope",
		f.argv[0], strerror(-err));
	return LAUNCH_CANNOT;
}

static int ids_report(void)
{
	int code = 0, other = 0;

	ids_print(&f);
	if (html)
		code = ids_html(&f, html);
	if (json)
		other = output_json("ids", json, ids_json(&f));
	return finish_stdout("ids", code ? code : other);
}

int ids_main(int argc, char **argv)
{
	int exec_error = 0, err, code = parse_options(&table, argc, argv);

	if (code != OPTIONS_DONE)
		return code;
	f.argv = argv + optind;
	if (!f.argv[0])
		return usage_error("ids", "no program given");
	code = check_rights();
	code = code ? code : output_check("ids", html);
	code = code ? code : output_check("ids", json);
	if (code)
		return code;
	machine_read(&f.machine);
	/* node_id and mm_cid end at 28 bytes. */
	f.with_cid = getauxval(AT_RSEQ_FEATURE_SIZE) >= 28;
	f.with_areas = true;
	f.gap = f.interval;
	launch_begin();
	err = ids_follow(&f, &exec_error);
	if (err)
		return cannot_observe(err);
	if (exec_error)
		return launch_failure("ids", f.argv[0], exec_error);
	launch_end_as(f.status, f.started ? ids_report() : 0);
}
