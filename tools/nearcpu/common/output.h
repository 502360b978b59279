/* SPDX-License-Identifier: MIT */
/* output: a file that appears whole or not at all.
 *
 * It is written in memory first, then into a file beside the final one, which takes its place by
 * rename. Signals wait meanwhile, so nothing half-written is left behind. What is no regular file
 * (a device, a pipe) is written as it is.
 */
#ifndef NEARCPU_OUTPUT_H
#define NEARCPU_OUTPUT_H

#include <stddef.h>

/* Whether `path` can be written, asked before the long work. 0 or negative errno. */
int output_check(const char *path);

/* 0 or negative errno. */
int output_write(const char *path, const char *data, size_t size);

#endif
