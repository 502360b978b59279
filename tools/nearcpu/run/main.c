/* SPDX-License-Identifier: MIT */
/* nearcpu run: a program that was not built for it, on the malloc and the libatomic of this
 * library. */
#include "run/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/output.h"
#include "common/tool.h"

enum {
	OPT_MALLOC = 256,
	OPT_ATOMIC,
	OPT_STATS,
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
	{"malloc", no_argument, NULL, OPT_MALLOC},
	{"atomic", no_argument, NULL, OPT_ATOMIC},
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
	       "Runs a program, as it is, on the malloc or libatomic of this library.\n\n"
	       "  --malloc               on its malloc: so without --atomic\n"
	       "  --atomic               on its libatomic; with --malloc on both\n"
	       "  --stats                at the end, on standard error: time, memory,\n"
	       "                         allocations, counts of the libatomic\n"
	       "  --compare              runs it with what the system has and with ours in turn:\n"
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

/* A setting of the malloc alone. */
static int add_malloc_conf(struct run_options *o, const char *option, const char *key,
			   const char *value)
{
	o->of_malloc = option;
	return add_conf(o, key, value);
}

/* Those that become settings; -1: another one. */
static int take_setting(struct run_options *o, int c)
{
	switch (c) {
	case OPT_CONF:
		return add_conf(o, optarg, "");
	case OPT_NO_RSEQ:
		return add_conf(o, "rseq:off", "");
	case OPT_CHECK:
		return add_malloc_conf(o, "--check", "malloc_check:1", "");
	case OPT_BACKGROUND:
		return add_malloc_conf(o, "--background", "malloc_background:1", "");
	case OPT_HEAP_PROFILE:
		return add_malloc_conf(o, "--heap-profile", "heap_profile:", optarg);
	default:
		return -1;
	}
}

static int take_option(struct run_options *o, int c, char **argv)
{
	int code = take_setting(o, c);
	uint64_t n;

	switch (c) {
	case OPT_MALLOC:
		o->parts |= RUN_MALLOC;
		return 0;
	case OPT_ATOMIC:
		o->parts |= RUN_ATOMIC;
		return 0;
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
	default:
		return code >= 0 ? code : option_error("run", c, argv);
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
	if (!o->parts)
		o->parts = RUN_MALLOC;
	if (o->of_malloc && !(o->parts & RUN_MALLOC))
		return usage_error("run", "%s is for the malloc: give --malloc too", o->of_malloc);
	if (o->library && o->parts == RUN_BOTH)
		return usage_error("run", "--library names one library: not with both --malloc and "
					  "--atomic");
	if (!o->repeat)
		o->repeat = 5;
	return 0;
}

/* Before the long work. */
static int check_output(const char *path)
{
	int err = output_check(path);

	return err ? failure("run", "cannot write '%s': %s", path, strerror(-err)) : 0;
}

static void tell_lack(const struct run_options *o)
{
	bool itself = strcmp(o->elf, o->path) == 0;

	failure("run",
		"'%s'%s%s%s does not call libatomic.so.1, nor do its libraries: --atomic matters "
		"only to what it loads or starts",
		o->argv[0], itself ? "" : " (run by '", itself ? "" : o->elf, itself ? "" : "')");
}

static int prepare(struct run_options *o)
{
	char why[3 * PATH_MAX];
	int code = run_set_libraries(o);

	if (code)
		return code;
	code = run_find_program(o, why, sizeof(why));
	if (code) {
		failure("run", "%s", why);
		return code;
	}
	if (o->parts & RUN_ATOMIC && run_lacks_atomic(o->elf, o->linker))
		tell_lack(o);
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

json_t *run_parts_json(const struct run_options *o)
{
	json_t *parts = json_array();

	if (o->parts & RUN_MALLOC)
		json_array_append_new(parts, json_string("malloc"));
	if (o->parts & RUN_ATOMIC)
		json_array_append_new(parts, json_string("atomic"));
	return parts;
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
