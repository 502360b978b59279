/* SPDX-License-Identifier: MIT */
/* spread: the order statistics of repeated measurements. */
#ifndef NEARCPU_SPREAD_H
#define NEARCPU_SPREAD_H

#include <jansson.h>

#define MAX_REPEAT 1000

struct spread {
	double min, low, median, high, max; /* low and high: the quartiles */
};

/* Of at most MAX_REPEAT values. */
struct spread spread_of(const double *values, unsigned count);

/* A number, or null for an infinity, which JSON does not have. */
json_t *real_json(double value);
json_t *spread_json(struct spread s);

#endif
