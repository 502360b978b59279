/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "job.h"

#include <errno.h>
#include <stdlib.h>

#include "place.h"
#include "report.h"
#include "rival.h"
#include "scene.h"

/* Of the places before a sequence, those next to it. */
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

static int learn(struct job *job)
{
	bool reached = false;

	near__trap_learn_again();
	near__trap_learn_all(learn_once, job);
	for (unsigned i = 0; i < near__trap_count(); i++)
		reached |= near__trap_seq(i)->reached;
	return reached ? 0 : -ENOENT;
}

/* ---- everything that can happen to one ---- */

static void try_rivals(struct scene *s)
{
	for (s->rival = 0; s->rival < s->job->t->n_rivals; s->rival++) {
		unsigned flags = s->job->t->rivals[s->rival].flags;

		if ((s->company == IN_HANDLER && (flags & NEAR_TORTURE_NOT_IN_HANDLER)) ||
		    (s->company == ON_THREAD && (flags & NEAR_TORTURE_CLOSES)) ||
		    (s->plan.before && (flags & NEAR_TORTURE_NOT_BEFORE)))
			continue;
		near__scene_try(s);
	}
}

/* It is stopped there, in each of the companies. */
static void try_point(struct scene *s, unsigned companies)
{
	for (int company = 0; company < COMPANIES; company++) {
		s->company = (enum company)company;
		s->rival = s->job->t->n_rivals;
		if (!(s->job->companies & companies & (1u << company)) ||
		    (company == MOVED && s->job->place->away < 0))
			continue;
		if (company == IN_HANDLER || company == ON_THREAD)
			try_rivals(s);
		else
			near__scene_try(s);
	}
}

/* Before the sequence nothing is aborted, and others may run there at any time: what it then
 * commits must not be what the function had read before. */
static void try_before(struct scene *s)
{
	struct job *job = s->job;
	uintptr_t places[MOST_BEFORE];
	unsigned n;

	job->t->setup(job->t->arg);
	n = near__trap_before(s->plan.seq, job->t->run, job->t->arg, places, MOST_BEFORE);
	for (unsigned i = 0; i < n; i++) {
		s->plan.before = places[i];
		if (!near__scene_comes_to(s, 0))
			continue;
		job->out->before++;
		try_point(s, EVERY_COMPANY & ~(1u << ALONE | 1u << AGAIN));
	}
	s->plan.before = 0;
}

static bool is_first(struct scene *s)
{
	s->plan.others = TRAP_ABORT_ONCE;
	return near__scene_comes_to(s, 0) && s->plan.aborts == 0;
}

/* Twice: the first run of a thread that has just got another slot finds it unopened, and comes to
 * instructions that no later run comes to. */
static bool is_reached(struct scene *s, unsigned point)
{
	return near__scene_comes_to(s, point) && near__scene_comes_to(s, point);
}

/* What a run passes without any abort is tried so; the rest with those before it aborted. */
static void try_sequence(struct job *job, unsigned seq)
{
	struct scene s = {.job = job, .rival = job->t->n_rivals, .plan = {.seq = seq}};
	unsigned points = near__trap_seq(seq)->points;

	s.first = is_first(&s);
	for (int others = 0; others < TRAP_OTHERS; others++) {
		s.plan.others = (enum trap_others)others;
		if (!near__scene_comes_to(&s, 0))
			continue;
		job->out->sequences++;
		for (unsigned k = 0; k < points; k++) {
			if (!is_reached(&s, k)) {
				job->out->unreached++;
				continue;
			}
			job->out->boundaries++;
			/* Behind the commit there is nothing to abort again. */
			try_point(&s, EVERY_COMPANY & (k + 1 == points ? ~(1u << AGAIN) : ~0u));
		}
		if (job->before && others == TRAP_LET_OTHERS)
			try_before(&s);
		return;
	}
}

static void try_all(struct job *job)
{
	struct scene s = {.job = job, .rival = job->t->n_rivals};

	for (unsigned i = 0; i < near__trap_count(); i++) {
		const struct trap_seq *seq = near__trap_seq(i);

		if (!seq->reached)
			continue;
		if (seq->too_long)
			near__report_sequence(job, seq, "too many instructions to be tried");
		else if (!seq->points)
			job->out->uncommitted++;
		else
			try_sequence(job, i);
	}
	if (job->companies & (1u << AGAIN))
		near__scene_without(&s);
}

/* ---- the whole ---- */

/* Without an abort nothing was proven, unless the kernel should have aborted. */
static int verdict(const struct job *job)
{
	bool watched = false;

	if (job->learnt || job->out->aborts || job->out->failures)
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
	return (wanted && (job->companies & (1u << ON_THREAD))) ||
	       (job->t->slot && job->place->away >= 0 && (job->companies & (1u << MOVED)));
}

static int run_in_place(struct job *job)
{
	bool thread = needs_thread(job);
	int r = thread ? near__rival_start() : 0;

	if (r)
		return r;
	if (!job->learnt)
		r = learn(job);
	if (r == 0) {
		try_all(job);
		r = verdict(job);
	}
	if (thread)
		near__rival_end();
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
