/* SPDX-License-Identifier: MIT */
/* Static objects that are made ready before main, see percpu.h. */
#include <nearcpu/percpu.h>

#include <stdio.h>

#include "ground/die.h"

void near__init_early(int r, const char *name)
{
	char line[128];

	if (!r)
		return;
	snprintf(line, sizeof(line), "no memory for the static object %s", name);
	near__die(line);
}
