/* SPDX-License-Identifier: MIT */
/* One call of near_torture(): which sequences the operation runs, and every scenario for each. */
#define _GNU_SOURCE
#include "torture/job.h"

#include <errno.h>
#include <stdlib.h>

#include "torture/interferer.h"
#include "torture/place.h"
#include "torture/report.h"
#include "torture/scenario.h"

/* The instructions before a sequence that are tried: the nearest. */
#define MOST_BEFORE 256

/* ---- which sequences ---- */

static unsigned learn_once(void *arg)
{
	const struct job *job = arg;
	unsigned known = 0;

	for (int others = 0; others < TRAP_OTHERS; others++) {
		job->t->setup(job->t->arg);
		known = near__trap_learn((enum trap_others)others, job->t->run, job->t->arg);
	}
	return known;
}

static int job_learn(struct job *job)
{
	bool reached = false;

	near__trap_learn_again();
	near__trap_learn_all(learn_once, job);
	for (unsigned i = 0; i < near__trap_count(); i++)
		reached |= near__trap_seq(i)->reached;
	return reached ? 0 : -ENOENT;
}

/* ---- the scenarios of a sequence ---- */

static void try_interferers(struct scenario *s)
{
	for (s->interferer = 0; s->interferer < s->job->t->n_rivals; s->interferer++) {
		unsigned flags = s->job->t->rivals[s->interferer].flags;

		if ((s->schedule == IN_HANDLER && (flags & NEAR_TORTURE_NOT_IN_HANDLER)) ||
		    (s->schedule == ON_THREAD && (flags & NEAR_TORTURE_CLOSES)) ||
		    (s->plan.before && (flags & NEAR_TORTURE_NOT_BEFORE)))
			continue;
		near__scenario_try(s);
	}
}

/* Stops the operation at the plan's point, once for each schedule. */
static void try_point(struct scenario *s, unsigned schedules)
{
	for (int schedule = 0; schedule < SCHEDULES; schedule++) {
		s->schedule = (enum schedule)schedule;
		s->interferer = s->job->t->n_rivals;
		if (!(s->job->schedules & schedules & (1u << schedule)) || schedule == TAKEN ||
		    (schedule == MOVED && s->job->place->away < 0))
			continue;
		if (schedule == IN_HANDLER || schedule == ON_THREAD)
			try_interferers(s);
		else
			near__scenario_try(s);
	}
}

/* Before the sequence there is no abort, and other threads may run at any time: the sequence must
 * not commit a value that the function read before it. */
static void try_before(struct scenario *s)
{
	struct job *job = s->job;
	uintptr_t places[MOST_BEFORE];
	unsigned n;

	job->t->setup(job->t->arg);
	n = near__trap_before(s->plan.seq, job->t->run, job->t->arg, places, MOST_BEFORE);
	for (unsigned i = 0; i < n; i++) {
		s->plan.before = places[i];
		if (!near__scenario_reaches(s, 0))
			continue;
		job->out->before++;
		try_point(s, EVERY_SCHEDULE & ~(1u << ALONE | 1u << AGAIN));
	}
	s->plan.before = 0;
}

static bool is_first(struct scenario *s)
{
	s->plan.others = TRAP_ABORT_ONCE;
	return near__scenario_reaches(s, 0) && s->plan.aborts == 0;
}

/* Twice: the first run of a thread in a new slot finds it unopened, and reaches instructions that
 * no later run reaches. */
static bool is_reached(struct scenario *s, unsigned point)
{
	return near__scenario_reaches(s, point) && near__scenario_reaches(s, point); /* NOLINT */
}

/* A sequence that a run reaches without any abort is tried that way; the others are tried after
 * aborts of the sequences before them. */
static void try_sequence(struct job *job, unsigned seq)
{
	struct scenario s = {.job = job, .interferer = job->t->n_rivals, .plan = {.seq = seq}};
	unsigned points = near__trap_seq(seq)->points;

	s.first = is_first(&s);
	for (int others = 0; others < TRAP_OTHERS; others++) {
		s.plan.others = (enum trap_others)others;
		if (!near__scenario_reaches(&s, 0))
			continue;
		job->out->sequences++;
		for (unsigned k = 0; k < points; k++) {
			if (!is_reached(&s, k)) {
				job->out->unreached++;
				continue;
			}
			job->out->boundaries++;
			/* After the commit no abort can repeat. */
			try_point(&s, EVERY_SCHEDULE & (k + 1 == points ? ~(1u << AGAIN) : ~0u));
		}
		if (job->before && others == TRAP_LET_OTHERS)
			try_before(&s);
		return;
	}
}

static void try_all(struct job *job)
{
	for (unsigned i = 0; i < near__trap_count(); i++) {
		const struct trap_seq *seq = near__trap_seq(i);

		if (job->may_run ? !job->may_run(job->t->arg, i) : !seq->reached)
			continue;
		if (seq->too_long)
			near__report(job,
				     "the sequence in %s+0x%lx: too many instructions to be tried",
				     seq->function, (unsigned long)seq->offset);
		else if (!seq->points)
			job->out->uncommitted++;
		else
			try_sequence(job, i);
	}
	if (job->schedules & (1u << AGAIN))
		near__scenario_without(job);
}

/* ---- the job ---- */

/* Without an abort nothing was tested, unless the kernel should have aborted. */
static int job_verdict(const struct job *job)
{
	bool watched = false;

	if (job->may_run || job->out->aborts || job->out->failures)
		return 0;
	for (unsigned i = 0; i < near__trap_count(); i++)
		watched |= near__trap_seq(i)->watched;
	return watched ? -ENOENT : -ENOSYS;
}

static bool needs_thread(const struct job *job)
{
	bool wanted = false;

	for (unsigned i = 0; i < job->t->n_rivals; i++)
		wanted |= !(job->t->rivals[i].flags & NEAR_TORTURE_CLOSES);
	return (wanted && (job->schedules & (1u << ON_THREAD))) ||
	       (job->t->slot && job->place->away >= 0 && (job->schedules & (1u << MOVED)));
}

static int run_in_place(struct job *job)
{
	bool thread = needs_thread(job);
	int r = thread ? near__interferer_start() : 0;

	if (r)
		return r;
	if (!job->may_run)
		r = job_learn(job);
	if (r == 0) {
		try_all(job);
		r = job_verdict(job);
	}
	if (thread)
		near__interferer_end();
	if (r == 0 && job->schedules & (1u << TAKEN))
		r = near__taken_try_all(job);
	return r;
}

int near__job_run(struct job *job)
{
	struct place place;
	int r;

	job->place = &place;
	job->orders = calloc(2 * ((size_t)job->t->n_rivals + 1), sizeof(*job->orders));
	if (!job->orders)
		return -ENOMEM;
	r = near__place_enter(&place);
	if (r == 0) {
		r = run_in_place(job);
		near__place_leave(&place);
	}
	free(job->orders);
	return r;
}
