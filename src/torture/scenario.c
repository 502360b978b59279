/* SPDX-License-Identifier: MIT */
/* Runs one scenario, and judges its result. */
#define _GNU_SOURCE
#include "torture/scenario.h"

#include <errno.h>
#include <string.h>

#include "torture/interferer.h"
#include "torture/place.h"
#include "torture/report.h"

/* Spontaneous aborts sometimes keep a run from its breakpoint, but not this many times in a row.
 * FEW_ATTEMPTS is for a point that the run may not reach at all. */
#define FEW_ATTEMPTS 4
#define ATTEMPTS 100
#define MAX_ABORTS 1000

static bool is_last(const struct scenario *s)
{
	return s->plan.point + 1 == near__trap_seq(s->plan.seq)->points;
}

static bool scenario_closes(const struct scenario *s)
{
	const struct near_torture_rival *r = near__scenario_interferer(s);

	return r && (r->flags & NEAR_TORTURE_CLOSES);
}

/* ---- what must not change ---- */

static void scenario_keep(struct scenario *s)
{
	const struct near_torture *t = s->job->t;

	s->kept_at = t->slot ? t->slot(t->arg, &s->kept_size) : NULL;
	if (s->kept_size > SCENARIO_KEPT)
		s->kept_size = SCENARIO_KEPT;
	if (s->kept_at)
		memcpy(s->kept, s->kept_at, s->kept_size);
}

/* With slots by cid, a moved thread may keep its slot. */
static void forget_unless_left(struct scenario *s)
{
	const struct near_torture *t = s->job->t;
	size_t size;

	if (s->kept_at && t->slot(t->arg, &size) == s->kept_at) {
		s->kept_at = NULL;
		s->job->slot_moves_along = true;
	}
}

static bool was_kept(const struct scenario *s)
{
	return !s->kept_at || memcmp(s->kept, s->kept_at, s->kept_size) == 0;
}

/* ---- one run ---- */

static void run_interferer(struct scenario *s)
{
	const struct near_torture_rival *r = near__scenario_interferer(s);

	if (!r)
		return;
	if (s->schedule == ON_THREAD)
		near__interferer_run(r->run, r->arg, r->name);
	else
		r->run(r->arg);
}

/* In the signal handler. */
static void on_stop(void *scenario)
{
	struct scenario *s = scenario;
	int error = errno;

	if (s->job->is_live)
		s->live = s->job->is_live();
	if (s->schedule == MOVED) {
		scenario_keep(s);
		if (s->plan.before && s->kept_at && s->job->slot_moves_along)
			near__interferer_stay();
		near__place_go(s->job->place->away);
		forget_unless_left(s);
	} else {
		run_interferer(s);
		if (scenario_closes(s))
			scenario_keep(s);
	}
	errno = error;
}

static void scenario_prepare(struct scenario *s)
{
	const struct job *job = s->job;

	s->kept_at = NULL;
	s->live = true;
	if (s->schedule == MOVED)
		near__place_go(job->place->home);
	job->t->setup(job->t->arg);
	if (s->schedule == ON_THREAD && job->enter)
		near__interferer_run(job->enter, job->t->arg, "enter");
}

static void scenario_run(const struct scenario *s)
{
	s->job->t->run(s->job->t->arg);
}

static bool scenario_attempt(struct scenario *s, int times)
{
	for (int i = 0; i < times; i++) {
		scenario_prepare(s);
		near__trap_run(&s->plan, s->job->t->run, s->job->t->arg);
		near__interferer_come_back();
		if (s->plan.reached)
			return true;
	}
	return false;
}

bool near__scenario_reaches(struct scenario *s, unsigned point)
{
	s->schedule = ALONE;
	s->plan.point = point;
	s->plan.on_stop = NULL;
	s->plan.again = false;
	return scenario_attempt(s, FEW_ATTEMPTS);
}

/* ---- the result ---- */

static uint64_t scenario_digest(const struct scenario *s)
{
	return s->job->t->digest(s->job->t->arg); /* NOLINT: not null */
}

static const struct orders *orders_of(struct scenario *s)
{
	struct orders *o = &s->job->orders[2 * s->interferer + (s->schedule == ON_THREAD)];

	if (o->known)
		return o;
	scenario_prepare(s);
	scenario_run(s);
	run_interferer(s);
	o->run_first = scenario_digest(s);
	scenario_prepare(s);
	run_interferer(s);
	scenario_run(s);
	o->interferer_first = scenario_digest(s);
	o->known = true;
	return o;
}

