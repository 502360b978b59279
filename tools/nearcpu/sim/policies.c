/* SPDX-License-Identifier: MIT */
/* The list of policies, those of the kernels in order, with that of 2022 also without its parts. */
#include "sim/sim.h"

#include <string.h>

static const struct {
	const struct sim_policy *base;
	const char *name, *about;
	unsigned flags;
} list[] = {
	{&sim_policy_2022, "2022", NULL, 0},
	{&sim_policy_2022, "2022-single", "2022 without the constant for one thread",
	 SIM_NO_SINGLE},
	{&sim_policy_2022, "2022-trans", "2022 without the hand-over", SIM_NO_TRANSFER},
	{&sim_policy_2022, "2022-cache", "2022 without the cache", SIM_NO_CACHE},
	{&sim_policy_2022, "2022-all", "2022 without any of them",
	 SIM_NO_SINGLE | SIM_NO_TRANSFER | SIM_NO_CACHE},
	{&sim_policy_64, "6.4", NULL, 0},
	{&sim_policy_64, "6.13", "Linux 6.13 to 6.18: as 6.4; a CPU takes the id it had before",
	 SIM_LOCAL},
	{&sim_policy_619, "6.19", NULL, 0},
	{&sim_policy_idspace, "idspace", NULL, 0},
};

bool sim_policy(unsigned i, struct sim_policy *out)
{
	if (i >= sizeof(list) / sizeof(list[0]))
		return false;
	*out = *list[i].base;
	out->name = list[i].name;
	out->flags = list[i].flags;
	if (list[i].about)
		out->about = list[i].about;
	return true;
}

bool sim_find_policy(const char *name, struct sim_policy *out)
{
	for (unsigned i = 0; sim_policy(i, out); i++)
		if (strcmp(out->name, name) == 0)
			return true;
	return false;
}
