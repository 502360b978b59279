/* SPDX-License-Identifier: MIT */
/* near_torture(): checks the arguments, and runs a job. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <nearcpu/torture.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/known.h"
#include "torture/job.h"

static bool running;

static const char *reason_of(int error)
{
	switch (error) {
	case -ENOSYS:
		return "no sequence is aborted here: the kernel (or valgrind, qemu) has no rseq, "
		       "or the thread is not registered; see near_rseq_status()";
	case -ENOENT:
		return "run goes through no restartable sequence to its commit";
	case -EACCES:
		return "the text of the program cannot be made writable: allow it in this test "
		       "(SELinux: execmod; systemd: MemoryDenyWriteExecute=no)";
	case -EBUSY:
		return "another near_torture() is running";
	case -EINVAL:
		return "setup, run and check are required, the function of each competing "
		       "operation, and slot for one that closes";
	case -E2BIG:
		return "the program sets fields that this version of the library does not know";
	case -ENOMEM:
		return "out of memory";
	default:
		return strerror(-error);
	}
}

static bool is_valid_interferer(const struct near_torture *t, const struct near_torture_rival *r)
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
		if (!is_valid_interferer(t, &t->rivals[i]))
			return false;
	return true;
}

/* The kernel refuses these arguments in any case, if it knows the call. */
static bool kernel_has_rseq(void)
{
	return NEAR__HAS_SEQ && (syscall(NEAR__SYS_RSEQ, NULL, 0, -1, 0) == 0 || errno != ENOSYS);
}

static int job_torture(struct job *job)
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

/* Copies the fields that the caller knows; the others are 0. Returns false if the caller sets a
 * field that this version does not know. */
static bool take_in(struct near_torture *t, const struct near_torture *from, size_t size)
{
	const char *bytes = (const char *)from;

	near__copy_known(t, sizeof(*t), from, size);
	for (size_t i = sizeof(*t); i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

int near_torture(const struct near_torture *t, size_t size, struct near_torture_result *out,
		 size_t out_size)
{
	struct near_torture_result result = {0};
	struct near_torture all;
	struct job job = {.t = &all, .schedules = EVERY_SCHEDULE, .before = true, .out = &result};
	int r = -EBUSY;

	if (!take_in(&all, t, size)) {
		r = -E2BIG;
	} else if (!__atomic_exchange_n(&running, true, __ATOMIC_ACQUIRE)) {
		r = job_torture(&job);
		__atomic_store_n(&running, false, __ATOMIC_RELEASE);
	}
	if (r < 0)
		snprintf(job.out->text, sizeof(job.out->text), "%s", reason_of(r));
	else
		r = job.out->failures > INT_MAX ? INT_MAX : (int)job.out->failures;
	if (out)
		near__copy_known(out, out_size, &result, sizeof(result));
	return r;
}
