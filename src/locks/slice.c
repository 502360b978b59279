/* SPDX-License-Identifier: MIT */
/* Extensions of a time slice, see slice.h. */
#define _GNU_SOURCE
#include "slice.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nearcpu/rseq.h>

/* The kernel's numbers, the same on all CPUs. */
#define PR_RSEQ_SLICE_EXTENSION 79
#define SLICE_SET 2
#define SLICE_ENABLE 1
#define SYS_RSEQ_SLICE_YIELD 471

__thread struct near__slice near__slice __attribute__((tls_model("initial-exec")));

/* near__area.slice_ctrl, which the kernel has as bytes. */
struct slice_ctrl {
	uint8_t request, granted;
	uint16_t reserved;
};
_Static_assert(sizeof(struct slice_ctrl) == sizeof(((struct near__area *)0)->slice_ctrl), "slice");

static volatile struct slice_ctrl *ctrl(void)
{
	return (volatile struct slice_ctrl *)&near__self.area->slice_ctrl;
}

/* A thread that is not live has another area: the child of a vfork would speak for its parent.
 * Nothing is written where the kernel does not say that it looks there. */
static bool is_able(void)
{
	struct near_rseq_status status;
	int saved = errno;
	long r;

	near_rseq_status(&status, sizeof(status));
	if (!status.has_slice)
		return false;
	r = syscall(SYS_prctl, PR_RSEQ_SLICE_EXTENSION, SLICE_SET, SLICE_ENABLE, 0, 0);
	errno = saved;
	return r == 0;
}

bool near__slice_begin(void)
{
	struct near__slice *s = &near__slice;

	if (near__self.state != NEAR__LIVE)
		return false;
	if (s->state == NEAR__SLICE_UNKNOWN)
		s->state = is_able() ? NEAR__SLICE_ABLE : NEAR__SLICE_UNABLE;
	if (s->state != NEAR__SLICE_ABLE)
		return false;
	s->asked = true;
	ctrl()->request = 1;
	return true;
}

bool near__slice_end_asked(void)
{
	int saved = errno;
	bool granted;

	if (near__self.state != NEAR__LIVE)
		return false;
	near__slice.asked = false;
	ctrl()->request = 0;
	granted = ctrl()->granted;
	if (granted)
		syscall(SYS_RSEQ_SLICE_YIELD);
	errno = saved;
	return granted;
}
