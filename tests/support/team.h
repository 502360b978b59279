/* SPDX-License-Identifier: MIT */
/* team: threads that run one function, each with its number from 0 on, to its end or until they are
 * stopped. */
#ifndef NEARCPU_TESTS_TEAM_H
#define NEARCPU_TESTS_TEAM_H

#include "unit.h"

#define TEAM_MOST 64u

struct team {
	void (*run)(unsigned number);
	unsigned n;
	struct team_member {
		const struct team *team;
		pthread_t thread;
	} members[TEAM_MOST];
};

static inline void *team_member_run(void *arg)
{
	const struct team_member *m = arg;

	m->team->run((unsigned)(m - m->team->members));
	return NULL;
}

static inline void team_start(struct team *t, unsigned n, void (*run)(unsigned number))
{
	CHECK(n <= TEAM_MOST);
	t->run = run;
	t->n = n;
	for (unsigned i = 0; i < n; i++) {
		t->members[i].team = t;
		t->members[i].thread = unit_start(team_member_run, &t->members[i]);
	}
}

static inline void team_join(struct team *t)
{
	for (unsigned i = 0; i < t->n; i++)
		unit_join(t->members[i].thread);
}

/* For members that go on while team_continues(). */
static bool team_ends;

static inline bool team_continues(void)
{
	return !__atomic_load_n(&team_ends, __ATOMIC_ACQUIRE);
}

/* Stops the only team that runs until it is stopped. */
static inline void team_stop(struct team *t)
{
	__atomic_store_n(&team_ends, true, __ATOMIC_RELEASE);
	team_join(t);
	__atomic_store_n(&team_ends, false, __ATOMIC_RELAXED);
}

static inline void team_run(unsigned n, void (*run)(unsigned number))
{
	struct team t;

	team_start(&t, n, run);
	team_join(&t);
}

#endif
