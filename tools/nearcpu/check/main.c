/* SPDX-License-Identifier: MIT */
/* nearcpu-check: verifies the restartable sequences of programs and libraries. */
#include "check/check.h"
#include "common/memory.h"
#include "common/options.h"
#include "common/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct check {
	bool failed;
	const char *path;
	json_t *files;
	/* Of this file, with all its members. */
	size_t sequences;
	bool unfit;
};

static bool as_json, quiet, verbose, ranges;

static const struct option_row rows[] = {
	{"quiet", .letter = 'q', .flag = &quiet,
	 .help = "print the faulty files only, a line each"},
	{"verbose", .letter = 'v', .flag = &verbose,
	 .help = "print the correct sequences, too, and notes"},
	{"json", .flag = &as_json, .help = "as JSON"},
	{"ranges", .flag = &ranges,
	 .help = "print only where the sequences are: start, end, offset in the file"},
	{.name = NULL},
};

static const struct option_table table = {
	.sub = "check",
	.rows = rows,
	.width = 13,
	.files = true,
	.head = "usage: nearcpu check [OPTION...] FILE...\n\n"
		"Verifies the restartable sequences in programs, shared objects, relocatable\n"
		"objects and archives for x86_64, aarch64 and riscv64: whether the kernel accepts\n"
		"them, and whether an abort at each instruction leaves memory consistent.\n\n",
	.tail = "\nExit status: 0 no fault, 1 a fault or an unreadable file, 2 wrong usage.\n",
};

static uint8_t *fail_to_read(FILE *f, char why[CHECK_WHY], const char *reason)
{
	snprintf(why, CHECK_WHY, "%s", reason);
	if (f)
		fclose(f);
	return NULL;
}

/* Reads a regular file, or as much as is left of one that shrinks. NULL with the reason in
 * `why`. */
static uint8_t *read_file(const char *path, size_t *size, char why[CHECK_WHY])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	uint8_t *data;
	struct stat st;

	if (!f || fstat(fd, &st))
		return fail_to_read(f, why, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail_to_read(f, why, "not a regular file");
	data = malloc(st.st_size ? (size_t)st.st_size : 1);
	if (!data)
		return fail_to_read(f, why, "not enough memory");
	*size = fread(data, 1, (size_t)st.st_size, f);
	if (ferror(f)) {
		free(data);
		return fail_to_read(f, why, strerror(errno));
	}
	fclose(f);
	return data;
}

static void add_json(struct check *check, const char *name, json_t *sequences,
		     const struct check_counts *counts, const char *error)
{
	json_t *one = json_pack("{s:o, s:o, s:I, s:I, s:I}", "file", name_json(name), "sequences",
				sequences, "faults", (json_int_t)counts->problems[FAULT],
				"warnings", (json_int_t)counts->problems[WARNING], "notes",
				(json_int_t)counts->problems[NOTE]);

	if (error[0])
		json_object_set_new(one, "error", json_string(error));
	json_array_append_new(check->files, one);
}

/* The name of a member, as linkers write it. */
static char *full_name(const char *path, const char *member)
{
	char *name;

	if (!member)
		return copy_text(path);
	if (asprintf(&name, "%s(%s)", path, member) < 0)
		out_of_memory();
	return name;
}

static bool check_one(void *context, const char *member, const uint8_t *file, size_t size)
{
	struct check *check = context;
	char *name = full_name(check->path, member), why[CHECK_WHY] = "";
	struct check_text text = {name, quiet, verbose, false};
	struct check_counts counts = {0};
	json_t *sequences = as_json ? json_array() : NULL;
	int err;

	if (as_json)
		err = check_elf(file, size, json_sequence, sequences, &counts, why);
	else
		err = check_elf(file, size, ranges ? print_range : print_sequence, &text, &counts,
				why);
	if (err) {
		check->failed = check->unfit = true;
		failure("check", "%s: %s", name, why);
	}
	if (as_json)
		add_json(check, name, sequences, &counts, why);
	else if (!err && !ranges && (!member || counts.sequences))
		print_counts(&text, &counts);
	check->failed |= counts.problems[FAULT] > 0 && !ranges;
	check->sequences += counts.sequences;
	free(name);
	return flush_stdout();
}

/* A file that could not be checked, or not to its end. */
static void refuse(struct check *check, const char *why)
{
	const struct check_counts none = {0};

	check->failed = check->unfit = true;
	failure("check", "%s: %s", check->path, why);
	if (as_json)
		add_json(check, check->path, json_array(), &none, why);
}

static void check_file(struct check *check, const char *path)
{
	char why[CHECK_WHY] = "";
	size_t size = 0;
	uint8_t *file = read_file(path, &size, why);

	check->path = path;
	check->sequences = 0;
	check->unfit = false;
	if (!file || check_split(file, size, check_one, check, why))
		refuse(check, why);
	else if (size > 7 && memcmp(file, "!<arch>", 7) == 0 && !check->sequences && !as_json &&
		 !quiet && !ranges && !check->unfit)
		printf("%s: no sequences found\n", path);
	free(file);
}

static int check_run(struct check *check, char **paths)
{
	if (as_json)
		check->files = json_array();
	for (; *paths; paths++)
		check_file(check, *paths);
	if (as_json) {
		json_dumpf(check->files, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(check->files);
	}
	return finish_stdout("check", check->failed ? EXIT_FAILED : EXIT_DONE);
}

int main(int argc, char **argv)
{
	struct check check = {0};
	int code;

	tool_begin();
	code = parse_options(&table, argc, argv);
	if (code != OPTIONS_DONE)
		return code;
	if (optind == argc)
		return usage_error("check", "no file given");
	if (quiet && verbose)
		return usage_error("check", "--quiet and --verbose exclude each other");
	if (ranges && (quiet || verbose || as_json))
		return usage_error("check", "--ranges excludes --quiet, --verbose and --json");
	return check_run(&check, argv + optind);
}
