/* SPDX-License-Identifier: MIT */
/* The words of probes, see probe.h. */
#include "base/probe.h"

#include "base/unique.h"

#define PROBES_SIZE 256
_Static_assert(sizeof(struct near__probe) == 16 && sizeof(near__probes) <= PROBES_SIZE,
	       "near__probes");
NEAR__UNIQUE(near__probes, PROBES_SIZE);
