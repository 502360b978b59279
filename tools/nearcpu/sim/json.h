/* SPDX-License-Identifier: MIT */
/* json: the figures of nearcpu sim as JSON. */
#ifndef NEARCPU_SIM_JSON_H
#define NEARCPU_SIM_JSON_H

#include "sim/result.h"

#include <jansson.h>

/* A new object, or NULL without memory. */
json_t *sim_json(const struct sim_report *r);
/* plot.c: the figures as SVG, to be freed. A negative errno: -ENOENT without gnuplot. */
int sim_plot(const struct sim_report *r, char **out);

#endif
