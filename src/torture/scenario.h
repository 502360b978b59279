/* SPDX-License-Identifier: MIT */
/* scenario: one operation, stopped at one point, with one schedule. */
#ifndef NEARCPU_TORTURE_SCENARIO_H
#define NEARCPU_TORTURE_SCENARIO_H

#include "torture/job.h"

#define SCENARIO_KEPT 4096

struct scenario {
	struct job *job;
	struct trap_plan plan;
	enum schedule schedule;
	unsigned interferer; /* index of the competing operation; n_rivals: none */
	bool first;          /* the operation runs no other sequence before this one */
	bool live;           /* the thread was live at the stop, as far as is known */
	/* Memory that must not change from the stop on. */
	const void *kept_at; /* NULL: nothing */
	size_t kept_size;
	unsigned char kept[SCENARIO_KEPT];
};

/* NULL: none. */
static inline const struct near_torture_rival *near__scenario_interferer(const struct scenario *s)
{
	return s->interferer < s->job->t->n_rivals ? &s->job->t->rivals[s->interferer] : NULL;
}

/* Whether the operation reaches that instruction of the plan's sequence. */
bool near__scenario_reaches(struct scenario *s, unsigned point);

/* Runs the scenario, judges the result and reports a failure. */
void near__scenario_try(struct scenario *s);

/* Runs the operation with an abort of every attempt of every sequence. */
void near__scenario_without(struct job *job);

#endif
