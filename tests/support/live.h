/* SPDX-License-Identifier: MIT */
/* Whether this thread is live, and how it is made not to be. */
#ifndef NEARCPU_TESTS_LIVE_H
#define NEARCPU_TESTS_LIVE_H

#include <nearcpu/rseq.h>

#include "kernel/kernel.h"
#include "unit.h"

static inline struct near_rseq_status status_now(void)
{
	struct near_rseq_status status;

	memset(&status, 0x5a, sizeof(status));
	KEEPS_ERRNO(near_rseq_status(&status, sizeof(status)));
	return status;
}

static inline bool is_live(void)
{
	return status_now().live;
}

/* From now on this thread is not live. Returns what it was. */
static inline struct near__thread play_dead(void)
{
	struct near__thread before;

	near_slot();
	before = near__self;
	near__self.state = NEAR__DEAD;
	near__self.area = &near__dead;
	return before;
}

#endif
