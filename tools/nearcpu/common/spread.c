/* SPDX-License-Identifier: MIT */
/* Order statistics, and their JSON. */
#include "common/spread.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Interpolates between two neighbours. */
static double quantile(const double *sorted, unsigned count, double q)
{
	double at = q * (count - 1);
	unsigned i = (unsigned)at;

	if (i + 1 >= count)
		return sorted[count - 1];
	return sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]);
}

struct spread spread_of(const double *values, unsigned count)
{
	double sorted[MAX_REPEAT];

	if (!count)
		return (struct spread){0};
	memcpy(sorted, values, sizeof(*sorted) * count);
	qsort(sorted, count, sizeof(*sorted), compare);
	return (struct spread){
		.min = sorted[0],
		.low = quantile(sorted, count, 0.25),
		.median = quantile(sorted, count, 0.5),
		.high = quantile(sorted, count, 0.75),
		.max = sorted[count - 1],
	};
}

json_t *real_json(double value)
{
	return isfinite(value) ? json_real(value) : json_null();
}

json_t *spread_json(struct spread s)
{
	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "min", real_json(s.min), "low",
			 real_json(s.low), "median", real_json(s.median), "high", real_json(s.high),
			 "max", real_json(s.max));
}
