/* SPDX-License-Identifier: MIT */
/* nearcpu trace: what trace files have. */
#include "trace/print.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "common/options.h"
#include "common/tool.h"

#define MOST_NS UINT64_C(10000000000999999999)

static struct trace_filter filter;
static const char *ctf, *chrome, *csv, *html, *condition, *perfetto;
static struct trace_wanted wanted;
static char order[1024];

static int take_seconds(const struct option_row *row, const char *value)
{
	size_t whole = strcspn(value, ".");
	const char *fraction = value[whole] ? value + whole + 1 : "0";
	size_t n = strlen(fraction);
	char ns[32];

	if (whole > 0 && whole < 16 && n > 0 && n <= 9) {
		snprintf(ns, sizeof(ns), "%.*s%s%.*s", (int)whole, value, fraction, 9 - (int)n,
			 "000000000");
		if (parse_number(ns, 0, MOST_NS,
				 strcmp(row->name, "from") == 0 ? &filter.from : &filter.to))
			return 0;
	}
	return usage_error("trace", "--%s takes seconds, such as 1.25", row->name);
}

static int take_cpus(const struct option_row *row, const char *value)
{
	static struct cpu_list list;

	(void)row;
	filter.cpus = &list;
	if (cpu_list_parse(value, CPU_LIST_ANY, &list))
		return 0;
	return usage_error("trace", "--cpu takes a list, such as 0-3,8");
}

#define LEVELS 7
const char *const trace_levels[LEVELS + 1] = {"none", "error", "warning", "notice",
					      "info", "debug", "verbose"};

const char *trace_level_name(unsigned level)
{
	return level < LEVELS ? trace_levels[level] : "unknown";
}

static int take_level(const struct option_row *row, const char *value)
{
	(void)row;
	if (parse_number(value, 0, UINT32_MAX, &filter.level))
		return 0;
	for (size_t i = 0; i < LEVELS; i++)
		if (strcmp(value, trace_levels[i]) == 0) {
			filter.level = i;
			return 0;
		}
	return usage_error("trace", "--level takes a name or a number, such as warning");
}

static int take_clock(const struct option_row *row, const char *value)
{
	(void)value;
	trace_clock = *row->name == 'u' ? TRACE_UTC : TRACE_LOCAL;
	return 0;
}

