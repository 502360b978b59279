/* SPDX-License-Identifier: MIT */
/* options: subcommands and options as tables, from which they are parsed, --help is printed, and
 * shells complete what is typed (options_complete). */
#ifndef NEARCPU_OPTIONS_H
#define NEARCPU_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option_row {
	const char *name;
	/* What the help calls the option's value; NULL: it takes none. Shells complete FILE, FOLDER
	 * and PREFIX as paths. A list ends with ",...". */
	const char *value;
	const char *help;    /* its lines end with '\n', except the last */
	char letter;         /* the short option, or 0 */
	bool *flag;          /* set to true */
	const char **string; /* set to the value */
	uint64_t *number;    /* set to the value, a number from least to most */
	uint64_t least, most;
	const char *wants; /* what the value is, for a message */
	/* Called with the row and the value: 0, or the exit status of a failure. */
	int (*take)(const struct option_row *row, const char *value);
	const char *data;  /* for `take` */
	const void *words; /* its values; a list or `take` takes others, too */
	size_t word_size;
};
#define ROWS(rows) rows, sizeof(*(rows)) /* of name_find, and for .words */
#define WORDS(...) .words = (const char *const[]){__VA_ARGS__, NULL}, sizeof(const char *)

struct command_row {
	const char *name, *help;
	int (*main)(int argc, char **argv);
	const struct command_row *commands; /* its own subcommands, or NULL */
	const void *data;                   /* for `main` */
};

struct option_table {
	const char *sub;                    /* the subcommand, or NULL */
	const char *head, *tail;            /* of --help */
	const struct option_row *rows;      /* ends with a name of NULL */
	int width;                          /* columns of an option and its value in --help */
	bool stops;                         /* at the first argument that is no option: a program */
	bool files;                         /* the other arguments are files */
	const char *const *words;           /* or these */
	const struct command_row *commands; /* for --help */
};

enum { OPTIONS_DONE = -1 };

/* Parses the options, --help, --version and --complete too. OPTIONS_DONE, with optind set as
 * getopt_long does; or an exit status. */
int parse_options(const struct option_table *table, int argc, char **argv);
extern const struct command_row tool_commands[], trace_commands[];

/* The row of that name, or NULL. Rows are structures of `size` bytes that begin with a name, which
 * is NULL in the last one. */
const void *name_find(const void *names, size_t size, const char *name);

/* Prints "there is no load 'tow'; did you mean 'two'?", or the hint if none is near: EXIT_USAGE. */
int unknown_name(const char *sub, const char *what, const char *typed, const char *hint,
		 const void *names, size_t size);

#endif
