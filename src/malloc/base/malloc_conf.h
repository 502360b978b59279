/* SPDX-License-Identifier: MIT */
/* The allocator's part of NEAR_CONF. */
#ifndef NEARCPU_MALLOC_CONF_H
#define NEARCPU_MALLOC_CONF_H

#include "base/conf.h"

/* Whether a thread gives memory back while the process is idle. AUTO: if it has several threads. */
enum near__conf_background { NEAR__BACKGROUND_OFF, NEAR__BACKGROUND_ON, NEAR__BACKGROUND_AUTO };

struct near__malloc_conf {
	int check;         /* canaries, filling, quarantine; -1: with valgrind or ASan */
	int mismatch;      /* the check mode compares malloc, new and new[] with the frees */
	int background;    /* enum near__conf_background */
	uint64_t decay_ms; /* of free memory, before it is given back */
	uint64_t cache;    /* bytes in the transfer caches of all slots, and in chains, at most */
	uint64_t heap_sample;           /* bytes between two samples of the heap profile */
	uint64_t heap_signal;           /* a signal that writes the profile; 0: none */
	uint64_t heap_interval;         /* seconds after which it is written again; 0: never */
	uint64_t heap_keep;             /* files of intervals that are kept; 0: all */
	struct near__conf_text profile; /* the beginning of its files' names; NULL: none */
	struct near__conf_text stats;   /* the file for the statistics at the end */
	struct near__conf_text region;  /* the region for those while it runs */
};
extern struct near__malloc_conf near__malloc_conf __attribute__((visibility("hidden")));

void near__malloc_conf_read(void);

#endif
