/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "cross.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearcpu/rseq.h>

/* Spontaneous aborts keep a run from its breakpoint now and then; so often in a row they do not.
 * The first is for a place that may not be on the way at all. */
#define LOOKS 4
#define ATTEMPTS 100
#define MAX_OPS 64

/* One A and one B. */
struct scene {
	struct cross *c;
	enum ops_setup setup;
	const struct op *a, *b;
	struct actor actor_a, actor_b;
	struct trap_plan plan;
	bool first; /* A has been through no other sequence before */
	bool live;  /* A was, where it was stopped */
};

struct orders {
	bool known;
	uint64_t a_first, b_first;
};
static struct orders orders[MAX_OPS];

/* ---- the rival ---- */

static struct {
	pthread_t thread;
	sem_t go, done;
	void (*run)(void *arg);
	void *arg;
} rival;

static void wait_for(sem_t *s)
{
	while (sem_wait(s) && errno == EINTR)
		;
}

static void *rival_thread(void *unused)
{
	for (;;) {
		wait_for(&rival.go);
		if (!rival.run)
			return unused;
		rival.run(rival.arg);
		sem_post(&rival.done);
	}
}

void cross_start_rival(void)
{
	sem_init(&rival.go, 0, 0);
	sem_init(&rival.done, 0, 0);
	if (pthread_create(&rival.thread, NULL, rival_thread, NULL)) {
		fputs("cross: no thread to be had\n", stderr);
		exit(1);
	}
}

void cross_end_rival(void)
{
	rival.run = NULL;
	sem_post(&rival.go);
	pthread_join(rival.thread, NULL);
}

static void by_rival(enum rival who, void (*run)(void *arg), void *arg)
{
	if (who == RIVAL_HANDLER) {
		run(arg);
		return;
	}
	rival.run = run;
	rival.arg = arg;
	sem_post(&rival.go);
	wait_for(&rival.done);
}

/* ---- one scene ---- */

static void run_a(void *scene)
{
	struct scene *s = scene;

	s->a->run(&s->actor_a);
}

static void run_b(void *scene)
{
	struct scene *s = scene;

	s->b->run(&s->actor_b);
}

static void enter(void *suite)
{
	((const struct suite *)suite)->enter();
}

static void meet_b(void *scene)
{
	struct scene *s = scene;

	s->live = near__self.state == NEAR__LIVE;
	by_rival(s->c->rival, run_b, s);
}

static void prepare(struct scene *s)
{
	s->c->suite->reset(s->setup);
	if (s->c->rival == RIVAL_THREAD)
		by_rival(RIVAL_THREAD, enter, (void *)(uintptr_t)s->c->suite);
	s->actor_a = (struct actor){.id = 0};
	s->actor_b = (struct actor){.id = 1};
}

static uint64_t digest(struct scene *s)
{
	return s->c->suite->digest(&s->actor_a, &s->actor_b);
}

static const struct orders *orders_of(struct scene *s)
{
	struct orders *o = &orders[s->b - s->c->suite->ops];

	if (o->known)
		return o;
	prepare(s);
	run_a(s);
	meet_b(s);
	o->a_first = digest(s);
	prepare(s);
	meet_b(s);
	run_a(s);
	o->b_first = digest(s);
	o->known = true;
	return o;
}

static void report(struct scene *s, const char *what)
{
	const struct trap_seq *seq = near__trap_seq(s->plan.seq);
	char text[512];

	s->c->failures++;
	if (s->c->quiet)
		return;
	s->c->suite->describe(text, sizeof(text), &s->actor_a, &s->actor_b);
	fprintf(stderr,
		"setup %d, %s stopped in %s at instruction %u of %u (others %d), %s by %s: %s\n"
		"  %s\n",
		(int)s->setup, s->a->name, seq->function, s->plan.point, seq->points - 1,
		(int)s->plan.others, s->b ? s->b->name : "nothing",
		s->c->rival == RIVAL_HANDLER ? "handler" : "thread", what, text);
}

static bool attempt(struct scene *s, int times)
{
	for (int i = 0; i < times; i++) {
		prepare(s);
		near__trap_run(&s->plan, run_a, s);
		if (s->plan.met)
			return true;
	}
	return false;
}

/* Whether the digest must be that of one of the two orders. All else is judged by conservation:
 * where all other sequences were aborted, a pop may have become a steal, which is not one step; and
 * a handler over a thread that is not live takes the fallback, which it does not in the orders. */
