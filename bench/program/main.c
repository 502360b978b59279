/* SPDX-License-Identifier: MIT */
/* nearcpu bench: measures the structures next to what programs use instead. */
#include "program/report.h"
#include "common/child.h"
#include "common/options.h"
#include "common/output.h"
#include "common/tool.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define REPEAT 7
#define REPEAT_QUICK 5

static struct report report;
static struct bench_options *const o = &report.options;
static bool want_list;

static const char *names[100]; /* of the benchmarks; those of one name follow each other */

static void names_read(void)
{
	size_t n = 0;

	for (size_t i = 0; bench_registry[i] && n < sizeof(names) / sizeof(*names) - 1; i++)
		if (!n || strcmp(bench_registry[i]->name, names[n - 1]) != 0)
			names[n++] = bench_registry[i]->name;
}

static bool is_named(const char *name)
{
	for (size_t i = 0; i < o->name_count; i++)
		if (strcmp(o->names[i], name) == 0)
			return true;
	return !o->name_count;
}

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

static bool is_listed(const struct bench *b) { return is_named(b->name) && bench_is_only(b, o); }

static const struct bench *next_listed(const struct bench *const *at)
{
	while (*at && !is_listed(*at))
		at++;
	return *at;
}

/* Parts may have the same rows, which are listed once, below the last one. */
static int rows_list(void)
{
	for (const struct bench *const *at = bench_registry; *at; at++) {
		const struct bench *b = *at, *next = next_listed(at + 1);

		if (!is_listed(b))
			continue;
		if (b->part)
			printf("%-12s %-20s %s\n", b->name, b->part, b->title);
		else
			printf("%-12s %s\n", b->name, b->title);
		if (o->name_count && !(next && next->rows == b->rows))
			list_rows(b);
		flush_stdout(); /* which knows the reason if it fails, as a later one does not */
	}
	return EXIT_DONE;
}

/* Each word of --only is a part of what was named. */
static int check_only(void)
{
	char *rest = o->only ? strdupa(o->only) : NULL, *word;

	while ((word = strsep(&rest, ","))) {
		struct bench_options one = {.only = word};
		bool known = false;

		for (size_t i = 0; bench_registry[i]; i++)
			known |= is_named(bench_registry[i]->name) &&
				 bench_is_only(bench_registry[i], &one);
		if (!known)
			return usage_error("bench",
					   "--only: unknown part '%s'; 'nearcpu bench --list %s' "
					   "names them",
					   word, o->name_count ? o->names[0] : "malloc");
	}
	return OPTIONS_DONE;
}

static int take_threads(const struct option_row *row, const char *value)
{
	char *rest = strdupa(value), *word;
	uint64_t n;

	(void)row;
	o->thread_counts = 0;
	while ((word = strsep(&rest, ","))) {
		if (o->thread_counts == MAX_THREAD_COUNTS ||
		    !parse_number(word, 1, BENCH_MAX_THREADS, &n))
			return usage_error("bench",
					   "--threads takes numbers from 1 to %d, not '%s'",
					   BENCH_MAX_THREADS, value);
		o->threads[o->thread_counts++] = (unsigned)n;
	}
	return 0;
}

static int take_iterations(const struct option_row *row, const char *value)
{
	(void)row;
	if (parse_number(value, 1, (uint64_t)1 << 40, &o->iterations))
		return 0;
	return usage_error("bench", "--iterations takes a number from 1 to 2^40, not '%s'", value);
}

static int take_repeat(const struct option_row *row, const char *value)
{
	uint64_t n;

	(void)row;
	if (!parse_number(value, 1, MAX_REPEAT, &n))
		return usage_error("bench", "--repeat takes a number from 1 to %d, not '%s'",
				   MAX_REPEAT, value);
	o->repeat = (unsigned)n;
	o->repeat_given = true;
	return 0;
}

