/* SPDX-License-Identifier: MIT */
/* Runs every pair of operations as jobs of near_torture. */
#include "cross.h"

#include <stdio.h>
#include <stdlib.h>

#include <nearcpu/rseq.h>

#include "torture/job.h"

#define MAX_OPS 128

struct pairing;

struct partner {
	struct pairing *pairing;
	const struct op *op;
};

/* One A, and every operation that runs while it is stopped. */
struct pairing {
	struct cross *c;
	enum ops_setup setup;
	const struct op *a;
	struct actor actor_a, actor_b;
	struct partner ops[MAX_OPS];
	struct near_torture_rival rivals[MAX_OPS];
	unsigned n;
	bool probed; /* `reached` of the sequences is A's */
};

static void run_a(void *pairing)
{
	struct pairing *m = pairing;

	m->a->run(&m->actor_a);
}

static void run_b(void *partner)
{
	struct partner *b = partner;

	b->op->run(&b->pairing->actor_b);
}

/* Operations on other objects run beside A, too. */
static bool meets_others(const struct pairing *m)
{
	return m->c->all_pairs && m->setup == 0 && !(m->a->flags & OPS_LONG);
}

static void reset(void *pairing)
{
	struct pairing *m = pairing;

	m->c->suite->reset(m->setup, meets_others(m) ? OPS_OBJECTS : m->a->object);
	m->actor_a = (struct actor){.id = 0};
	m->actor_b = (struct actor){.id = 1};
}

static void enter(void *pairing)
{
	((struct pairing *)pairing)->c->suite->enter();
}

static const char *check(void *pairing)
{
	struct pairing *m = pairing;

	return m->c->suite->conserved(&m->actor_a, &m->actor_b);
}

static uint64_t digest(void *pairing)
{
	struct pairing *m = pairing;

	return m->c->suite->digest(&m->actor_a, &m->actor_b);
}

static bool is_live(void)
{
	return near__self.state == NEAR__LIVE;
}

/* By the sequences' numbers: a bit for each object with an operation that runs it. */
static unsigned *objects_of;

/* Spontaneous aborts may keep a run from a sequence. */
#define ATTEMPTS 4

/* Which sequences A comes to while others are aborted. Up to the start of one of them, such a run
 * is the same whether that one is awaited or all are: a few runs find all of them. */
static void probe(struct pairing *m)
{
	near__trap_forget_reached();
	for (int others = TRAP_ABORT_ONCE; others < TRAP_OTHERS; others++)
		for (unsigned i = 0; i < ATTEMPTS; i++) {
			reset(m);
			near__trap_find_reached((enum trap_others)others, run_a, m);
		}
	m->probed = true;
}

/* Whether A comes to it while no other one is aborted. */
static bool is_reached_undisturbed(struct pairing *m, unsigned seq)
{
	struct trap_plan plan = {.seq = seq, .others = TRAP_LET_OTHERS};

	for (unsigned i = 0; i < ATTEMPTS && !plan.reached; i++) {
		reset(m);
		near__trap_run(&plan, run_a, m);
	}
	return plan.reached;
}

/* The job itself would find that a sequence is not reached, but with an abort of each other
 * sequence in each attempt, for each sequence. */
static bool may_run(void *pairing, unsigned seq)
{
	struct pairing *m = pairing;
	const struct trap_seq *s = near__trap_seq(seq);

	if (!(objects_of[seq] >> m->a->object & 1))
		return false;
	if (!m->probed)
		probe(m);
	return s->reached || s->shares || !s->points || is_reached_undisturbed(m, seq);
}

static void report(void *pairing, const char *failure)
{
	struct pairing *m = pairing;
	char text[512];

	if (m->c->quiet)
		return;
	m->c->suite->describe(text, sizeof(text), &m->actor_a, &m->actor_b);
	fprintf(stderr, "setup %d, %s: %s\n  %s\n", (int)m->setup, m->a->name, failure, text);
}

