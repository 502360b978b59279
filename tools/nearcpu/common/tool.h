/* SPDX-License-Identifier: MIT */
/* tool: what all subcommands of nearcpu share: exit codes, messages, signals, output. */
#ifndef NEARCPU_TOOL_H
#define NEARCPU_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1, /* the request failed */
	EXIT_USAGE = 2,
};

#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* Print one line on standard error and return the exit code: "nearcpu bench: unknown ...".
 * `sub` is NULL for the command itself. */
PRINTF(2, 3) int usage_error(const char *sub, const char *fmt, ...);
PRINTF(2, 3) int failure(const char *sub, const char *fmt, ...);

/* Ends the subcommand whose options were parsed last. */
__attribute__((noreturn)) void out_of_memory(void);
extern const char *tool_subcommand;

/* A decimal number from least to most, with nothing before or after it. */
bool parse_number(const char *text, uint64_t least, uint64_t most, uint64_t *out);

/* Print; flush what was printed. False once that has failed. */
bool write_stdout(const char *data, size_t size);
bool flush_stdout(void);

/* Ends a command that wrote to standard output: a full disk or a closed pipe turns success into a
 * failure with a message. */
int finish_stdout(const char *sub, int code);

/* The same for a help text or a list of what there is: a reader such as head may leave early. */
int finish_help(const char *sub, int code);

/* At the start of a program: a closed pipe, or a file that grows too large, becomes an error of the
 * write instead of a signal; children can be waited for. */
void tool_begin(void);

/* Before exec: restores the dispositions from before tool_begin. */
void tool_restore_signals(void);

/* As many open files as the hard limit allows. */
void allow_files(void);

int info_main(int argc, char **argv);
int run_main(int argc, char **argv);
int stats_main(int argc, char **argv);
int trace_main(int argc, char **argv);
int heap_main(int argc, char **argv);
int ids_main(int argc, char **argv);
int sim_main(int argc, char **argv);
int locks_main(int argc, char **argv);

#endif
