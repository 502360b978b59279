/* SPDX-License-Identifier: MIT */
/* check: `nearcpu check`, which verifies the restartable sequences of ELF files. */
#ifndef NEARCPU_CHECK_CHECK_H
#define NEARCPU_CHECK_CHECK_H

#include "check/sequence.h"

struct check_counts {
	size_t sequences;
	size_t problems[FAULT + 1]; /* by severity */
};

/* Receives the results. Each function may be NULL. */
struct check_reader {
	void *context;
	/* Each sequence in turn. */
	void (*sequence)(void *context, const struct image *image, const struct sequence *s);
};

#define CHECK_WHY 200

/* Checks one ELF file in memory. Returns 0, whatever was found, or a negative errno with the reason
 * in `why`. */
int check_elf(const uint8_t *file, size_t size, const struct check_reader *reader,
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
void print_sequence(void *text, const struct image *image, const struct sequence *s);
void print_counts(const struct check_text *text, const struct check_counts *counts);

/* A string, if it is UTF-8; else its ASCII, with ? for the rest. Returns a json_t. */
struct json_t *name_json(const char *name);

/* `array` is a json_t: the sequences are appended. */
void json_sequence(void *array, const struct image *image, const struct sequence *s);

const char *cpu_name(enum cpu cpu);

#endif
