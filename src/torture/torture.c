/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <nearcpu/torture.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "job.h"

static bool running;

static const char *why(int error)
{
	switch (error) {
	case -ENOSYS:
		return "no sequence is aborted here: the kernel (or valgrind, qemu) has no rseq, "
		       "or the thread is not registered; near_rseq_status() says more";
	case -ENOENT:
		return "run goes through no restartable sequence to its commit";
	case -EACCES:
		return "the text of the program cannot be made writable: allow it in this test "
		       "(SELinux: execmod; systemd: MemoryDenyWriteExecute=no)";
	case -EBUSY:
		return "another near_torture() is running";
	case -EINVAL:
		return "setup, run and check are needed, the function of each rival, and slot for "
		       "one that closes";
	case -ENOMEM:
		return "out of memory";
	default:
		return strerror(-error);
	}
}

static bool is_valid_rival(const struct near_torture *t, const struct near_torture_rival *r)
{
	if (!r->run || (r->flags & ~(NEAR_TORTURE_NOT_IN_HANDLER | NEAR_TORTURE_CLOSES |
				     NEAR_TORTURE_NOT_BEFORE)))
		return false;
	return !(r->flags & NEAR_TORTURE_CLOSES) ||
	       (t->slot && !(r->flags & NEAR_TORTURE_NOT_IN_HANDLER));
}

static bool is_valid(const struct near_torture *t)
{
	if (!t->setup || !t->run || !t->check || (t->n_rivals && !t->rivals))
		return false;
	for (unsigned i = 0; i < t->n_rivals; i++)
		if (!is_valid_rival(t, &t->rivals[i]))
			return false;
	return true;
}

/* The kernel refuses these arguments in any case, if it knows the call. */
static bool kernel_has_rseq(void)
{
	return NEAR__HAS_SEQ && (syscall(NEAR__SYS_RSEQ, NULL, 0, -1, 0) == 0 || errno != ENOSYS);
}

static int torture(struct job *job)
{
	int error = errno, r;

	if (!is_valid(job->t))
		return -EINVAL;
	r = kernel_has_rseq() ? near__trap_open() : -ENOSYS;
	errno = error;
	if (r < 0)
		return r;
	r = near__job_run(job);
	near__trap_close();
	errno = error;
	return r;
}

int near_torture(const struct near_torture *t, struct near_torture_result *out)
{
	struct near_torture_result own;
	struct job job = {
		.t = t, .companies = EVERY_COMPANY, .before = true, .out = out ? out : &own};
	int r = -EBUSY;

	memset(job.out, 0, sizeof(*job.out));
	if (!__atomic_exchange_n(&running, true, __ATOMIC_ACQUIRE)) {
		r = torture(&job);
		__atomic_store_n(&running, false, __ATOMIC_RELEASE);
	}
	if (r < 0)
		snprintf(job.out->text, sizeof(job.out->text), "%s", why(r));
	else
		r = job.out->failures > INT_MAX ? INT_MAX : (int)job.out->failures;
	return r;
}
