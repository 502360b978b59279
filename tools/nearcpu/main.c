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
	return program_become("nearcpu-check", "was not found where this command is", argv);
}

/* The command needs none of the libraries that it is compared with. */
static int bench_main(int argc, char **argv)
{
	(void)argc;
	return program_become(
		"nearcpu-bench",
		"was not found where this command is: the benchmarks are built with CMake's "
		"option NEAR_BENCH and installed as its component bench",
		argv);
}

static const struct subcommand {
	const char *name;
	int (*main)(int argc, char **argv);
} subcommands[] = {
	{"info", info_main},   {"bench", bench_main}, {"run", run_main}, {"check", check_main},
	{"stats", stats_main}, {"trace", trace_main}, {"ids", ids_main}, {"sim", sim_main},
	{"heap", heap_main},   {"locks", locks_main},
};

static const struct option_row no_rows[] = {{.name = NULL}};

static const struct option_table table = {
	.rows = no_rows,
	.width = 13,
	.head = "usage: nearcpu SUBCOMMAND [OPTION...]\n\n"
		"Per-CPU structures on Linux restartable sequences: see what they gain here.\n\n"
		"  info     what this machine offers, and what the library makes of it\n"
		"  bench    measure the structures next to what programs use instead\n"
		"  run      run a program on the library's malloc or libatomic, or compare\n"
		"  check    verify the restartable sequences in programs and libraries\n"
		"  stats    list what a region that programs share holds\n"
		"  trace    show, export and recover the events that programs traced\n"
		"  heap     convert heap profiles of the library's malloc for pprof\n"
		"  locks    show where an unmodified program waits for its locks\n"
		"  ids      show the concurrency ids, CPUs and nodes that a program used\n"
		"  sim      simulate policies of concurrency ids, and compare with the kernel\n\n",
	.tail = "\n'nearcpu SUBCOMMAND --help' prints the options of a subcommand.\n"
		"Exit status: 0 done, 1 failed, 2 wrong usage.\n",
};

int main(int argc, char **argv)
{
	tool_begin();
	if (argc < 2 || argv[1][0] == '-') {
		int code = parse_options(&table, argc, argv);

		return code == OPTIONS_DONE ? usage_error(NULL, "no subcommand given") : code;
	}
	for (size_t i = 0; i < sizeof(subcommands) / sizeof(subcommands[0]); i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].main(argc - 1, argv + 1);
	return usage_error(NULL, "unknown subcommand '%s'", argv[1]);
}
