/* SPDX-License-Identifier: MIT */
/* locks: what nearcpu locks makes of the files of waits/format.h. */
#ifndef NEARCPU_LOCKS_H
#define NEARCPU_LOCKS_H

#include <jansson.h>

#include "waits/format.h"

/* The record in an open file, as one of the "processes" of --json; NULL: it is none. The kinds are
 * in the order of enum near__wait_kind. */
json_t *locks_json(int fd);
extern const char *const locks_kinds[NEAR__WAIT_KINDS];

/* Of all processes. */
void locks_print(FILE *to, const json_t *processes);
int locks_html(const char *path, json_t *processes);

/* What the page is made of. */
extern const unsigned char locks_page_begin[], locks_page_view[];

#endif
