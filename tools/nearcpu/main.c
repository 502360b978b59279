/* SPDX-License-Identifier: MIT */
/* nearcpu: the command. One file for each subcommand; this one finds it. */
#include "common/tool.h"

#include <signal.h>
#include <string.h>

static const struct subcommand subcommands[] = {
	{"info", "what this machine offers, and what the library makes of it", info_main},
	{"bench", "measure the structures beside what programs use instead", bench_main},
	{"run", "run a program on the library's malloc or libatomic, or compare", run_main},
	{"check", "verify the restartable sequences in programs and libraries", check_main},
};

#define COUNT (sizeof(subcommands) / sizeof(subcommands[0]))

/* What we were started with. */
static void (*had_pipe)(int), (*had_size)(int);

void tool_restore_signals(void)
{
	signal(SIGPIPE, had_pipe);
	signal(SIGXFSZ, had_size);
}

static void print_help(void)
{
	printf("usage: nearcpu SUBCOMMAND [OPTION...]\n\n"
	       "Per-CPU structures on Linux restartable sequences: see what they gain here.\n\n");
	for (size_t i = 0; i < COUNT; i++)
		printf("  %-8s %s\n", subcommands[i].name, subcommands[i].summary);
	printf("\n  --help     this text; 'nearcpu SUBCOMMAND --help' tells the options of one\n"
	       "  --version  the version\n\n"
	       "Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

static int without_subcommand(int argc, char **argv)
{
	static const struct option options[] = {
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'},
		{NULL, 0, NULL, 0},
	};
	int c = getopt_long(argc, argv, "+:hV", options, NULL);

	switch (c) {
	case 'h':
		print_help();
		break;
	case 'V':
		print_version();
		break;
	case -1:
		return usage_error(NULL, "no subcommand given");
	default:
		return option_error(NULL, c, argv);
	}
	return finish_stdout(NULL, EXIT_DONE);
}

int main(int argc, char **argv)
{
	/* A closed pipe, or a file that grew too large, shows as an error of the write. */
	had_pipe = signal(SIGPIPE, SIG_IGN);
	had_size = signal(SIGXFSZ, SIG_IGN);
	opterr = 0;
	if (argc < 2 || argv[1][0] == '-')
		return without_subcommand(argc, argv);
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(argv[1], subcommands[i].name) == 0)
			return subcommands[i].main(argc - 1, argv + 1);
	return usage_error(NULL, "unknown subcommand '%s'", argv[1]);
}
