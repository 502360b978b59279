/* SPDX-License-Identifier: MIT */
/* The allocator's part of NEAR_CONF. */
#ifndef NEARCPU_MALLOC_CONF_H
#define NEARCPU_MALLOC_CONF_H

#include "ground/conf.h"

struct near__malloc_conf {
	int check;            /* canaries, filling, quarantine; -1: where a tool listens */
	int mismatch;         /* which then tells free, delete and delete[] apart */
	int background;       /* a thread gives memory back while the process is idle */
	uint64_t decay_ms;    /* of memory that is given back */
	uint64_t cache;       /* bytes that the caches of all slots hold together, at most */
	uint64_t heap_sample; /* bytes between two samples of the heap profile */
	uint64_t heap_signal; /* at which it is written, too; 0: none */
	struct near__conf_text profile; /* the beginning of its files' names; NULL: none */
	struct near__conf_text stats;   /* the file that statistics are written to at the end */
};
extern struct near__malloc_conf near__malloc_conf __attribute__((visibility("hidden")));

void near__malloc_conf_read(void);

#endif
