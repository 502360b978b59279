/* SPDX-License-Identifier: MIT */
/* nearcpu bench: measure the structures beside what programs use instead. */
#include "common/child.h"
#include "common/output.h"
#include "bench/report.h"
#include "bench/scale.h"
#include "bench/suite.h"
#include "common/tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define REPEAT 7
#define REPEAT_QUICK 5

static void print_help(void)
{
	printf("usage: nearcpu bench [BENCHMARK...] [OPTION...]\n\n"
	       "Measures each row of a table in processes of its own, repetitions interleaved.\n"
	       "Without a name the core set runs, in at most three minutes.\n\n"
	       "  --list          the benchmarks; with names, their rows\n"
	       "  --quick         shorter measurements: the core set in 20 seconds\n"
	       "  --threads N,... threads at once (1 and one for each CPU)\n"
	       "  --iterations N  operations of each thread (as the benchmark says)\n"
	       "  --repeat N      repetitions (%d; with --quick %d; 5 and 3 of malloc's patterns,\n"
	       "                  atomic, locks, park and rwlock)\n"
	       "  --only PART,... of benchmarks that have parts: only these, see --list\n"
	       "  --json FILE     every sample and what was made of them; - is standard output\n"
	       "  --html FILE     a page with tables and plots, readable without network\n"
	       "  --report        instead of tables, one text about this machine, to be pasted\n"
	       "                  into an issue; 1, 2, 4 ... threads up to one for each CPU\n"
	       "  --help          this text\n"
	       "  --version       the version\n",
	       REPEAT, REPEAT_QUICK);
}

static bool is_benchmark(const char *name)
{
	for (size_t i = 0; bench_registry[i]; i++)
		if (strcmp(bench_registry[i]->name, name) == 0)
			return true;
	return false;
}

static bool is_named(const struct bench_options *o, const char *name)
{
	for (size_t i = 0; i < o->name_count; i++)
		if (strcmp(o->names[i], name) == 0)
			return true;
	return !o->name_count;
}

enum { STOP = -1 }; /* parse_options: go on */

static void list_rows(const struct bench *b)
{
	for (size_t i = 0; i < b->row_count; i++) {
		const struct bench_row *row = &b->rows[i];

		printf("    %-14s %s%s%s%s%s\n", row->name, row->label,
		       row->conf ? "  NEAR_CONF=" : "", row->conf ? row->conf : "",
		       row->tunables ? "  GLIBC_TUNABLES=" : "",
		       row->tunables ? row->tunables : "");
	}
}

static bool is_listed(const struct bench_options *o, const struct bench *b)
{
	return is_named(o, b->name) && bench_is_only(b, o);
}

static const struct bench *next_listed(const struct bench_options *o, const struct bench *const *at)
{
	while (*at && !is_listed(o, *at))
		at++;
	return *at;
}

/* Parts may have the same rows, which are listed once, below the last one. */
static int list(const struct bench_options *o)
{
	for (const struct bench *const *at = bench_registry; *at; at++) {
		const struct bench *b = *at, *next = next_listed(o, at + 1);

		if (!is_listed(o, b))
			continue;
		if (b->part)
			printf("%-12s %-20s %s\n", b->name, b->part, b->title);
		else
			printf("%-12s %s\n", b->name, b->title);
		if (o->name_count && !(next && next->rows == b->rows))
			list_rows(b);
	}
	return EXIT_DONE;
}

/* Each word of --only is a part of what was named. */
static int check_only(const struct bench_options *o)
{
	size_t len;

	for (const char *at = o->only; at; at += len + 1) {
		struct bench_options one = {0};
		char word[32];
		bool known = false;

		len = strcspn(at, ",");
		snprintf(word, sizeof(word), "%.*s", (int)len, at);
		one.only = word;
		for (size_t i = 0; bench_registry[i]; i++)
			known |= is_named(o, bench_registry[i]->name) &&
				 bench_is_only(bench_registry[i], &one);
		if (!known)
			return usage_error("bench",
					   "--only: unknown part '%.*s'; 'nearcpu bench --list "
					   "%s' names them",
					   (int)len, at, o->name_count ? o->names[0] : "malloc");
		if (!at[len])
			break;
	}
	return STOP;
}

