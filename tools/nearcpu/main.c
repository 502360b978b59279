/* SPDX-License-Identifier: MIT */
/* nearcpu: the command. One folder for each subcommand; this file finds it. */
#include "common/installed.h"
#include "common/options.h"
#include "common/tool.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Becomes a program of its own. `missing` is printed if there is none. */
static int program_become(const char *program, const char *missing, char **argv)
{
	char path[PATH_MAX];

	if (find_program(program, path))
		return failure(argv[0], "%s %s", program, missing);
	tool_restore_signals();
	execv(path, argv);
	return failure(argv[0], "cannot run '%s': %s", path, strerror(errno));
}

/* The disassembler's data are not part of each process that `nearcpu run` starts and measures. */
static int check_main(int argc, char **argv)
{
	(void)argc;
	return program_become("nearcpu-check",
			      "was not found where this command is: it needs libelf and capstone; "
			      "Debian's package nearcpu has it, PyPI's has not",
			      argv);
}

/* The command needs none of the libraries that it is compared with. */
static int bench_main(int argc, char **argv)
{
	(void)argc;
	return program_become(
		"nearcpu-bench",
		"was not found where this command is: Debian's package nearcpu-bench has it; the "
		"benchmarks are built with CMake's option NEAR_BENCH and installed as its "
		"component bench",
		argv);
}

static int help_main(int argc, char **argv);

const struct command_row tool_commands[] = {
	{"info", "what this machine offers, and what the library makes of it", .main = info_main},
	{"bench", "measure the structures next to what programs use instead", .main = bench_main},
	{"run", "run a program on the library's malloc or libatomic, or compare", .main = run_main},
	{"check", "verify the restartable sequences in programs and libraries", .main = check_main},
	{"stats", "list what a region that programs share holds", .main = stats_main},
	{"trace", "show, export and recover the events that programs traced", .main = trace_main,
	 .commands = trace_commands},
	{"heap", "convert heap profiles of the library's malloc for pprof", .main = heap_main},
	{"locks", "show where an unmodified program waits for its locks", .main = locks_main},
	{"ids", "show the concurrency ids, CPUs and nodes that a program used", .main = ids_main},
	{"sim", "simulate policies of concurrency ids, and compare with the kernel",
	 .main = sim_main},
	{"help", "the same as SUBCOMMAND --help", .main = help_main, .commands = tool_commands},
	{.name = NULL},
};

static const struct option_row no_rows[] = {{.name = NULL}};

static const struct option_table table = {
	.rows = no_rows,
	.width = 13,
	.commands = tool_commands,
	.head = "usage: nearcpu SUBCOMMAND [OPTION...]\n\n"
		"Per-CPU structures on Linux restartable sequences: see what they gain here.\n\n",
	.tail = "\n'nearcpu help SUBCOMMAND' prints the options of a subcommand.\n"
		"Exit status: 0 done, 1 failed, 2 wrong usage.\n",
};

static int command_run(int argc, char **argv)
{
	const struct command_row *row = argc ? name_find(ROWS(tool_commands), argv[0]) : NULL;
	int code;

	if (row)
		return row->main(argc, argv);
	if (argc && argv[0][0] != '-')
		return unknown_name(NULL, "subcommand", argv[0], "", ROWS(tool_commands));
	/* getopt_long begins after the name of the program. */
	code = parse_options(&table, argc + 1, argv - 1);
	return code == OPTIONS_DONE ? usage_error(NULL, "no subcommand given") : code;
}

/* "help trace record" becomes "trace record --help". */
static int help_main(int argc, char **argv)
{
	const struct command_row *row, *rows = tool_commands;

	if (argc > 1 && argv[1][0] == '-')
		return command_run(argc - 1, argv + 1);
	for (int i = 1; i < argc; i++) {
		row = name_find(ROWS(rows), argv[i]);
		if (!row)
			return unknown_name(i > 1 ? argv[i - 2] : NULL, "subcommand", argv[i], "",
					    ROWS(rows));
		rows = row->commands;
		argv[i - 1] = argv[i];
	}
	argv[argc - 1] = (char *)"--help";
	return command_run(argc, argv);
}

/* "--complete run --js" becomes "run --complete --js", which parse_options answers, as the word is
 * no subcommand. */
static int complete(int argc, char **argv)
{
	const struct command_row *row, *rows = tool_commands;
	char *first = argv[0];
	int i = 1;

	for (; i < argc - 1 && (row = name_find(ROWS(rows), argv[i])); i++) {
		rows = row->commands;
		argv[i - 1] = argv[i];
	}
	argv[i - 1] = first;
	if (!rows || i < argc - 1 || argv[i][0] == '-')
		return command_run(argc, argv);
	puts("words");
	for (; rows->name; rows++)
		printf("%s\t%s\n", rows->name, rows->help);
	return finish_help(NULL, EXIT_DONE);
}

int main(int argc, char **argv)
{
	tool_begin();
	if (argc > 2 && strcmp(argv[1], "--complete") == 0)
		return complete(argc - 1, argv + 1);
	return command_run(argc - 1, argv + 1);
}
