/* SPDX-License-Identifier: MIT */
/* nearcpu check: the restartable sequences of programs and libraries. */
#include "common/tool.h"
#include "check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct check {
	bool json, quiet, verbose;
	bool failed;
	const char *path;
	json_t *files;
	/* Of this file, with all its members. */
	size_t sequences;
	bool unfit;
};

static void print_help(void)
{
	printf("usage: nearcpu check [OPTION...] FILE...\n\n"
	       "Verifies the restartable sequences in programs, shared objects, relocatable\n"
	       "objects and archives for x86_64, aarch64 and riscv64: whether the kernel accepts\n"
	       "them, and whether an abort at each instruction leaves things right.\n\n"
	       "  --quiet    print the faulty files only, a line each\n"
	       "  --verbose  print the correct sequences, too, and notes\n"
	       "  --json     as JSON\n"
	       "  --help     this text\n"
	       "  --version  the version\n\n"
	       "Exit status: 0 no fault, 1 a fault or an unfit file, 2 wrong usage.\n");
}

/* Reads a regular file. NULL with the reason in `why`. */
static uint8_t *read_file(const char *path, size_t *size, char why[CHECK_WHY])
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	uint8_t *data = NULL;
	size_t done = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		snprintf(why, CHECK_WHY, "%s", strerror(errno));
		goto out;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(why, CHECK_WHY, "not a regular file");
		goto out;
	}
	data = malloc(st.st_size ? (size_t)st.st_size : 1);
	if (!data) {
		snprintf(why, CHECK_WHY, "not enough memory");
		goto out;
	}
	while (done < (size_t)st.st_size) {
		ssize_t n = read(fd, data + done, (size_t)st.st_size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			snprintf(why, CHECK_WHY, "%s", strerror(errno));
			free(data);
			data = NULL;
			goto out;
		}
		if (n == 0)
			break; /* it became shorter */
		done += (size_t)n;
	}
	*size = done;
out:
	if (fd >= 0)
		close(fd);
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

/* The name of a member, as linkers write it; NULL without memory. */
static char *full_name(const char *path, const char *member)
{
	char *name = NULL;

	if (!member)
		return strdup(path);
	return asprintf(&name, "%s(%s)", path, member) < 0 ? NULL : name;
}

static bool check_one(void *context, const char *member, const uint8_t *file, size_t size)
{
	struct check *check = context;
	char *name = full_name(check->path, member), why[CHECK_WHY] = "";
	struct check_text text = {name, check->quiet, check->verbose, false};
	struct check_counts counts = {0};
	struct check_reader reader = {&text, print_sequence};
	int err;

	if (!name)
		return !(check->failed = failure("check", "not enough memory"));
	if (check->json) {
		reader.context = json_array();
		reader.sequence = json_sequence;
	}
	err = check_elf(file, size, &reader, &counts, why);
	if (err) {
		check->failed = check->unfit = true;
		failure("check", "%s: %s", name, why);
	}
	if (check->json)
		add_json(check, name, reader.context, &counts, why);
	else if (!err && (!member || counts.sequences))
		print_counts(&text, &counts);
	check->failed |= counts.problems[FAULT] > 0;
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
	if (check->json)
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
	else if (size > 7 && memcmp(file, "!<arch>", 7) == 0 && !check->sequences && !check->json &&
		 !check->quiet && !check->unfit)
		printf("%s: no sequences found\n", path);
	free(file);
}

static int run(struct check *check, char **paths)
{
	if (check->json && !(check->files = json_array()))
		return failure("check", "not enough memory");
	for (; *paths; paths++)
		check_file(check, *paths);
	if (check->json) {
		json_dumpf(check->files, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(check->files);
	}
	return finish_stdout("check", check->failed ? EXIT_FAILED : EXIT_DONE);
}

int check_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"json", no_argument, NULL, 'j'},    {"quiet", no_argument, NULL, 'q'},
		{"verbose", no_argument, NULL, 'v'}, {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0},
	};
	struct check check = {0};
	int c;

	while ((c = getopt_long(argc, argv, ":qvhV", options, NULL)) != -1) {
		switch (c) {
		case 'j':
			check.json = true;
			break;
		case 'q':
			check.quiet = true;
			break;
		case 'v':
			check.verbose = true;
			break;
		case 'h':
			print_help();
			return finish_stdout("check", EXIT_DONE);
		case 'V':
			print_version();
			return finish_stdout("check", EXIT_DONE);
		default:
			return option_error("check", c, argv);
		}
	}
	if (optind == argc)
		return usage_error("check", "no file given");
	if (check.quiet && check.verbose)
		return usage_error("check", "--quiet and --verbose exclude each other");
	return run(&check, argv + optind);
}