static const struct option_row rows[] = {
	{"name", "PATTERN,...", .string = &filter.names,
	 .help = "only tracepoints with such a name: shop:*"},
	{"from", "SECONDS", .take = take_seconds,
	 .help = "only events from then on, as show has it"},
	{"to", "SECONDS", .take = take_seconds, .help = "only events until then"},
	{"cpu", "LIST", .take = take_cpus, .help = "only events on these CPUs: 0-3,8"},
	{"tid", "N", .number = &filter.tid, .least = 1, .most = UINT32_MAX, .wants = "a thread id",
	 .help = "only events of this thread"},
	{"level", "LEVEL", .take = take_level, .words = ROWS(trace_levels),
	 .help = "only events at least that important"},
	{"if", "CONDITION", .string = &condition,
	 .help = "enable: only events with such a value: size>4096"},
	{"between", "FIRST,LAST", .string = &wanted.between,
	 .help = "stat, --html, export: the time from an event to\nanother one"},
	{"by", "FIELD", .string = &wanted.by,
	 .help = "the field that the two have in common (the thread)"},
	{"slowest", "N", .number = &wanted.slowest, .least = 1, .most = 1000,
	 .wants = "a number up to 1000",
	 .help = "stat: the pairs that took longest, with --between"},
	{"flow", "FIELD", .string = &wanted.flow,
	 .help = "--perfetto: events with the same value are joined"},
	{"utc", NULL, .take = take_clock, .help = "show, --csv: dates in UTC"},
	{"local", NULL, .take = take_clock, .help = "show, --csv: dates in local time"},
	{"follow", NULL, .flag = &filter.follow,
	 .help = "show: also what comes, until the programs end"},
	{"html", "FILE", .string = &html,
	 .help = "show, recover: a page for a browser; - is standard\noutput"},
	{"ctf", "FOLDER", .string = &ctf, .help = "export: Common Trace Format 1.8"},
	{"chrome", "FILE", .string = &chrome, .help = "export: JSON that web viewers open"},
	{"perfetto", "FILE", .string = &perfetto, .help = "export: for Perfetto, smaller"},
	{"csv", "FILE", .string = &csv,
	 .help = "export: a line for each event; - is standard\noutput"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "trace",
	.rows = rows,
	.width = 23,
	.files = true,
	.commands = trace_commands,
	.head = "usage: nearcpu trace show [--follow|--html FILE] [OPTION...] FILE...\n"
		"       nearcpu trace list FILE|FOLDER...\n"
		"       nearcpu trace stat [--between FIRST,LAST [--by FIELD]] FILE...\n"
		"       nearcpu trace export --ctf FOLDER|--chrome|--perfetto|--csv FILE FILE...\n"
		"       nearcpu trace recover [--ctf ...] FILE...\n"
		"       nearcpu trace enable [--level LEVEL] [--if CONDITION] PATTERN FILE...\n"
		"       nearcpu trace disable PATTERN FILE...\n"
		"       nearcpu trace snapshot NEWFILE FILE\n"
		"       nearcpu trace trigger TEXT FILE...\n"
		"       nearcpu trace record [--help|OPTION...] [--] PROGRAM [ARGUMENT...]\n\n"
		"Reads the files of near_trace(3), while their programs run, or after they have\n"
		"ended or were killed. A folder stands for the trace files in it.\n\n",
	.tail = "\nExit status: 0 done, 1 no trace or damaged, 2 wrong usage.\n",
};

/* ---- subcommands ---- */

static int write_page(struct trace *t)
{
	wanted.path = html;
	return trace_html(t, &wanted);
}

static int show(struct trace *t)
{
	return html ? write_page(t) : trace_show(t);
}

static int stat_events(struct trace *t)
{
	return trace_stat(t, &wanted);
}

static void print_losses(const struct trace *t)
{
	const char *to = wanted.path ? wanted.path : csv;

	/* Not into the exported file. */
	if (!to || !output_is_stdout(to))
		trace_print_losses(stdout, t, "", false);
}

static int export(struct trace *t)
{
	int code;

	wanted.path = chrome ? chrome : perfetto;
	code = ctf        ? trace_ctf(t, ctf)
	       : chrome   ? trace_chrome(t, &wanted)
	       : perfetto ? trace_perfetto(t, &wanted)
	       : csv      ? trace_csv(t, csv)
			  : write_page(t);

	if (!code)
		print_losses(t);
	return code;
}

static int recover(struct trace *t)
{
	struct trace_event e;
	uint64_t events = 0;
	int code;

	if (ctf || chrome || perfetto || csv || html)
		return export(t);
	while (!trace_must_stop(stdout) && trace_next(t, &e))
		events++;
	code = child_report_interrupt("trace");
	if (code)
		return code;
	printf("%" PRIu64 " events are whole, of %u tracepoints, in %u rings\n", events,
	       t->point_count, t->ring_count);
	trace_print_losses(stdout, t, "", true);
	return EXIT_DONE;
}

static int give_order(struct trace *t)
{
	return trace_order(t, order);
}

struct action {
	int (*main)(struct trace *t);
	const char *argument; /* before the files, of an order */
};

const struct command_row trace_commands[] = {
	{"show", "the events as text", .data = &(const struct action){.main = show}},
	{"list", "sessions and tracepoints", .data = &(const struct action){.main = trace_list}},
	{"stat", "counts and latencies", .data = &(const struct action){.main = stat_events}},
	{"export", "the events for other programs", .data = &(const struct action){.main = export}},
	{"recover", "the same of a damaged file, and a report on what is lost",
	 .data = &(const struct action){.main = recover}},
	{"enable", "switch tracepoints of a running program on",
	 .data = &(const struct action){give_order, "pattern"}},
	{"disable", "switch tracepoints of a running program off",
	 .data = &(const struct action){give_order, "pattern"}},
	{"snapshot", "make a running program copy its rings to a new file",
	 .data = &(const struct action){give_order, "new file"}},
	{"trigger", "make events of a running program take snapshots",
	 .data = &(const struct action){give_order, "trigger"}},
	{"record", "run a program with its tracepoints switched on", .main = trace_record},
	{.name = NULL},
};

static int check_pairs(const char *sub)
{
	bool is_stat = strcmp(sub, "stat") == 0;

	if ((wanted.between || wanted.by) && !html && !chrome && !perfetto && !is_stat)
		return usage_error("trace", "--between and --by go with stat, --html, --chrome or "
					    "--perfetto");
	if (wanted.by && !wanted.between)
		return usage_error("trace", "--by goes with --between");
	if (wanted.slowest && (!is_stat || !wanted.between))
		return usage_error("trace", "--slowest goes with stat --between");
	if (wanted.flow && !perfetto)
		return usage_error("trace", "--flow goes with --perfetto");
	if (trace_clock && !csv && !is_stat && (html || strcmp(sub, "show") != 0))
		return usage_error("trace", "--utc and --local go with show, stat or --csv");
	return EXIT_DONE;
}

static int check_options(const char *sub)
{
	int code, forms = (ctf != NULL) + (chrome != NULL) + (perfetto != NULL) + (csv != NULL);
	bool exports = strcmp(sub, "export") == 0, recovers = strcmp(sub, "recover") == 0;
	bool orders = strcmp(sub, "enable") == 0 || strcmp(sub, "disable") == 0 ||
		      strcmp(sub, "snapshot") == 0 || strcmp(sub, "trigger") == 0;

	if (forms && !exports && !recovers)
		return usage_error("trace", "--ctf, --chrome, --perfetto and --csv go with export "
					    "or recover");
	if (html && !recovers && strcmp(sub, "show") != 0)
		return usage_error("trace", "--html goes with show or recover");
	if (filter.follow && (html || filter.to != UINT64_MAX || strcmp(sub, "show") != 0))
		return usage_error("trace", "--follow goes with show, without --html and --to");
	if (forms + (html != NULL) > 1)
		return usage_error("trace", "one form at a time");
	if (exports && !forms)
		return usage_error("trace", "export needs --ctf, --chrome, --perfetto or --csv");
	code = check_pairs(sub);
	if (code)
		return code;
	if (condition && strcmp(sub, "enable") != 0)
		return usage_error("trace", "--if goes with enable");
	if (orders &&
	    (filter.names || filter.cpus || filter.tid || filter.from || filter.to != UINT64_MAX))
		return usage_error("trace", "%s takes no filter", sub);
	if (orders && filter.level != UINT32_MAX && strcmp(sub, "enable") != 0)
		return usage_error("trace", "--level goes with enable");
	return EXIT_DONE;
}

static int trace_run(const struct action *sub, char **paths)
{
	bool is_recovery = sub->main == recover;
	struct trace t;
	int code;

	child_catch_signals();
	code = trace_open(&t, paths, &filter, is_recovery);
	if (code)
		return code;
	code = finish_stdout("trace", sub->main(&t));
	if (code == EXIT_DONE && !sub->argument && !is_recovery && trace_is_damaged(&t))
		code = failure("trace",
			       "'%s': parts of it are damaged; 'nearcpu trace recover' "
			       "reports them",
			       paths[0]);
	trace_close(&t);
	return code;
}

static int run_words(const struct command_row *row, int count, char **words)
{
	const struct action *sub = row->data;
	int code = EXIT_DONE;

	if (sub->argument && count < 1)
		return usage_error("trace", "no %s given", sub->argument);
	if (count < (sub->argument ? 2 : 1))
		return usage_error("trace", "no file given");
	if (sub->argument)
		code = trace_make_order(
			order, sizeof(order), row->name, words[0],
			strcmp(row->name, "enable") == 0 ? filter.level : UINT32_MAX, condition);
	filter.level = sub->argument ? UINT32_MAX : filter.level;
	return code ? code : trace_run(sub, words + (sub->argument != NULL));
}

int trace_main(int argc, char **argv)
{
	const struct command_row *row;
	int code;

	filter = (struct trace_filter){.to = UINT64_MAX, .level = UINT32_MAX};
	ctf = chrome = perfetto = csv = html = condition = NULL; /* of an earlier call */
	wanted = (struct trace_wanted){0};
	trace_clock = TRACE_SINCE_BEGIN;
	if (argc < 2 || argv[1][0] == '-') {
		code = parse_options(&table, argc, argv);
		return code == OPTIONS_DONE ? usage_error("trace", "no subcommand given") : code;
	}
	row = name_find(ROWS(trace_commands), argv[1]);
	if (!row)
		return unknown_name("trace", "subcommand", argv[1], "", ROWS(trace_commands));
	if (row->main)
		return row->main(argc - 1, argv + 1);
	code = parse_options(&table, argc - 1, argv + 1);
	if (code != OPTIONS_DONE)
		return code;
	code = check_options(argv[1]);
	return code ? code : run_words(row, argc - 1 - optind, argv + 1 + optind);
}
