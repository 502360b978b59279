/* SPDX-License-Identifier: MIT */
/* Which CPU is this, without rseq. */
#ifndef NEARCPU_HINT_H
#define NEARCPU_HINT_H

#include <stdint.h>

/* The cheapest source that agrees with the system call. */
uint32_t near__hint_choose(unsigned cpus);

/* What near_rseq_status() calls it. */
const char *near__hint_name(uint32_t source);

/* Queries the chosen source, or the system call; both 0 if all fail. */
void near__where(unsigned *cpu, unsigned *node);

#endif
