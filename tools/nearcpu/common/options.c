/* SPDX-License-Identifier: MIT */
/* Options from a table, by getopt_long. */
#include "common/options.h"

#include <getopt.h>
#include <string.h>

#include "common/tool.h"

#define MAX_OPTIONS 24
#define LONG_OPTIONS 256 /* the code of a long option is this plus its index */

static const struct option_row common_rows[] = {
	{"help", .help = "this text"},
	{"version", .help = "the version"},
	{.name = NULL},
};

static void print_rows(const struct option_row *rows, int width)
{
	for (; rows->name; rows++) {
		const char *help = rows->help;
		int used = printf("  --%s%s%s", rows->name, rows->value ? " " : "",
				  rows->value ? rows->value : "");

		for (; *help; used = 0) {
			size_t len = strcspn(help, "\n");

			printf("%*s%.*s\n", width - used, "", (int)len, help);
			help += len + (help[len] == '\n');
		}
	}
}

static int print_help(const struct option_table *table)
{
	fputs(table->head, stdout);
	print_rows(table->rows, table->width);
	print_rows(common_rows, table->width);
	fputs(table->tail, stdout);
	return finish_help(table->sub, EXIT_DONE);
}

static int print_version(const char *sub)
{
	printf("nearcpu %s\nLicence: MIT.\n", NEARCPU_VERSION);
	return finish_help(sub, EXIT_DONE);
}

/* What getopt_long stopped at. */
static int option_error(const char *sub, int c, char **argv)
{
	const char *word = argv[optind - 1];
	size_t len = strcspn(word, "=");

	if (c == ':')
		return usage_error(sub, "option '%s' needs a value", word);
	/* optopt: a short option, or a long one that takes no value. */
	if (optopt && strncmp(word, "--", 2) != 0)
		return usage_error(sub, "unknown option '-%c'", optopt);
	if (optopt && word[len])
		return usage_error(sub, "option '%.*s' takes no value", (int)len, word);
	return usage_error(sub, "unknown option '%s'", word);
}

static int option_take(const char *sub, const struct option_row *row, const char *value)
{
	if (row->flag)
		*row->flag = true;
	if (row->string)
		*row->string = value;
	if (row->number && !parse_number(value, row->least, row->most, row->number))
		return usage_error(sub, "--%s takes %s", row->name, row->wants);
	return row->take ? row->take(row, value) : 0;
}

/* Fills what getopt_long wants. */
static void translate(const struct option_table *table, struct option *longs, char *letters)
{
	int n = 0;

	strcpy(letters, table->stops ? "+:hV" : ":hV");
	longs[n++] = (struct option){"help", no_argument, NULL, 'h'};
	longs[n++] = (struct option){"version", no_argument, NULL, 'V'};
	for (const struct option_row *row = table->rows; row->name; row++) {
		longs[n++] = (struct option){row->name, row->value ? 1 : 0, NULL,
					     LONG_OPTIONS + (int)(row - table->rows)};
		strncat(letters, &row->letter, 1);
	}
	longs[n] = (struct option){0};
}

int parse_options(const struct option_table *table, int argc, char **argv)
{
	struct option longs[MAX_OPTIONS];
	char letters[MAX_OPTIONS];
	int c, code = 0;

	tool_subcommand = table->sub;
	translate(table, longs, letters);
	opterr = 0;
	while (!code && (c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct option_row *row = table->rows;

		if (c == 'h')
			return print_help(table);
		if (c == 'V')
			return print_version(table->sub);
		if (c == '?' || c == ':')
			return option_error(table->sub, c, argv);
		if (c >= LONG_OPTIONS)
			row += c - LONG_OPTIONS;
		else
			while (row->letter != c)
				row++;
		code = option_take(table->sub, row, optarg);
	}
	return code ? code : OPTIONS_DONE;
}
