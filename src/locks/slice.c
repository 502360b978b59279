/* SPDX-License-Identifier: MIT */
/* Extensions of a time slice for lock holders. */
#define _GNU_SOURCE
#include "locks/slice.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nearcpu/rseq.h>

/* The kernel's numbers, the same on all CPUs. */
#define PR_RSEQ_SLICE_EXTENSION 79
#define SLICE_SET 2
#define SLICE_ENABLE 1
#define SYS_RSEQ_SLICE_YIELD 471

/* The kernel's layout of near__area.slice_ctrl. */
struct slice_ctrl {
	uint8_t request, granted;
	uint16_t reserved;
};
_Static_assert(sizeof(struct slice_ctrl) == sizeof(((struct near__area *)0)->slice_ctrl), "slice");

static volatile struct slice_ctrl *slice_control(void)
{
	return (volatile struct slice_ctrl *)&near__self.area->slice_ctrl;
}

/* Only a live thread requests: the area of another one is not the kernel's, and a vfork child would
 * request for its parent. Nothing is written unless the kernel reports that it reads the word. */
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
	struct near__locks_thread *mine;
	struct near__slice *s;

	if (near__self.state != NEAR__LIVE)
		return false;
	mine = near__locks_thread_own();
	if (!mine)
		return false;
	s = &mine->slice;
	if (s->state == NEAR__SLICE_UNKNOWN)
		s->state = is_able() ? NEAR__SLICE_ABLE : NEAR__SLICE_UNABLE;
	if (s->state != NEAR__SLICE_ABLE)
		return false;
	s->requested = true;
	slice_control()->request = 1;
	return true;
}

bool near__slice_end_requested(void)
{
	int saved = errno;
	bool granted;

	if (near__self.state != NEAR__LIVE)
		return false;
	near__locks_thread_peek()->slice.requested = false;
	slice_control()->request = 0;
	granted = slice_control()->granted;
	if (granted)
		syscall(SYS_RSEQ_SLICE_YIELD);
	errno = saved;
	return granted;
}

/* A child inherits the request of the thread that forked. The state is this copy's of the library,
 * so each copy registers its handler. */
__attribute__((constructor)) static void slice_watch_forks(void)
{
	pthread_atfork(NULL, NULL, near__slice_end);
}
