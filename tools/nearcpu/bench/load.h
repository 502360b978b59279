/* SPDX-License-Identifier: MIT */
/* load: how busy other programs kept the machine during the measurement. */
#ifndef NEARCPU_LOAD_H
#define NEARCPU_LOAD_H

#include <stdbool.h>
#include <stddef.h>

struct load_start {
	double busy, stolen, total; /* CPU seconds of all CPUs since boot */
	double own;                 /* of this process and its children */
};

/* Parts of the CPU time that all CPUs had. */
struct load_share {
	double others; /* used by other programs */
	double stolen; /* taken by the hypervisor */
};

struct load_start load_now(void);
struct load_share load_since(const struct load_start *start);

/* A sentence if that disturbs a measurement; false if the machine was quiet. */
bool load_warning(const struct load_share *load, char *out, size_t size);

#endif
