/* SPDX-License-Identifier: MIT */
/* Objects that are initialised before main, and those that never are, see api.h. */
#include <nearcpu/percpu.h>

#include <errno.h>
#include <stdio.h>

#include "base/die.h"

void near__init_early(int r, const char *name)
{
	char line[128];

	if (!r)
		return;
	if (r == -ENOMEM)
		snprintf(line, sizeof(line), "no memory for the static object %s", name);
	else
		snprintf(line, sizeof(line), "the static object %s: its init returned %d", name, r);
	near__die(line);
}

void near__used_before_init(const char *function, const void *object)
{
	char line[128];

	snprintf(line, sizeof(line), "%s: the object at %p was not initialised", function, object);
	near__die(line);
}
