/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "scene.h"

#include <errno.h>
#include <string.h>

#include "place.h"
#include "report.h"
#include "rival.h"

/* Spontaneous aborts keep a run from its breakpoint now and then; so often in a row they do not.
 * The first is for a place that may not be on the way at all. */
#define LOOKS 4
#define ATTEMPTS 100
#define MAX_ABORTS 1000

static bool is_last(const struct scene *s)
{
	return s->plan.point + 1 == near__trap_seq(s->plan.seq)->points;
}

static const struct near_torture_rival *rival_of(const struct scene *s)
{
	return s->rival < s->job->t->n_rivals ? &s->job->t->rivals[s->rival] : NULL;
}

static bool closes(const struct scene *s)
{
	return rival_of(s) && (rival_of(s)->flags & NEAR_TORTURE_CLOSES);
}

/* ---- what must not change ---- */

static void keep(struct scene *s)
{
	const struct near_torture *t = s->job->t;

	s->kept_at = t->slot ? t->slot(t->arg, &s->kept_size) : NULL;
	if (s->kept_size > SCENE_KEPT)
		s->kept_size = SCENE_KEPT;
	if (s->kept_at)
		memcpy(s->kept, s->kept_at, s->kept_size);
}

/* By cid the thread may have taken its slot along. */
static void forget_unless_left(struct scene *s)
{
	const struct near_torture *t = s->job->t;
	size_t size;

	if (s->kept_at && t->slot(t->arg, &size) == s->kept_at) {
		s->kept_at = NULL;
		s->job->goes_along = true;
	}
}

static bool was_kept(const struct scene *s)
{
	return !s->kept_at || memcmp(s->kept, s->kept_at, s->kept_size) == 0;
}

/* ---- one run ---- */

static void run_rival(struct scene *s)
{
	const struct near_torture_rival *r = rival_of(s);

	if (!r)
		return;
	if (s->company == ON_THREAD)
		near__rival_run(r->run, r->arg, r->name);
	else
		r->run(r->arg);
}

/* In the signal handler. */
static void meet(void *scene)
{
	struct scene *s = scene;
	int error = errno;

	if (s->job->is_live)
		s->live = s->job->is_live();
	if (s->company == MOVED) {
		keep(s);
		if (s->plan.before && s->kept_at && s->job->goes_along)
			near__rival_stay();
		near__place_go(s->job->place->away);
		forget_unless_left(s);
	} else {
		run_rival(s);
		if (closes(s))
			keep(s);
	}
	errno = error;
}

static void prepare(struct scene *s)
{
	const struct job *job = s->job;

	s->kept_at = NULL;
	s->live = true;
	if (s->company == MOVED)
		near__place_go(job->place->home);
	job->t->setup(job->t->arg);
	if (s->company == ON_THREAD && job->enter)
		near__rival_run(job->enter, job->t->arg, "enter");
}

static void run(const struct scene *s)
{
	s->job->t->run(s->job->t->arg);
}

static bool attempt(struct scene *s, int times)
{
	for (int i = 0; i < times; i++) {
		prepare(s);
		near__trap_run(&s->plan, s->job->t->run, s->job->t->arg);
		near__rival_come_back();
		if (s->plan.met)
			return true;
	}
	return false;
}

bool near__scene_comes_to(struct scene *s, unsigned point)
{
	s->company = ALONE;
	s->plan.point = point;
	s->plan.meet = NULL;
	s->plan.again = false;
	return attempt(s, LOOKS);
}

/* ---- its outcome ---- */

static uint64_t digest(const struct scene *s)
{
	return s->job->t->digest(s->job->t->arg);
}

static const struct orders *orders_of(struct scene *s)
{
	struct orders *o = &s->job->orders[2 * s->rival + (s->company == ON_THREAD)];

	if (o->known)
		return o;
	prepare(s);
	run(s);
	run_rival(s);
	o->run_first = digest(s);
	prepare(s);
	run_rival(s);
	run(s);
	o->rival_first = digest(s);
	o->known = true;
	return o;
}

/* Whether the digest must be that of one of the two orders. All else is judged by the check: where
 * all other sequences were aborted, an operation may have become two steps; and a handler over a
 * thread that is not live takes the fallback, which it does not in the orders. So does one that was
 * aborted again and again. */
