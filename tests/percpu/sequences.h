/* SPDX-License-Identifier: MIT */
/* What the tests of sequences share. Where the kernel has no rseq (qemu-user), the thread's words
 * name an area of the test's own, so that the code of every CPU is run; nothing interrupts a
 * sequence there that could do harm. */
#ifndef NEARCPU_TESTS_SEQUENCES_H
#define NEARCPU_TESTS_SEQUENCES_H

#include "unit.h"

#include <nearcpu/percpu.h>

#include "percpu/internal.h"

#if NEAR__HAS_SEQ

static struct near__area pretended = {.cpu_id = 1, .mm_cid = 0};
static uint64_t *slotted; /* a percpu object whose own slot is open */

static inline void pretend_to_be_live(void)
{
	if (near__thread_live())
		return;
	near__self.area = &pretended;
	near__self.index_mode = 0;
}

static inline int set_up(void **state)
{
	void *p;

	CHECK(near_percpu_alloc(&p, 64, 64) == 0);
	slotted = p;
	pretend_to_be_live();
	return 0;
}

/* A sequence may be aborted at any time: it is tried again. */
#define UNTIL_DONE(call)                                                                           \
	do {                                                                                       \
		int tries_ = 0;                                                                    \
                                                                                                   \
		while (!(call))                                                                    \
			assert_true(++tries_ < 10000);                                             \
	} while (0)

enum { BRANCHED = 2 };

/* Returns whether the sequence ended; where it branched, *out is TAKEN. */
#define SEQUENCE(ops, ...)                                                                         \
	uint64_t at, v, w;                                                                         \
	int r = NEAR_SEQ(NEAR_INDEX(at) ops, NEAR_OUT(at, v, w), NEAR_IN(__VA_ARGS__), BRANCHED);  \
                                                                                                   \
	if (r == BRANCHED)                                                                         \
		*out = TAKEN;                                                                      \
	return r != NEAR_SEQ_FAILED
#define TAKEN UINT64_C(0x7461676e)

#endif

#endif