/* Of equivalent operations on another object one is enough, and for a long one none. */
static bool is_partner(const struct pairing *m, const struct op *b)
{
	if (!m->c->suite->pair_is_valid(m->setup, m->a, b))
		return false;
	return m->a->object == b->object || (meets_others(m) && !(b->flags & OPS_TWIN));
}

static void add_partners(struct pairing *m)
{
	const struct suite *suite = m->c->suite;

	for (unsigned b = 0; b < suite->count; b++) {
		const struct op *op = &suite->ops[b];

		if (!is_partner(m, op))
			continue;
		if (m->n == MAX_OPS) {
			fputs("cross: MAX_OPS is too small\n", stderr);
			exit(1);
		}
		m->ops[m->n] = (struct partner){m, op};
		m->rivals[m->n] = (struct near_torture_rival){op->name, run_b, &m->ops[m->n], 0};
		m->n++;
	}
}

static void run_pairs(struct pairing *m)
{
	struct near_torture t = {
		.setup = reset,
		.run = run_a,
		.rivals = m->rivals,
		.check = check,
		.digest = m->c->suite->is_one_step(m->setup, m->a) ? digest : NULL,
		.report = report,
		.arg = m,
	};
	struct near_torture_result result = {0};
	struct job job = {
		.t = &t,
		.schedules = 1u << (m->c->interferer == INTERFERER_THREAD ? ON_THREAD : IN_HANDLER),
		.may_run = may_run,
		.strict = true,
		.is_live = is_live,
		.enter = enter,
		.out = &result,
	};

	add_partners(m);
	t.n_rivals = m->n;
	if (near__job_run(&job)) {
		fputs("cross: out of threads or memory\n", stderr);
		exit(1);
	}
	m->c->runs += result.runs;
	m->c->failures += result.failures;
}

/* Whether A may run in this setup. */
static bool is_possible(const struct suite *suite, enum ops_setup setup, const struct op *a)
{
	if (a->flags & OPS_NO_SEQUENCE)
		return false;
	return suite->pair_is_valid(setup, a, a) || suite->pair_is_valid(setup, a, &suite->ops[0]);
}

void cross_run(struct cross *c)
{
	const struct suite *suite = c->suite;

	for (unsigned setup = 0; setup < suite->setups; setup++)
		for (unsigned a = 0; a < suite->count; a++) {
			struct pairing m = {
				.c = c, .setup = (enum ops_setup)setup, .a = &suite->ops[a]};

			if (is_possible(suite, m.setup, m.a))
				run_pairs(&m);
		}
}

static void learn_op(enum trap_others others, struct pairing *m)
{
	reset(m);
	near__trap_forget_reached();
	near__trap_learn(others, run_a, m);
	for (unsigned i = 0; i < near__trap_count(); i++)
		if (near__trap_seq(i)->reached)
			objects_of[i] |= 1u << m->a->object;
}

static unsigned learn_once(void *arg)
{
	struct cross *c = arg;
	const struct suite *suite = c->suite;
	unsigned known = 0;

	for (int others = 0; others < TRAP_OTHERS; others++)
		for (unsigned setup = 0; setup < suite->setups; setup++)
			for (unsigned a = 0; a < suite->count; a++) {
				struct pairing m = {.c = c,
						    .setup = (enum ops_setup)setup,
						    .a = &suite->ops[a]};

				if (suite->pair_is_valid(m.setup, m.a, &suite->ops[0]))
					learn_op((enum trap_others)others, &m);
			}
	for (unsigned i = 0; i < near__trap_count(); i++)
		known += near__trap_seq(i)->points + (unsigned)__builtin_popcount(objects_of[i]);
	return known;
}

void cross_learn(const struct suite *suite)
{
	struct cross c = {.suite = suite};

	if (!objects_of)
		objects_of = calloc(near__trap_count(), sizeof(*objects_of));
	if (!objects_of) {
		fputs("cross: out of memory\n", stderr);
		exit(1);
	}
	near__trap_learn_all(learn_once, &c);
}