static bool has_an_order(const struct scene *s)
{
	bool aborts = s->plan.before ? near__trap_seq(s->plan.seq)->watched : s->plan.aborted;
	bool live = s->live && (s->job->is_live || aborts || is_last(s));

	return s->job->t->digest && s->company != AGAIN && s->plan.others != TRAP_ABORT_OTHERS &&
	       (live || s->company == ON_THREAD);
}

/* What was aborted in its first sequence came after the rival; what had committed came before it.
 * Sequences that come later may stand behind a decision: either order will do. */
static bool is_in_order(struct scene *s, uint64_t got)
{
	const struct orders *o = orders_of(s);

	if (s->job->strict && s->first)
		return got == (is_last(s) ? o->run_first : o->rival_first);
	return got == o->run_first || got == o->rival_first;
}

/* The check comes last, since it may spoil what is looked at, as orders_of() does: those are known
 * before. */
static const char *judge(struct scene *s)
{
	const struct near_torture *t = s->job->t;
	uint64_t got = t->digest ? digest(s) : 0;
	bool kept = was_kept(s);
	const char *wrong = t->check(t->arg);

	if (s->plan.aborted && is_last(s))
		return "was aborted behind its commit";
	if (s->plan.unprotected)
		return "was not aborted, and went on to its commit unprotected";
	if (!s->plan.aborted && !is_last(s) && s->job->is_live && s->live)
		return "was not aborted";
	if (s->plan.endless)
		return "is tried without end";
	if (wrong)
		return wrong;
	if (!kept)
		return s->company == MOVED ? "changed the slot that the thread had left"
					   : "changed a slot that was closed";
	if (has_an_order(s) && !is_in_order(s, got))
		return "what is left is that of neither order";
	return NULL;
}

static void count(struct scene *s)
{
	struct near_torture_result *out = s->job->out;
	unsigned aborts = s->plan.aborts + s->plan.aborts_here;

	out->runs++;
	out->aborts += s->plan.aborted;
	out->migrated += s->plan.aborted && s->company == MOVED;
	if (s->plan.again && aborts > out->most_aborts)
		out->most_aborts = aborts;
}

static unsigned max_aborts(const struct scene *s)
{
	return s->job->t->max_aborts ? s->job->t->max_aborts : MAX_ABORTS;
}

/* Stopped before the sequence: whether the fault goes when the operation has to do without the
 * sequence. Else it is in what the function does besides, such as notes for the check that others
 * get in between of, and not in the sequence. */
static bool is_of_sequence(struct scene *s)
{
	bool is;

	s->plan.again = true;
	s->plan.limit = max_aborts(s);
	is = attempt(s, ATTEMPTS) && !judge(s);
	s->plan.again = false;
	s->plan.limit = 0;
	return is;
}

void near__scene_try(struct scene *s)
{
	const char *wrong;

	if (s->job->t->digest)
		orders_of(s);
	s->plan.meet = meet;
	s->plan.arg = s;
	s->plan.again = s->company == AGAIN;
	s->plan.limit = s->company == AGAIN ? max_aborts(s) : 0;
	if (attempt(s, ATTEMPTS)) {
		count(s);
		wrong = judge(s);
		if (wrong && s->plan.before && !is_of_sequence(s))
			wrong = NULL;
	} else {
		wrong = "never came there";
	}
	if (wrong)
		near__report_stop(s, wrong);
	if (s->company == MOVED)
		near__place_go(s->job->place->home);
}

void near__scene_without(struct scene *s)
{
	const struct near_torture *t = s->job->t;
	const char *wrong;
	bool kept;

	s->company = AGAIN;
	s->plan = (struct trap_plan){.seq = near__trap_count(),
				     .others = TRAP_ABORT_OTHERS,
				     .again = true,
				     .limit = max_aborts(s)};
	prepare(s);
	keep(s);
	near__trap_run(&s->plan, t->run, t->arg);
	count(s);
	kept = was_kept(s);
	wrong = t->check(t->arg);
	if (s->plan.endless)
		near__report_without(s, "its sequences are tried without end");
	else if (wrong)
		near__report_without(s, wrong);
	else if (!kept)
		near__report_without(s, "the fallback changed the slot that sequences write");
}