static bool parse_threads(const char *text, struct bench_options *o)
{
	char word[16];
	uint64_t n;

	o->thread_counts = 0;
	for (;;) {
		size_t len = strcspn(text, ",");

		if (len >= sizeof(word) || o->thread_counts == MAX_THREAD_COUNTS)
			return false;
		memcpy(word, text, len);
		word[len] = 0;
		if (!parse_number(word, 1, BENCH_MAX_THREADS, &n))
			return false;
		o->threads[o->thread_counts++] = (unsigned)n;
		if (!text[len])
			return true;
		text += len + 1;
	}
}

static int parse_repeat(struct bench_options *o)
{
	uint64_t n;

	if (!parse_number(optarg, 1, MAX_REPEAT, &n))
		return usage_error("bench", "--repeat takes a number from 1 to %d, not '%s'",
				   MAX_REPEAT, optarg);
	o->repeat = (unsigned)n;
	o->repeat_given = true;
	return STOP;
}

/* Applies one option; returns STOP or an exit code. */
static int apply(struct bench_options *o, int c, char **argv, bool *want_list)
{
	switch (c) {
	case 't':
		if (parse_threads(optarg, o))
			return STOP;
		return usage_error("bench", "--threads takes numbers from 1 to %d, not '%s'",
				   BENCH_MAX_THREADS, optarg);
	case 'i':
		if (parse_number(optarg, 1, (uint64_t)1 << 40, &o->iterations))
			return STOP;
		return usage_error("bench", "--iterations takes a number from 1 to 2^40, not '%s'",
				   optarg);
	case 'r':
		return parse_repeat(o);
	case 'o':
		o->only = optarg;
		return STOP;
	case 'J':
		o->json = optarg;
		return STOP;
	case 'H':
		o->html = optarg;
		return STOP;
	case 'l':
		*want_list = true;
		return STOP;
	case 'q':
		o->quick = true;
		return STOP;
	case 'R':
		o->scale = true;
		return STOP;
	case 'h':
		print_help();
		return finish_stdout("bench", EXIT_DONE);
	case 'V':
		print_version();
		return finish_stdout("bench", EXIT_DONE);
	default:
		return option_error("bench", c, argv);
	}
}

static int check_names(const struct bench_options *o)
{
	for (size_t i = 0; i < o->name_count; i++)
		if (!is_benchmark(o->names[i]))
			return usage_error(
				"bench",
				"unknown benchmark '%s'; 'nearcpu bench --list' names them",
				o->names[i]);
	for (size_t i = 0; bench_registry[i] && o->scale && o->names_given; i++)
		if ((bench_registry[i]->pattern || bench_registry[i]->program) &&
		    is_named(o, bench_registry[i]->name))
			return usage_error("bench", "--report has nothing of %s",
					   bench_registry[i]->name);
	return check_only(o);
}

