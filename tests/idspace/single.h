/* SPDX-License-Identifier: MIT */
/* Whether the library takes the process for one with a single thread, which makes a difference to
 * ids. For programs linked with --wrap=near__is_one_thread. */
#ifndef NEARCPU_TESTS_SINGLE_H
#define NEARCPU_TESTS_SINGLE_H

#include <stdbool.h>

static bool ids_single;

bool __wrap_near__is_one_thread(void);

bool __wrap_near__is_one_thread(void)
{
	return ids_single;
}

#endif
