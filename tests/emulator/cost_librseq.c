/* SPDX-License-Identifier: MIT */
/* What cost.py counts of librseq, in the form that the kernel's tests have it: an addition to the
 * counter of this concurrency id. */
#define _GNU_SOURCE
#include <nearcpu/rseq.h>
#include <rseq.h>

/* Where a thread's area is: by nearcpu's registration, or the C library's. */
ptrdiff_t rseq_offset;
unsigned int rseq_size = 32, rseq_flags;

static struct {
	intptr_t value __attribute__((aligned(64)));
} counters[2048];

__attribute__((used)) void cost_librseq_make(void)
{
	rseq_offset = (char *)near__self.area - (char *)rseq_thread_pointer();
}

__attribute__((used, noinline)) void cost_librseq_add(void)
{
	int cid;

	do
		cid = (int)rseq_current_mm_cid();
	while (rseq_addv(RSEQ_MO_RELAXED, RSEQ_PERCPU_MM_CID, &counters[cid].value, 1, cid));
}