static int parse_options(int argc, char **argv, struct bench_options *o, bool *want_list)
{
	static const struct option options[] = {
		{"threads", required_argument, NULL, 't'},
		{"iterations", required_argument, NULL, 'i'},
		{"repeat", required_argument, NULL, 'r'},
		{"only", required_argument, NULL, 'o'},
		{"json", required_argument, NULL, 'J'},
		{"html", required_argument, NULL, 'H'},
		{"report", no_argument, NULL, 'R'},
		{"list", no_argument, NULL, 'l'},
		{"quick", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	int c, code;

	while ((c = getopt_long(argc, argv, ":hV", options, NULL)) != -1) {
		code = apply(o, c, argv, want_list);
		if (code != STOP)
			return code;
	}
	o->names = argv + optind;
	o->name_count = (size_t)(argc - optind);
	o->names_given = o->name_count;
	code = check_names(o);
	if (code != STOP)
		return code;
	if (o->json && o->html && strcmp(o->json, o->html) == 0)
		return usage_error("bench", "--json and --html cannot both write '%s'", o->json);
	if (o->scale)
		scale_choose(o);
	if (!o->repeat)
		o->repeat = o->quick ? REPEAT_QUICK : REPEAT;
	return STOP;
}

static bool takes_stdout(const char *path)
{
	return path && strcmp(path, "-") == 0;
}

/* Before the long work, not after it. */
static int check_files(const struct bench_options *o)
{
	const char *files[] = {o->json, o->html};

	for (size_t i = 0; i < 2; i++) {
		int err = files[i] && !takes_stdout(files[i]) ? output_check(files[i]) : 0;

		if (err)
			return failure("bench", "cannot write '%s': %s", files[i], strerror(-err));
	}
	return EXIT_DONE;
}

/* Errors of standard output are told at the end. */
static int write_file(const char *path, char *text)
{
	int err = text ? 0 : -ENOMEM;

	if (text && takes_stdout(path))
		write_stdout(text, strlen(text));
	else if (text)
		err = output_write(path, text, strlen(text));
	free(text);
	return err ? failure("bench", "cannot write '%s': %s", path, strerror(-err)) : EXIT_DONE;
}

static int write_files(const struct report *report, char *html)
{
	const struct bench_options *o = &report->options;
	int code = EXIT_DONE;

	if (o->json)
		code |= write_file(o->json, report_json(report));
	if (o->html)
		code |= write_file(o->html, html);
	return code;
}

/* A table that is no line of a suite was shown before. */
static bool report_is_begun(const struct report *report, const struct table_result *t)
{
	for (const struct table_result *before = report->tables; before < t; before++)
		if (!before->bench->together)
			return true;
	return false;
}

/* Goes on without a reader if files are to be written. */
static bool print_table(const struct report *report, const struct table_result *t)
{
	if (t->bench->together) {
		suite_text_line(t);
	} else {
		if (!report_is_begun(report, t))
			text_legend();
		text_table(t);
	}
	return flush_stdout() || report->options.json || report->options.html;
}

static bool print_nothing(const struct report *report, const struct table_result *t)
{
	(void)report;
	(void)t;
	return true;
}

static int run(struct report *report)
{
	const struct bench_options *o = &report->options;
	bool quiet = takes_stdout(o->json) || takes_stdout(o->html);
	char *html = NULL;
	int code = check_files(o), err;

	if (code)
		return code;
	child_catch_signals();
	machine_read(&report->machine);
	scale_begin(&report->noise);
	err = report_run(report, quiet || o->scale ? print_nothing : print_table);
	if (!err && o->html)
		err = report_html(report, &html);
	if (o->scale && !quiet && (!err || child_interrupted()))
		scale_print(report, child_interrupted() ? "interrupted"
				    : report->cut       ? "time was up"
							: NULL);
	if (child_interrupted()) {
		if (!quiet)
			suite_text_end(report);
		free(html);
		failure("bench", "interrupted; no file was written");
		return 128 + child_interrupted();
	}
	if (err)
		return failure("bench", "cannot measure: %s", strerror(-err));
	if (!quiet && !o->scale) {
		suite_text_end(report);
		text_end(report);
	}
	code = write_files(report, html);
	if (report_failed(report))
		code = failure("bench", "some rows failed; the table says which, and why");
	return finish_stdout("bench", code);
}

int bench_main(int argc, char **argv)
{
	struct report *report;
	bool want_list = false;
	int code;

	if (argc > 1 && strcmp(argv[1], "--row") == 0)
		return row_main(argc - 2, argv + 2);
	report = calloc(1, sizeof(*report));
	if (!report)
		return failure("bench", "not enough memory");
	code = parse_options(argc, argv, &report->options, &want_list);
	if (code == STOP)
		code = want_list ? finish_stdout("bench", list(&report->options)) : run(report);
	report_free(report);
	free(report);
	return code;
}
