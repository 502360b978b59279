/* SPDX-License-Identifier: MIT */
/* options: the options of a subcommand as one table, from which they are parsed and --help is
 * printed. */
#ifndef NEARCPU_OPTIONS_H
#define NEARCPU_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct option_row {
	const char *name;
	const char *value;   /* what the help calls the option's value; NULL: it takes none */
	const char *help;    /* its lines end with '\n', except the last */
	char letter;         /* the short option, or 0 */
	bool *flag;          /* set to true */
	const char **string; /* set to the value */
	uint64_t *number;    /* set to the value, a number from least to most */
	uint64_t least, most;
	const char *wants; /* what `number` is, for a message */
	/* Called with the row and the value: 0, or the exit status of a failure. */
	int (*take)(const struct option_row *row, const char *value);
	const char *data; /* for `take` */
};

struct option_table {
	const char *sub;               /* the subcommand, or NULL */
	const char *head, *tail;       /* of --help */
	const struct option_row *rows; /* ends with a name of NULL */
	int width;                     /* columns of an option and its value in --help */
	bool stops;                    /* at the first argument that is no option */
};

enum { OPTIONS_DONE = -1 };

/* Parses the options, --help and --version too. OPTIONS_DONE, with optind set as getopt_long does;
 * or an exit status. */
int parse_options(const struct option_table *table, int argc, char **argv);

#endif
