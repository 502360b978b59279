/* SPDX-License-Identifier: MIT */
/* nearcpu run: an unmodified program on the malloc or the libatomic of this library. */
#include "run/run.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"
#include "common/output.h"
#include "common/own_malloc.h"
#include "common/settings.h"
#include "common/spread.h"
#include "common/text.h"
#include "common/tool.h"

static struct run_options o;
static bool with_malloc, with_atomic;

bool run_add_conf(struct run_options *to, const char *key, const char *value)
{
	struct text conf = {to->conf, sizeof(to->conf)};

	if (strlen(to->conf) + strlen(key) + strlen(value) + 2 > sizeof(to->conf))
		return false;
	say(&conf, "%s%s%s", to->conf[0] ? "," : "", key, value);
	return true;
}

static int add_conf(const char *key, const char *value)
{
	return run_add_conf(&o, key, value) ? 0 : usage_error("run", "the settings are too long");
}

/* A setting ends at a comma. */
static int take_setting(const struct option_row *row, const char *value)
{
	if (value && strchr(value, ','))
		return usage_error("run", "--%s cannot take '%s': it has a comma", row->name,
				   value);
	return add_conf(row->data, value ? value : "");
}

static int take_conf(const struct option_row *row, const char *value)
{
	int code = add_conf(row->data, value);

	return code ? code : settings_check(value);
}

/* A setting of the malloc alone. */
static int take_malloc_setting(const struct option_row *row, const char *value)
{
	o.malloc_option = row->name;
	return take_setting(row, value);
}

/* The program's children may be in other directories. */
static int take_region(const struct option_row *row, const char *value)
{
	char folder[PATH_MAX] = "", path[2 * PATH_MAX + 2];

	if (value[0] != '/' && !getcwd(folder, sizeof(folder)))
		return failure("run", "cannot name the current directory: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s%s%.*s", folder, *folder ? "/" : "", PATH_MAX, value);
	return take_malloc_setting(row, path);
}

