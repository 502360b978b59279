/* SPDX-License-Identifier: MIT */
/* NEAR_CONF=key:value,...: the one setting. */
#ifndef NEARCPU_CONF_H
#define NEARCPU_CONF_H

#include <stddef.h>

enum near__conf_slot { NEAR__SLOT_AUTO, NEAR__SLOT_BY_CPU, NEAR__SLOT_BY_CID };

struct near__conf {
	int rseq_off;
	int fence_off;
	int slot; /* enum near__conf_slot */
};

typedef void near__conf_warn(const char *what, const char *item, size_t len);

/* Reads `text` (NULL: nothing set) into *out, which starts as zero. An unknown key or value is
 * given to `warn` and ignored. */
void near__conf_parse(struct near__conf *out, const char *text, near__conf_warn *warn);

/* The same from the environment, with a line on standard error for each warning. Nothing is read in
 * setuid programs. */
void near__conf_read(struct near__conf *out);

#endif
