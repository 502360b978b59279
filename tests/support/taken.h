/* SPDX-License-Identifier: MIT */
/* Takes this thread's registration away, as another part of the program may. */
#ifndef NEARCPU_TESTS_TAKEN_H
#define NEARCPU_TESTS_TAKEN_H

#include "kernel/area.h"
#include "kernel/kernel.h"
#include "unit.h"

static inline long taken_call(const struct near__thread *t, int flags)
{
	uint32_t size = t->area == t->libc_area ? near__area_size_of_libc() : near__area_own_size();

	return near__syscall_rseq(t->area, size, flags);
}

/* Of a live thread. Returns what taken_give_back needs. Safe in a signal handler. */
static inline struct near__thread taken_away(void)
{
	struct near__thread before = near__self;

	CHECK(before.state == NEAR__THREAD_LIVE && taken_call(&before, 1) == 0);
	return before;
}

/* What no program can do: the thread is live again. */
static inline void taken_give_back(struct near__thread before)
{
	CHECK(taken_call(&before, 0) == 0);
	near__self = before;
}

#endif