/* Whether the digest must equal that of one of the two orders. The check alone judges the other
 * cases: an operation may consist of two steps where all other sequences were aborted, and a
 * handler on a thread that is not live uses the fallback, which it does not in the two orders. An
 * operation that is aborted repeatedly uses the fallback as well. */
static bool has_an_order(const struct scenario *s)
{
	bool aborts = s->plan.before ? near__trap_seq(s->plan.seq)->watched : s->plan.aborted;
	bool live = s->live && (s->job->is_live || aborts || is_last(s));

	return s->job->t->digest && s->schedule != AGAIN && s->plan.others != TRAP_ABORT_OTHERS &&
	       (live || s->schedule == ON_THREAD);
}

/* An operation that was aborted in its first sequence takes effect after the competing one, one
 * that had committed before it. A later sequence may follow a decision: either order is correct. */
static bool is_in_order(struct scenario *s, uint64_t got)
{
	const struct orders *o = orders_of(s);

	if (s->job->strict && s->first)
		return got == (is_last(s) ? o->run_first : o->interferer_first);
	return got == o->run_first || got == o->interferer_first;
}

/* The check runs last, because it may change what the digest reads. So may orders_of(), whose
 * results are cached before. */
static const char *scenario_judge(struct scenario *s)
{
	const struct near_torture *t = s->job->t;
	uint64_t got = t->digest ? scenario_digest(s) : 0;
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
		return s->schedule == MOVED ? "changed the slot that the thread had left"
					    : "changed a slot that was closed";
	if (has_an_order(s) && !is_in_order(s, got))
		return "what is left is that of neither order";
	return NULL;
}

static void scenario_count(struct scenario *s)
{
	struct near_torture_result *out = s->job->out;
	unsigned aborts = s->plan.aborts + s->plan.aborts_here;

	out->runs++;
	out->aborts += s->plan.aborted;
	out->migrated += s->plan.aborted && s->schedule == MOVED;
	if (s->plan.again && aborts > out->most_aborts)
		out->most_aborts = aborts;
}

static unsigned max_aborts(const struct scenario *s)
{
	return s->job->t->max_aborts ? s->job->t->max_aborts : MAX_ABORTS;
}

/* For a stop before the sequence: whether the fault disappears when the operation runs without the
 * sequence. If it does not, its cause is other code of the function, such as bookkeeping for the
 * check that is not atomic. */
static bool is_of_sequence(struct scenario *s)
{
	bool is;

	s->plan.again = true;
	s->plan.limit = max_aborts(s);
	is = scenario_attempt(s, ATTEMPTS) && !scenario_judge(s);
	s->plan.again = false;
	s->plan.limit = 0;
	return is;
}

void near__scenario_try(struct scenario *s)
{
	const char *wrong;

	if (s->job->t->digest)
		orders_of(s);
	s->plan.on_stop = on_stop;
	s->plan.arg = s;
	s->plan.again = s->schedule == AGAIN;
	s->plan.limit = s->schedule == AGAIN ? max_aborts(s) : 0;
	if (scenario_attempt(s, ATTEMPTS)) {
		scenario_count(s);
		wrong = scenario_judge(s);
		if (wrong && s->plan.before && !is_of_sequence(s))
			wrong = NULL;
	} else {
		wrong = "the point was never reached";
	}
	if (wrong)
		near__report_stop(s, wrong);
	if (s->schedule == MOVED)
		near__place_go(s->job->place->home);
}

void near__scenario_without(struct job *job)
{
	const struct near_torture *t = job->t;
	struct scenario s = {.job = job, .schedule = AGAIN, .interferer = t->n_rivals};
	const char *wrong;
	bool kept;

	s.plan = (struct trap_plan){.seq = near__trap_count(),
				    .others = TRAP_ABORT_OTHERS,
				    .again = true,
				    .limit = max_aborts(&s)};
	scenario_prepare(&s);
	scenario_keep(&s);
	near__trap_run(&s.plan, t->run, t->arg);
	scenario_count(&s);
	kept = was_kept(&s);
	wrong = t->check(t->arg);
	if (s.plan.endless)
		wrong = "its sequences are tried without end";
	else if (!wrong && !kept)
		wrong = "the fallback changed the slot that sequences write";
	if (wrong)
		near__report(job, "all sequences aborted at each try, %u times: %s", s.plan.aborts,
			     wrong);
}
