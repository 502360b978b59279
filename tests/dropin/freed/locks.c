/* SPDX-License-Identifier: MIT */
/* The locks of main.c: a part of the program, or a plugin. */
#include "locks.h"

#include <nearcpu/mutex.h>

static void lock(void *m)
{
	near_mutex_lock((struct near_mutex *)m);
}

static void unlock(void *m)
{
	near_mutex_unlock((struct near_mutex *)m);
}

__attribute__((visibility("default"))) const struct locks near_test_locks = {lock, unlock};
