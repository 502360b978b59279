/* SPDX-License-Identifier: MIT */
/* run: what the files of `nearcpu run` share. */
#ifndef NEARCPU_RUN_H
#define NEARCPU_RUN_H

#include "common/elf_file.h"
#include "common/installed.h"
#include "common/launch.h"
#include "common/spawn.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct run_options {
	char *const *argv; /* the program and its arguments */
	unsigned parts;    /* of enum library */
	bool stats, compare;
	uint64_t repeat;
	const char *json, *input, *output, *library;
	const char *malloc_option;               /* an option that goes with LIBRARY_MALLOC alone */
	char conf[4096];                         /* NEAR_CONF of the program */
	char preload[8192];                      /* LD_PRELOAD of the program */
	char search[8192];                       /* its LD_LIBRARY_PATH; "": as it is */
	char malloc[PATH_MAX], atomic[PATH_MAX]; /* the libraries of these parts */
	char path[PATH_MAX];                     /* the program */
	char elf[PATH_MAX];                      /* it, or what interprets it; "": unknown */
	char linker[256];                        /* the dynamic linker that loads it */
	const char *set[7];                      /* for run_settings */
};

/* ---- main.c ---- */

/* Appends a setting to NEAR_CONF of the program; false: there is no room. */
bool run_add_conf(struct run_options *o, const char *key, const char *value);

/* What differs in the program's environment, as pairs; it lives in *o. */
const char *const *run_settings(struct run_options *o);

/* "program": its arguments, null for one that is no UTF-8; "libraries": what is preloaded. */
json_t *run_options_json(const struct run_options *o);

/* ---- target.c ---- */

/* Finds the program as execvp would, and whether the libraries can be preloaded into it. 0; else an
 * exit status, and `why` has one line for the user. */
int run_find_program(struct run_options *o, char *why, size_t size);

/* ---- run_atomic.c ---- */

/* Neither the file nor a library that it is linked with calls the shared libatomic. */
bool run_lacks_atomic(const char *elf, const char *linker);

/* ---- run_stats.c, run_compare.c: the subcommand's exit status ---- */

int run_stats(struct run_options *o);
int run_compare(struct run_options *o);

#endif
