/* SPDX-License-Identifier: MIT */
/* output: a file that appears whole or not at all.
 *
 * A temporary file in the same directory is written, then renamed. What is no regular file (a
 * device, a pipe) is written in place; "-" is standard output. */
#ifndef NEARCPU_OUTPUT_H
#define NEARCPU_OUTPUT_H

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct output {
	const char *sub, *path;
	FILE *file;            /* stdout, or with a large buffer */
	int err;               /* a negative errno if a write failed whose error is known */
	char target[PATH_MAX]; /* what gets replaced */
	char temp[PATH_MAX];   /* "": it is written in place */
};

bool output_is_stdout(const char *path);

/* These return an exit status, after a message that names the subcommand. */

/* Whether `path` can be written, to be called before the measurement. NULL: nothing will be. */
int output_check(const char *sub, const char *path);

/* A signal must not end the process between these two: commands catch signals. */
int output_open(struct output *o, const char *sub, const char *path);
/* `code`, or a status of its own. The file gets its name if that is 0, else it is removed. */
int output_close(struct output *o, int code);

/* Signals are blocked until the file is written. `data` is NULL without memory. */
int output_write(const char *sub, const char *path, const char *data, size_t size);

/* At an offset, or as write does. 0, or a negative errno; -EINTR: the user interrupted this
 * process. */
#define AT_END UINT64_MAX
int write_at(int fd, const void *data, size_t size, uint64_t at);

/* Takes the object. */
int output_json(const char *sub, const char *path, json_t *json);

#endif
