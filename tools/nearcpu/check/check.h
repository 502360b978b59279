/* SPDX-License-Identifier: MIT */
/* check: `nearcpu check`, which verifies the restartable sequences of ELF files. */
#ifndef NEARCPU_CHECK_CHECK_H
#define NEARCPU_CHECK_CHECK_H

#include "check/sequence.h"

struct check_counts {
	size_t sequences;
	size_t problems[FAULT + 1]; /* by severity */
};

/* Receives each sequence in turn. */
typedef void check_reader(void *context, const struct sequence *s);

#define CHECK_WHY 200

/* Checks one ELF file in memory. Returns 0, whatever was found, or a negative errno with the reason
 * in `why`. */
int check_elf(const uint8_t *file, size_t size, check_reader *read_one, void *context,
	      struct check_counts *counts, char why[CHECK_WHY]);

/* Called for an ELF file, or for each member of an archive that is one. `member` is NULL or the
 * name. Returns false to stop. */
typedef bool check_each(void *context, const char *member, const uint8_t *file, size_t size);

/* Splits what was read. Returns 0, or a negative errno with the reason in `why`. */
int check_split(const uint8_t *file, size_t size, check_each *each, void *context,
		char why[CHECK_WHY]);

/* Text and JSON. */
struct check_text {
	const char *name; /* of the file, with its member */
	bool quiet, verbose;
	bool said_name;
};
check_reader print_sequence;
check_reader print_range;
void print_counts(const struct check_text *text, const struct check_counts *counts);

/* A string, if it is UTF-8; else its ASCII, with ? for the rest. Returns a json_t. */
struct json_t *name_json(const char *name);

/* Appends to a json_t, an array. */
check_reader json_sequence;

#endif
