/* SPDX-License-Identifier: MIT */
/* The version of the library. */
#include <nearcpu/api.h>

int near_version(void)
{
	return NEAR_VERSION;
}
