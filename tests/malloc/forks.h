/* SPDX-License-Identifier: MIT */
/* What the tests of fork share. */
#ifndef NEARCPU_TESTS_MALLOC_FORKS_H
#define NEARCPU_TESTS_MALLOC_FORKS_H

#include "atomic/calls.h"
#include "use.h"

static inline void skip_if_emulated(void)
{
	if (!unit_emulated())
		return;
	print_message("skipped: emulators show threads and forks in their own way\n");
	skip();
}

/* By libatomic, under a lock. */
static inline void exchange_an_object(void)
{
	static uint64_t object[4];
	uint64_t value[4] = {1, 2, 3, 4}, old[4];

	call_exchange(sizeof(object), object, value, old, __ATOMIC_SEQ_CST);
}

#endif
