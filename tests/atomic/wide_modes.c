/* SPDX-License-Identifier: MIT */
/* The implementations of 16 bytes in a program that contains the library, or one that shares it. */
#include "wide_modes.h"

#include "atomic/wide.h"

const int wide_modes = NEAR__WIDE_MODES;

int wide_best(void)
{
	return near__wide_best();
}

#ifdef TEST_SHARED
int wide_mode(void)
{
	return near__wide_best();
}

bool wide_force(int mode)
{
	return false;
}
#else
int wide_mode(void)
{
	return near__wide_mode();
}

bool wide_force(int mode)
{
	near__atomic_force_wide(mode);
	return true;
}
#endif
