/* SPDX-License-Identifier: MIT */
/* The schedule TAKEN. The kernel allows any code of a thread to unregister its area. From then on
 * nothing aborts the thread's sequences, so that none may come to its commit: there a breakpoint
 * waits. A thread stays without a registration, and a library may remember that, so that each run
 * has a thread of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "torture/interferer.h"
#include "torture/report.h"
#include "torture/scenario.h"

#define ATTEMPTS 4
#define LEAST_SIZE 32 /* that the C library registers */
#define CPU_ID 4      /* of the area; negative: not registered */
#define UNREGISTER 1

/* glibc 2.35 and later. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned __rseq_size __attribute__((weak));

static char *rseq_area(void)
{
	return (char *)near__thread_pointer() + __rseq_offset;
}

static bool is_registered(void)
{
	return NEAR__HAS_SEQ && &__rseq_size && &__rseq_offset && __rseq_size &&
	       *(volatile int32_t *)(void *)(rseq_area() + CPU_ID) >= 0;
}

/* Before the operation, or in the signal handler. */
static void area_take(void *taken)
{
	unsigned size = __rseq_size > LEAST_SIZE ? __rseq_size : LEAST_SIZE;
	int error = errno;

	if (is_registered())
		*(bool *)taken = syscall(NEAR__SYS_RSEQ, rseq_area(), size, UNREGISTER,
					 NEAR__SIGNATURE) == 0;
	errno = error;
}

static void run_plan(void *scenario)
{
	struct scenario *s = scenario;

	near__trap_run(&s->plan, s->job->t->run, s->job->t->arg);
}

/* The first run makes the thread known to the library, and opens its slot. */
static int run_on_thread(struct scenario *s)
{
	const struct near_torture *t = s->job->t;
	int r = near__interferer_start();

	if (r)
		return r;
	t->setup(t->arg);
	near__interferer_run(t->run, t->arg, "the operation");
	t->setup(t->arg);
	near__interferer_run(run_plan, s, "the operation");
	near__interferer_end();
	return 0;
}

static void taken_judge(struct scenario *s)
{
	const char *wrong = s->job->t->check(s->job->t->arg);

	s->job->out->runs++;
	s->job->out->taken++;
	s->job->out->aborts += s->plan.aborted;
	if (s->plan.unprotected)
		wrong = "went on to its commit unprotected";
	if (wrong && s->plan.seq < near__trap_count())
		near__report_stop(s, wrong);
	else if (wrong)
		near__report(s->job, "the thread's registration taken away before: a sequence %s",
			     wrong);
}

/* This thread may not come to a place that another one came to. */
static int try_point(struct scenario *s)
{
	bool taken = false;
	int r = 0;

	s->plan.arg = &taken;
	for (int i = 0; i < ATTEMPTS && r == 0 && !taken; i++)
		r = run_on_thread(s);
	s->plan.arg = NULL;
	if (taken)
		taken_judge(s);
	return r;
}

int near__taken_try_all(struct job *job)
{
	int r;
	struct scenario s = {.job = job, .schedule = TAKEN, .interferer = job->t->n_rivals};

	if (!is_registered())
		return 0;
	s.plan.seq = near__trap_count();
	s.plan.on_stop = area_take;
	s.plan.unregisters = true;
	r = try_point(&s);
	for (s.plan.seq = 0; s.plan.seq < near__trap_count(); s.plan.seq++) {
		const struct trap_seq *seq = near__trap_seq(s.plan.seq);
		unsigned points = seq->reached && !seq->too_long ? seq->points : 0;

		for (s.plan.point = 0; r == 0 && s.plan.point < points; s.plan.point++)
			r = try_point(&s);
	}
	return r;
}