static const struct option_row rows[] = {
	{"list", .flag = &want_list, .help = "the benchmarks; with names, their rows"},
	{"quick", .flag = &report.options.quick,
	 .help = "shorter measurements: the core set in 20 seconds"},
	{"threads", "N,...", .take = take_threads,
	 .help = "numbers of threads (1 and one for each CPU)"},
	{"iterations", "N", .take = take_iterations,
	 .help = "operations of each thread (chosen by the benchmark)"},
	{"repeat", "N", .take = take_repeat,
	 .help = "repetitions (7; with --quick 5; 5 and 3 of malloc's patterns,\n"
		 "atomic, barrier, broadcast, locks, map, park, queue, rwlock and sem)"},
	{"only", "PART,...", .string = &report.options.only,
	 .help = "of benchmarks that have parts: only these, see --list"},
	{"json", "FILE", .string = &report.options.json,
	 .help = "every sample and the figures; - is standard output"},
	{"html", "FILE", .string = &report.options.html,
	 .help = "a page with charts and tables, readable without network"},
	{"report", .flag = &report.options.scale,
	 .help = "how the structures scale, in two minutes: with one thread, one\n"
		 "for each CPU, half as many, and so on"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "bench",
	.rows = rows,
	.width = 18,
	.words = names,
	.head = "usage: nearcpu bench [BENCHMARK...] [OPTION...]\n\n"
		"Measures each row of a table in processes of its own, repetitions interleaved.\n"
		"Without a name the core set runs, in at most three minutes.\n\n",
	.tail = "",
};

static int check_names(void)
{
	for (size_t i = 0; i < o->name_count; i++)
		if (!name_find(ROWS(names), o->names[i]))
			return unknown_name("bench", "benchmark", o->names[i],
					    "; 'nearcpu bench --list' names them", ROWS(names));
	for (size_t i = 0; bench_registry[i] && o->scale && o->name_count; i++)
		if ((bench_registry[i]->pattern || bench_registry[i]->program) &&
		    is_named(bench_registry[i]->name))
			return usage_error("bench", "--report has nothing of %s",
					   bench_registry[i]->name);
	return check_only();
}

/* OPTIONS_DONE, or an exit status. */
static int read_options(int argc, char **argv)
{
	int code = parse_options(&table, argc, argv);

	if (code != OPTIONS_DONE)
		return code;
	o->names = argv + optind;
	o->name_count = (size_t)(argc - optind);
	code = check_names();
	if (code != OPTIONS_DONE)
		return code;
	if (o->json && o->html && strcmp(o->json, o->html) == 0)
		return usage_error("bench", "--json and --html cannot both write '%s'", o->json);
	if (!o->repeat)
		o->repeat = o->quick ? REPEAT_QUICK : REPEAT;
	return OPTIONS_DONE;
}

static int write_files(const char *html)
{
	int code = EXIT_DONE;

	if (o->json)
		code |= output_json("bench", o->json, report_json(&report));
	if (html)
		code |= output_write("bench", o->html, html, strlen(html));
	return code;
}

/* No table before this one was shown, except lines of a suite. */
static bool is_first(const struct table_result *t)
{
	for (const struct table_result *before = report.tables; before < t; before++)
		if (!before->bench->together)
			return false;
	return true;
}

/* Without a reader of standard output it continues only if there are files to write. */
static bool print_table(const struct table_result *t)
{
	if (t->bench->together) {
		suite_text_line(t);
	} else {
		if (is_first(t))
			text_legend();
		text_table(t);
	}
	return flush_stdout() || o->json || o->html;
}

static bool print_nothing(const struct table_result *t)
{
	(void)t;
	return true;
}

/* The exit status after a signal. */
static int interrupted(bool quiet)
{
	if (!quiet)
		suite_text_end(&report);
	failure("bench", "interrupted; no file was written");
	return 128 + child_interrupted();
}

static int rows_run(void)
{
	bool quiet = output_is_stdout(o->json) || output_is_stdout(o->html);
	char *html = NULL;
	int err, code = output_check("bench", o->json);

	code = code ? code : output_check("bench", o->html);
	if (code)
		return code;
	child_catch_signals();
	machine_read(&report.machine);
	err = report_run(&report, quiet ? print_nothing : print_table);
	if (!err && o->html)
		err = report_page(&report, &html);
	if (child_interrupted()) {
		free(html);
		return interrupted(quiet);
	}
	if (err)
		return failure("bench", "cannot measure: %s", strerror(-err));
	if (!quiet) {
		suite_text_end(&report);
		text_end(&report);
	}
	code = write_files(html);
	free(html);
	if (report_failed(&report))
		code = failure("bench", "some rows failed; the table has the reasons");
	return finish_stdout("bench", code);
}

int main(int argc, char **argv)
{
	int code;

	tool_begin();
	if (argc > 1 && strcmp(argv[1], "--row") == 0)
		return row_main(argc - 2, argv + 2);
	names_read();
	code = read_options(argc, argv);
	if (code == OPTIONS_DONE)
		code = want_list ? finish_help("bench", rows_list()) : rows_run();
	report_free(&report);
	return code;
}