static const struct option_row rows[] = {
	{"malloc", .flag = &with_malloc, .help = "on its malloc: the default without --atomic"},
	{"atomic", .flag = &with_atomic, .help = "on its libatomic; with --malloc on both"},
	{"stats", .flag = &o.stats,
	 .help = "at the end, on standard error: time, memory,\n"
		 "allocations, counts of the libatomic"},
	{"compare", .flag = &o.compare,
	 .help = "runs it with the system's and with ours in turn:\n"
		 "time, memory, page faults, and the ratios"},
	{"repeat", "N", .number = &o.repeat, .least = 1, .most = MAX_REPEAT,
	 .wants = "a number from 1 to 1000", .help = "number of runs of each (5)"},
	{"input", "FILE", .string = &o.input, .help = "standard input of each run (nothing)"},
	{"output", "FILE", .string = &o.output, .help = "keeps the standard output of one run"},
	{"json", "FILE", .string = &o.json,
	 .help = "the results of --stats or --compare as JSON; - is\nstandard output"},
	{"no-rseq", .take = take_setting, .data = "rseq:off", .help = "takes the portable path"},
	{"check", .take = take_malloc_setting, .data = "malloc_check:1",
	 .help = "finds bugs: canaries, filling, quarantine"},
	{"background", .take = take_malloc_setting, .data = "malloc_background:1",
	 .help = "a thread returns memory while the program is idle"},
	{"region", "FILE", .take = take_region, .data = "malloc_region:",
	 .help = "all processes publish statistics of the malloc there,\nfor nearcpu stats FILE"},
	{"heap-profile", "PREFIX", .take = take_malloc_setting,
	 .data = "heap_profile:", .help = "samples allocations, for pprof"},
	{"conf", "KEY:VALUE,...", .take = take_conf, .data = "",
	 .help = "any setting of NEAR_CONF"},
	{"library", "FILE", .string = &o.library, .help = "the library to preload"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "run",
	.rows = rows,
	.width = 25,
	.stops = true,
	.head = "usage: nearcpu run [OPTION...] [--] PROGRAM [ARGUMENT...]\n\n"
		"Runs a program, as it is, on the malloc or libatomic of this library.\n\n",
	.tail = "\nExit status: that of the program; 126 if it cannot be run so, 127 if it was "
		"not\nfound. With --compare: 0, or 1 if a run failed.\n",
};

/* 0; else the exit status. */
static int check_options(void)
{
	o.parts = (with_malloc ? LIBRARY_MALLOC : 0u) | (with_atomic ? LIBRARY_ATOMIC : 0u);
	if (!o.argv[0])
		return usage_error("run", "no program given");
	if (o.stats && o.compare)
		return usage_error("run", "--stats and --compare exclude each other");
	if ((o.repeat || o.input || o.output) && !o.compare)
		return usage_error("run", "--repeat, --input and --output go with --compare");
	if (o.json && !o.stats && !o.compare)
		return usage_error("run", "--json goes with --stats or --compare");
	if (!o.parts)
		o.parts = LIBRARY_MALLOC;
	if (o.malloc_option && !(o.parts & LIBRARY_MALLOC))
		return usage_error("run", "--%s is for the malloc: give --malloc too",
				   o.malloc_option);
	if (o.library && o.parts == LIBRARY_BOTH)
		return usage_error("run", "--library names one library: not with both --malloc and "
					  "--atomic");
	if (!o.repeat)
		o.repeat = 5;
	return 0;
}

/* ---- the libraries to preload ---- */

static int not_found(enum library library, const char *dir)
{
	if (library == LIBRARY_ATOMIC)
		return failure("run",
			       ATOMIC_SONAME
			       " of nearcpu was found neither in '%s/../libatomic' nor where "
			       "this program's libraries are installed, in nearcpu/: build it "
			       "(NEAR_SHARED=ON), or name it with --library",
			       dir);
	return failure("run",
		       MALLOC_FILE
		       " was found neither next to '%s' nor where this program's libraries are "
		       "installed, in nearcpu/: build it (NEAR_SHARED=ON), or name it with "
		       "--library",
		       dir);
}

static int add_preload(const char *library)
{
	struct text preload = {o.preload, sizeof(o.preload)};

	if (strlen(o.preload) + strlen(library) + 2 > sizeof(o.preload))
		return failure("run", "LD_PRELOAD is too long");
	say(&preload, "%s%s", o.preload[0] ? ":" : "", library);
	return 0;
}

static int add_library(enum library library, char path[PATH_MAX])
{
	if (!(o.parts & library))
		return 0;
	if (o.library && !realpath(o.library, path))
		return failure("run", "cannot use '%s': %s", o.library, strerror(errno));
	if (!o.library && find_library(library, path))
		return not_found(library, path);
	if (strpbrk(path, ": \t\n"))
		return failure("run",
			       "LD_PRELOAD cannot name '%s': it has a colon or a space; copy it "
			       "elsewhere, and name it with --library",
			       path);
	return add_preload(path);
}

/* The library's own first, so that its symbols are found before those of others. */
static int set_preload(void)
{
	const char *had = getenv("LD_PRELOAD");
	int code = add_library(LIBRARY_MALLOC, o.malloc);

	code = code ? code : add_library(LIBRARY_ATOMIC, o.atomic);
	return code || !had || !*had ? code : add_preload(had);
}

/* ---- the program ---- */

static void warn_without_atomic(void)
{
	bool itself = strcmp(o.elf, o.path) == 0;

	failure("run",
		"'%s'%s%s%s does not call libatomic.so.1, nor do its libraries: --atomic matters "
		"only to what it loads or starts",
		o.argv[0], itself ? "" : " (run by '", itself ? "" : o.elf, itself ? "" : "')");
}

/* For people: a service's log has it from --stats, or from nearcpu info. */
static void tell_own_malloc(void)
{
	const char *own = isatty(STDERR_FILENO) && *o.elf ? own_malloc(o.elf) : NULL;

	if (own)
		failure("run",
			"'%s' has a malloc of its own, %s: what it allocates by that stays there",
			strcmp(o.elf, o.path) == 0 ? o.argv[0] : o.elf, own);
}

static int prepare(void)
{
	char why[3 * PATH_MAX];
	int code = set_preload();

	if (code)
		return code;
	code = run_find_program(&o, why, sizeof(why));
	if (code) {
		failure("run", "%s", why);
		return code;
	}
	if (o.parts & LIBRARY_ATOMIC && run_lacks_atomic(o.elf, o.linker))
		warn_without_atomic();
	if (o.parts & LIBRARY_MALLOC)
		tell_own_malloc();
	code = output_check("run", o.json);
	return code ? code : output_check("run", o.output);
}

const char *const *run_settings(struct run_options *options)
{
	const struct {
		const char *name, *value;
	} all[] = {{"NEAR_CONF", options->conf},
		   {"LD_PRELOAD", options->preload},
		   {"LD_LIBRARY_PATH", options->search}};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].value[0]) {
			options->set[n++] = all[i].name;
			options->set[n++] = all[i].value;
		}
	options->set[n] = NULL;
	return options->set;
}

json_t *run_options_json(const struct run_options *options)
{
	json_t *parts = json_array();

	if (options->parts & LIBRARY_MALLOC)
		json_array_append_new(parts, json_string("malloc"));
	if (options->parts & LIBRARY_ATOMIC)
		json_array_append_new(parts, json_string("atomic"));
	return json_pack("{s:o, s:o}", "program", launch_arguments_json(options->argv), "libraries",
			 parts);
}

static int run_become(void)
{
	/* Not o.path: the program may use its name. A name without a slash is searched again. */
	const struct spawn program = {o.argv, run_settings(&o), .in = -1, .out = -1, .err = -1};

	return launch_failure("run", o.argv[0], spawn_become(&program));
}

int run_main(int argc, char **argv)
{
	const char *had = getenv("NEAR_CONF");
	int code = had && *had ? add_conf(had, "") : 0;

	if (code)
		return code;
	code = parse_options(&table, argc, argv);
	if (code != OPTIONS_DONE)
		return code;
	o.argv = argv + optind;
	code = check_options();
	code = code ? code : prepare();
	if (code)
		return code;
	if (!o.stats && !o.compare)
		return run_become();
	launch_begin();
	return o.stats ? run_stats(&o) : run_compare(&o);
}
