/* SPDX-License-Identifier: MIT */
/* nearcpu run: a program that was not built for it, on the library's malloc. */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "tool.h"

enum {
	OPT_STATS = 256,
	OPT_COMPARE,
	OPT_REPEAT,
	OPT_INPUT,
	OPT_OUTPUT,
	OPT_JSON,
	OPT_LIBRARY,
	OPT_CONF,
	OPT_NO_RSEQ,
	OPT_CHECK,
	OPT_BACKGROUND,
	OPT_HEAP_PROFILE,
};

static const struct option options[] = {
	{"stats", no_argument, NULL, OPT_STATS},
	{"compare", no_argument, NULL, OPT_COMPARE},
	{"repeat", required_argument, NULL, OPT_REPEAT},
	{"input", required_argument, NULL, OPT_INPUT},
	{"output", required_argument, NULL, OPT_OUTPUT},
	{"json", required_argument, NULL, OPT_JSON},
	{"library", required_argument, NULL, OPT_LIBRARY},
	{"conf", required_argument, NULL, OPT_CONF},
	{"no-rseq", no_argument, NULL, OPT_NO_RSEQ},
	{"check", no_argument, NULL, OPT_CHECK},
	{"background", no_argument, NULL, OPT_BACKGROUND},
	{"heap-profile", required_argument, NULL, OPT_HEAP_PROFILE},
	{"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'V'},
	{NULL, 0, NULL, 0},
};

static void print_help(void)
{
	printf("usage: nearcpu run [OPTION...] [--] PROGRAM [ARGUMENT...]\n\n"
	       "Runs a program, as it is, on the malloc of this library.\n\n"
	       "  --stats                at the end, on standard error: time, memory, allocations\n"
	       "  --compare              runs it with the system's malloc and with ours in turn:\n"
	       "                         time, memory, page faults, and the ratios\n"
	       "  --repeat N             so often each (5)\n"
	       "  --input FILE           standard input of each run (nothing)\n"
	       "  --output FILE          keeps the standard output of one run\n"
	       "  --json FILE            what --stats or --compare found, as JSON; - is standard\n"
	       "                         output\n"
	       "  --no-rseq              takes the portable path\n"
	       "  --check                finds bugs: canaries, filling, quarantine\n"
	       "  --background           a thread gives memory back while the program is idle\n"
	       "  --heap-profile PREFIX  samples allocations, for pprof\n"
	       "  --conf KEY:VALUE,...   any setting of NEAR_CONF\n"
	       "  --library FILE         the library to preload\n"
	       "  --help                 this text\n"
	       "  --version              the version\n\n"
	       "Exit status: that of the program; 126 if it cannot be run so, 127 if it was not\n"
	       "found. With --compare: 0, or 1 if a run failed.\n");
}

/* Appends "key:value" to the settings of the program. */
static int add_conf(struct run_options *o, const char *key, const char *value)
{
	size_t used = strlen(o->conf);
	int n = snprintf(o->conf + used, sizeof(o->conf) - used, "%s%s%s", used ? "," : "", key,
			 value);

	if (n < 0 || (size_t)n >= sizeof(o->conf) - used)
		return usage_error("run", "the settings are too long");
	return 0;
}

static int take_option(struct run_options *o, int c, char **argv)
{
	uint64_t n;

	switch (c) {
	case OPT_STATS:
		o->stats = true;
		return 0;
	case OPT_COMPARE:
		o->compare = true;
		return 0;
	case OPT_REPEAT:
		if (!parse_number(optarg, 1, 1000, &n))
			return usage_error("run", "--repeat takes a number from 1 to 1000");
		o->repeat = (unsigned)n;
		return 0;
	case OPT_INPUT:
		o->input = optarg;
		return 0;
	case OPT_OUTPUT:
		o->output = optarg;
		return 0;
	case OPT_JSON:
		o->json = optarg;
		return 0;
	case OPT_LIBRARY:
		o->library = optarg;
		return 0;
	case OPT_CONF:
		return add_conf(o, optarg, "");
	case OPT_NO_RSEQ:
		return add_conf(o, "rseq:off", "");
	case OPT_CHECK:
		return add_conf(o, "malloc_check:1", "");
	case OPT_BACKGROUND:
		return add_conf(o, "malloc_background:1", "");
	case OPT_HEAP_PROFILE:
		return add_conf(o, "heap_profile:", optarg);
	default:
		return option_error("run", c, argv);
	}
}

/* 0; else the exit status. */
static int check_options(struct run_options *o)
{
	if (!o->argv[0])
		return usage_error("run", "no program given");
	if (o->stats && o->compare)
		return usage_error("run", "--stats and --compare exclude each other");
	if ((o->repeat || o->input || o->output) && !o->compare)
		return usage_error("run", "--repeat, --input and --output go with --compare");
	if (o->json && !o->stats && !o->compare)
		return usage_error("run", "--json goes with --stats or --compare");
	if (!o->repeat)
		o->repeat = 5;
	return 0;
}

static int find_library(const struct run_options *o, char path[PATH_MAX])
{
	if (o->library && !realpath(o->library, path))
		return failure("run", "cannot use '%s': %s", o->library, strerror(errno));
	if (!o->library && run_find_library(path))
		return failure(
			"run",
			"libnearcpu-malloc.so.0 was found neither beside '%s' nor where this "
			"program's libraries are installed: build it (NEAR_SHARED=ON), or "
			"name it with --library",
			path);
	if (strpbrk(path, ": \t\n"))
		return failure("run",
			       "LD_PRELOAD cannot name '%s': it has a colon or a space; copy it "
			       "elsewhere, and name it with --library",
			       path);
	return 0;
}

/* Ours first, so that its malloc is found before that of others. */
static int set_preload(struct run_options *o, const char *library)
{
	const char *had = getenv("LD_PRELOAD");
	int n = snprintf(o->preload, sizeof(o->preload), "%s%s%s", library, had && *had ? ":" : "",
			 had ? had : "");

	if (n < 0 || (size_t)n >= sizeof(o->preload))
		return failure("run", "LD_PRELOAD is too long");
	return 0;
}

/* Before the long work. */
static int check_output(const char *path)
{
	int err = output_check(path);

	return err ? failure("run", "cannot write '%s': %s", path, strerror(-err)) : 0;
}

static int prepare(struct run_options *o)
{
	char library[PATH_MAX], why[3 * PATH_MAX];
	int code = find_library(o, library);

	code = code ? code : set_preload(o, library);
	if (code)
		return code;
	code = run_find_program(o->argv[0], library, o->path, why, sizeof(why));
	if (code) {
		failure("run", "%s", why);
		return code;
	}
	if (o->json && strcmp(o->json, "-") != 0)
		code = check_output(o->json);
	return code || !o->output ? code : check_output(o->output);
}

static int become(const struct run_options *o)
{
	struct run_child child = {o, o->conf, true, false, -1, -1, -1};
	int err = run_become(&child);

	failure("run", "cannot run '%s': %s", o->argv[0], strerror(-err));
	return err == -ENOENT ? RUN_NOT_FOUND : RUN_CANNOT;
}

json_t *run_argv_json(const struct run_options *o)
{
	json_t *argv = json_array();

	for (char *const *a = o->argv; *a; a++) {
		json_t *word = json_string(*a);

		json_array_append_new(argv, word ? word : json_null());
	}
	return argv;
}

int run_write_json(const char *path, json_t *json)
{
	char *text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
	size_t len = text ? strlen(text) : 0;
	int err = 0;

	json_decref(json);
	if (!text)
		return failure("run", "not enough memory");
	text[len++] = '\n'; /* in place of its end */
	if (strcmp(path, "-") == 0)
		write_stdout(text, len);
	else
		err = output_write(path, text, len);
	free(text);
	return err ? failure("run", "cannot write '%s': %s", path, strerror(-err)) : 0;
}

int run_main(int argc, char **argv)
{
	static struct run_options o;
	const char *had = getenv("NEAR_CONF");
	int c, code = had && *had ? add_conf(&o, had, "") : 0;

	while (!code && (c = getopt_long(argc, argv, "+:hV", options, NULL)) != -1) {
		if (c == 'h' || c == 'V') {
			c == 'h' ? print_help() : print_version();
			return finish_stdout("run", EXIT_DONE);
		}
		code = take_option(&o, c, argv);
	}
	o.argv = argv + optind;
	code = code ? code : check_options(&o);
	code = code ? code : prepare(&o);
	if (code)
		return code;
	if (!o.stats && !o.compare)
		return become(&o);
	run_begin();
	return o.stats ? run_stats(&o) : run_compare(&o);
}
