/* SPDX-License-Identifier: MIT */
/* Options from a table, by getopt_long. */
#include "common/options.h"

#include <getopt.h>
#include <string.h>

#include "common/text.h"
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
	for (const struct command_row *row = table->commands; row && row->name; row++)
		printf("  %-8s %s\n%s", row->name, row->help, row[1].name ? "" : "\n");
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
static int option_error(const char *sub, int c, char **argv, const struct option *longs)
{
	const char *word = argv[optind - 1];
	char letter[] = {'-', (char)optopt, '\0'};
	size_t len = strcspn(word, "=");

	if (c == ':')
		return usage_error(sub, "option '%s' needs a value", word);
	/* optopt: a short option, or a long one that takes no value. */
	if (optopt && strncmp(word, "--", 2) != 0)
		word = letter;
	else if (optopt && word[len])
		return usage_error(sub, "option '%.*s' takes no value", (int)len, word);
	return unknown_name(sub, "option", word, "", ROWS(longs));
}

/* Of its words. */
static int word_take(const char *sub, const struct option_row *row, const char *value)
{
	struct word what = word("--%s", row->name), hint = word("; it takes %s", row->wants);

	if (name_find(row->words, row->word_size, value))
		return 0;
	return unknown_name(sub, what.text, value, hint.text, row->words, row->word_size);
}

static int option_take(const char *sub, const struct option_row *row, const char *value)
{
	if (row->flag)
		*row->flag = true;
	if (row->string)
		*row->string = value;
	if (row->number && !parse_number(value, row->least, row->most, row->number))
		return usage_error(sub, "--%s takes %s", row->name, row->wants);
	if (row->words && !row->take && !strchr(row->value, ','))
		return word_take(sub, row, value);
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

/* ---- --complete ---- */

/* The first `head` letters of `typed` stay before the name. */
static void offer(const char *typed, size_t head, const char *name, const char *help)
{
	printf("%.*s%s%s", (int)head, typed, name, *help ? "\t" : "");
	for (; *help; help++)
		putchar(*help == '\n' ? ' ' : *help);
	putchar('\n');
}

static void value_complete(const struct option_row *row, const char *typed, const char *value)
{
	const char *comma = strchr(row->value, ',') ? strrchr(value, ',') : NULL;
	const char *names = row->words;

	if (strstr(row->value, "FILE") || strstr(row->value, "PREFIX"))
		puts("files");
	else
		puts(strstr(row->value, "FOLDER") ? "folders" : "words");
	for (; names && *(const char *const *)names; names += row->word_size)
		offer(typed, (size_t)((comma ? comma + 1 : value) - typed),
		      *(const char *const *)names, "");
}

/* The option in this word, if it takes a value. */
static const struct option_row *row_find(const struct option_table *table, const char *typed)
{
	const struct option_row *row;
	struct word name;

	if (strncmp(typed, "--", 2) != 0)
		return NULL;
	name = word("%.*s", (int)strcspn(typed, "=") - 2, typed + 2);
	row = name_find(ROWS(table->rows), name.text);
	return row && row->value ? row : NULL;
}

/* What is no option's value of its own. */
static void word_complete(const struct option_table *table, const char *typed, bool no_options)
{
	bool is_option = typed[0] == '-' && !no_options;
	const struct option_row *row = is_option ? row_find(table, typed) : NULL;

	if (row && strchr(typed, '=')) {
		value_complete(row, typed, strchr(typed, '=') + 1);
	} else if (!is_option && (table->stops || table->files)) {
		puts(table->stops ? "command 1" : "files");
	} else {
		puts("words");
		for (const char *const *name = table->words; !is_option && name && *name; name++)
			offer("", 0, *name, "");
		if (is_option || (!table->words && !no_options)) {
			for (int i = 0; i < 2; i++)
				for (row = i ? common_rows : table->rows; row->name; row++)
					offer("--", 2, row->name, row->help);
		}
	}
}

/* The shells' files (packaging/completions) know no names. `nearcpu --complete WORD...`, with the
 * words up to the one that is typed, prints as a first line
 *	words: in the other lines, with a tab and help if there is one; also what does not begin
 *	as typed
 *	files, folders: of the shell's own completion
 *	command N: the last N words are a command of their own */
static int options_complete(const struct option_table *table, int count, char **words)
{
	const struct option_row *row = NULL; /* whose value the last word is */
	bool no_options = false, is_command = false;
	int i = 0;

	for (; i < count - 1 && !is_command; i++) {
		bool is_option = !no_options && words[i][0] == '-' && words[i][1];

		is_command = table->stops && !is_option;
		no_options |= strcmp(words[i], "--") == 0;
		row = is_option && !strchr(words[i], '=') ? row_find(table, words[i]) : NULL;
		if (row && ++i < count - 1)
			row = NULL;
	}
	if (is_command)
		printf("command %d\n", count - i + 1);
	else if (row)
		value_complete(row, words[count - 1], words[count - 1]);
	else
		word_complete(table, words[count - 1], no_options);
	return finish_help(table->sub, EXIT_DONE);
}

int parse_options(const struct option_table *table, int argc, char **argv)
{
	struct option longs[MAX_OPTIONS];
	char letters[MAX_OPTIONS];
	int c, code = 0;

	tool_subcommand = table->sub;
	if (argc > 2 && strcmp(argv[1], "--complete") == 0)
		return options_complete(table, argc - 2, argv + 2);
	translate(table, longs, letters);
	opterr = 0;
	while (!code && (c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct option_row *row = table->rows;

		if (c == 'h')
			return print_help(table);
		if (c == 'V')
			return print_version(table->sub);
		if (c == '?' || c == ':')
			return option_error(table->sub, c, argv, longs);
		if (c >= LONG_OPTIONS)
			row += c - LONG_OPTIONS;
		else
			while (row->letter != c)
				row++;
		code = option_take(table->sub, row, optarg);
	}
	return code ? code : OPTIONS_DONE;
}
