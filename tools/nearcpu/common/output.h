/* SPDX-License-Identifier: MIT */
/* output: a file that appears whole or not at all.
 *
 * It is written to memory first, then to a temporary file in the same directory, which is renamed.
 * Signals are blocked then, so no part of a file is left behind. What is no regular file (a device,
 * a pipe) is written in place; "-" is standard output.
 */
#ifndef NEARCPU_OUTPUT_H
#define NEARCPU_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>

bool output_is_stdout(const char *path);

/* These return an exit status, after a message that names the subcommand. */

/* Whether `path` can be written, to be called before the measurement. NULL: nothing will be. */
int output_check(const char *sub, const char *path);

/* `data` is NULL without memory. */
int output_write(const char *sub, const char *path, const char *data, size_t size);

/* Takes the object. */
int output_json(const char *sub, const char *path, json_t *json);

#endif