static bool has_an_order(const struct scene *s)
{
	return s->c->suite->is_one_step(s->setup, s->a) && s->plan.others != TRAP_ABORT_OTHERS &&
	       (s->live || s->c->rival == RIVAL_THREAD);
}

/* What was aborted in its first sequence came after B; what had committed came before it. Sequences
 * that come later may stand behind a decision: either order will do. */
static bool is_in_order(struct scene *s, bool last)
{
	const struct orders *o = orders_of(s);
	uint64_t got = digest(s);

	if (s->first)
		return got == (last ? o->a_first : o->b_first);
	return got == o->a_first || got == o->b_first;
}

static void judge(struct scene *s)
{
	const struct trap_seq *seq = near__trap_seq(s->plan.seq);
	bool last = s->plan.point == seq->points - 1;
	const char *lost = s->c->suite->conserved(&s->actor_a, &s->actor_b);

	s->c->runs++;
	if (s->plan.aborted && last)
		report(s, "aborted behind its commit");
	else if (!s->plan.aborted && !last && s->live)
		report(s, "not aborted");
	else if (lost)
		report(s, lost);
	else if (has_an_order(s) && !is_in_order(s, last))
		report(s, "not in order");
}

/* judge() may run the orders, which change what it looks at: they are known before. */
static void cross_at(struct scene *s, unsigned point)
{
	const struct suite *suite = s->c->suite;

	s->plan.point = point;
	for (unsigned b = 0; b < suite->count; b++) {
		s->b = &suite->ops[b];
		if (!suite->pair_is_valid(s->setup, s->a, s->b) ||
		    (s->a->object != s->b->object && !(s->c->all_pairs && s->setup == 0)))
			continue;
		orders_of(s);
		s->plan.meet = meet_b;
		if (attempt(s, ATTEMPTS))
			judge(s);
		else
			report(s, "never came there");
	}
}

static bool comes_to(struct scene *s, unsigned point)
{
	s->plan.point = point;
	s->plan.meet = NULL;
	return attempt(s, LOOKS);
}

static bool is_first(struct scene *s)
{
	bool met;

	s->plan.others = TRAP_ABORT_ONCE;
	met = comes_to(s, 0);
	return met && s->plan.aborts == 0;
}

/* What a run passes without any abort is tried so; the rest with those before it aborted. */
static void cross_sequence(struct scene *s, unsigned seq)
{
	unsigned last = near__trap_seq(seq)->points - 1;

	s->plan = (struct trap_plan){.seq = seq, .arg = s};
	s->first = is_first(s);
	for (int others = 0; others < TRAP_OTHERS; others++) {
		s->plan.others = (enum trap_others)others;
		if (!comes_to(s, 0))
			continue;
		for (unsigned k = 0; k <= last; k++)
			if (comes_to(s, k))
				cross_at(s, k);
		return;
	}
}

void cross_run(struct cross *c)
{
	const struct suite *suite = c->suite;

	for (unsigned setup = 0; setup < suite->setups; setup++)
		for (unsigned a = 0; a < suite->count; a++) {
			struct scene s = {
				.c = c, .setup = (enum ops_setup)setup, .a = &suite->ops[a]};

			if (!suite->pair_is_valid(s.setup, s.a, s.a) &&
			    !suite->pair_is_valid(s.setup, s.a, &suite->ops[0]))
				continue;
			for (unsigned i = 0; i < MAX_OPS; i++)
				orders[i].known = false;
			for (unsigned q = 0; q < near__trap_count(); q++)
				if (near__trap_seq(q)->points)
					cross_sequence(&s, q);
		}
}

static unsigned learn_once(const struct suite *suite)
{
	struct cross c = {.suite = suite};
	unsigned known = 0;

	for (int others = 0; others < TRAP_OTHERS; others++)
		for (unsigned setup = 0; setup < suite->setups; setup++)
			for (unsigned a = 0; a < suite->count; a++) {
				struct scene s = {.c = &c,
						  .setup = (enum ops_setup)setup,
						  .a = &suite->ops[a]};

				if (!suite->pair_is_valid(s.setup, s.a, &suite->ops[0]))
					continue;
				prepare(&s);
				known = near__trap_learn((enum trap_others)others, run_a, &s);
			}
	return known;
}

/* A loop that tries again may have been unrolled: what comes after the n-th abort is seen in the
 * n-th round at the latest. */
void cross_learn(const struct suite *suite)
{
	unsigned before = 0, known;

	while ((known = learn_once(suite)) != before)
		before = known;
}
