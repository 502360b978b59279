/* SPDX-License-Identifier: MIT */
/* stress: scenarios in which threads use all locks concurrently, while they begin and end, are
 * moved and signalled, have their waits cancelled, and processes fork.
 *
 * In each scenario something is passed from thread to thread (a turn, items, units, tokens) by
 * waits of which most have no deadline: a lost wake-up stops the scenario, which the watch
 * detects; one that arrives twice, or at the wrong thread, makes the accounts differ in the end. */
#ifndef NEARCPU_TESTS_LOCKS_STRESS_H
#define NEARCPU_TESTS_LOCKS_STRESS_H

#include "waiters.h"

#define STRESS_ROLES 64

/* A part of a scenario, run by one thread after the other. */
struct role {
	const struct scenario *scenario;
	unsigned index; /* in the scenario */
	uint64_t random;
	uint64_t tally[2]; /* for the scenario; of one thread at a time, so that it is exact */
	pthread_t keeper;
	/* For the watch, the mover, and the sender of signals; atomic. */
	pid_t tid;
	uint64_t steps;
	const char *doing; /* a wait; NULL: none */
	const void *on;
	/* Its waits can be cancelled by this. The lock is held while it is set, or made new. */
	struct near_lock guard;
	struct near_cancel cancel;
};

struct scenario {
	const char *name;
	unsigned roles;
	void *state; /* of this size; begins with zeros */
	size_t size;
	void (*begin)(unsigned roles); /* NULL: that is all */
	/* False: the scenario is over. It is called once more after stress.stop was set. */
	bool (*step)(struct role *r);
	void (*end)(void); /* NULL: nothing to do but to set stress.stop */
	/* With the roles of the scenario, when all have ended. */
	void (*check)(const struct role *roles);
};

/* Defines scenario_<name>, of step_<name> and check_<name>. */
#define SCENARIO(name, roles, state, begin, end)                                                   \
	const struct scenario scenario_##name = {#name, roles,       &(state), sizeof(state),      \
						 begin, step_##name, end,      check_##name}

extern const struct scenario scenario_sections, scenario_turns, scenario_signals, scenario_queue,
	scenario_permits, scenario_ring, scenario_barriers, scenario_desks, scenario_sleepers,
	scenario_forks, scenario_tables, scenario_pair;

extern struct stress {
	struct role roles[STRESS_ROLES];
	unsigned n_roles;
	bool stop;         /* atomic */
	unsigned patience; /* seconds that a wait may last */
	unsigned long came, moved, signals, cancelled;
} stress;

/* Runs the scenarios for `ms` milliseconds. A wait that lasts too long is reported, and ends the
 * program. */
void stress_run(const struct scenario *const *scenarios, unsigned n, unsigned ms);

/* ---- for scenarios ---- */

static inline bool stress_is_over(void)
{
	return __atomic_load_n(&stress.stop, __ATOMIC_RELAXED);
}

/* Around all that may wait. */
static inline void begin_wait(struct role *r, const char *doing, const void *on)
{
	__atomic_store_n(&r->on, on, __ATOMIC_RELAXED);
	__atomic_store_n(&r->doing, doing, __ATOMIC_RELAXED);
}

static inline void end_wait(struct role *r)
{
	__atomic_store_n(&r->doing, NULL, __ATOMIC_RELAXED);
	__atomic_store_n(&r->steps, r->steps + 1, __ATOMIC_RELAXED);
}

#define WAIT(role, on, call)                                                                       \
	do {                                                                                       \
		begin_wait(role, #call, on);                                                       \
		call;                                                                              \
		end_wait(role);                                                                    \
	} while (0)

/* How long a wait may last, by chance: often without end, else by a deadline on any clock, which
 * may be past, or by the role's token. */
struct limit {
	struct role *role;
	int clock;
	struct timespec time;
	const struct timespec *deadline;
	struct near_cancel *cancel;
};

void limit_draw(struct limit *l, struct role *r);

/* What a wait returned that is not 0 must have its reason. */
void limit_check(struct limit *l, int result);

/* The result of a call that waits with the limit `l`. */
#define WAIT_LIMITED(role, on, call)                                                               \
	({                                                                                         \
		struct limit l;                                                                    \
		int result_;                                                                       \
                                                                                                   \
		limit_draw(&l, role);                                                              \
		WAIT(role, on, result_ = (call));                                                  \
		limit_check(&l, result_);                                                          \
		result_;                                                                           \
	})

/* Whether it was taken by one of these: at once, or for ever waited for, or with a limit. */
#define TAKE(role, on, try_take, take_it, take_until)                                              \
	({                                                                                         \
		struct limit l;                                                                    \
		int result_ = 0;                                                                   \
                                                                                                   \
		limit_draw(&l, role);                                                              \
		if (unit_random(&(role)->random) % 8 == 0)                                         \
			result_ = !try_take(on);                                                   \
		else if (!l.deadline && !l.cancel)                                                 \
			WAIT(role, on, take_it(on));                                               \
		else                                                                               \
			WAIT(role, on, result_ = take_until(on, l.clock, l.deadline, l.cancel));   \
		if (result_ <= 0)                                                                  \
			limit_check(&l, result_);                                                  \
		result_ == 0;                                                                      \
	})

static inline const struct role *first_role(const struct role *r)
{
	return r - r->index;
}

static inline uint64_t sum(const struct role *roles, unsigned first, unsigned n, unsigned tally)
{
	uint64_t all = 0;

	while (n--)
		all += roles[first + n].tally[tally];
	return all;
}

#endif
