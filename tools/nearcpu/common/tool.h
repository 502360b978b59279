/* SPDX-License-Identifier: MIT */
/* tool: what all subcommands of nearcpu share: exit codes, messages, options, output. */
#ifndef NEARCPU_TOOL_H
#define NEARCPU_TOOL_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* what was asked failed */
	EXIT_USAGE = 2,
};

struct subcommand {
	const char *name;
	const char *summary;
	int (*main)(int argc, char **argv);
};

#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Print one line on standard error and return the exit code: "nearcpu bench: unknown ...".
 * `sub` is NULL for the command itself. */
PRINTF(2, 3) int usage_error(const char *sub, const char *fmt, ...);
PRINTF(2, 3) int failure(const char *sub, const char *fmt, ...);

/* What getopt_long stopped at; optstrings begin with ':'. */
int option_error(const char *sub, int c, char **argv);

/* A decimal number from least to most, nothing around it. */
bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out);

/* Version and licence, for --version. */
void print_version(void);

/* Print; write out what was printed. False once that has failed. */
bool write_stdout(const char *data, size_t size);
bool flush_stdout(void);

/* Ends a command that wrote to standard output: a full disk or a closed pipe turns success into a
 * failure with a message. */
int finish_stdout(const char *sub, int code);

/* For programs that become others: gives the signals back that this one ignores. */
void tool_restore_signals(void);

int info_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int check_main(int argc, char **argv);
int run_main(int argc, char **argv);

#endif
