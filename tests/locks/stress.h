/* SPDX-License-Identifier: MIT */
/* stress: games that threads play with all locks at once, while they come and go, are moved and
 * signalled, have their waits cancelled, and processes fork.
 *
 * In each game something is handed from thread to thread (a turn, items, units, tokens) by waits
 * of which most have no limit: a wake-up that is lost stops the game, which the watch sees; one
 * that comes twice, or to the wrong one, makes the accounts differ in the end. */
#ifndef NEARCPU_TESTS_LOCKS_STRESS_H
#define NEARCPU_TESTS_LOCKS_STRESS_H

#include "waits.h"

#include <nearcpu/mutex.h>

#define STRESS_ROLES 64

/* A part in a game, played by one thread after the other. */
struct role {
	const struct game *game;
	unsigned index; /* in the game */
	uint64_t random;
	uint64_t tally[2]; /* the game's business; of one thread at a time, so that it is exact */
	pthread_t keeper;
	/* For the watch, who moves, who sends signals; atomic. */
	pid_t tid;
	uint64_t steps;
	const char *doing; /* a wait; NULL: none */
	const void *on;
	/* Its waits can be cancelled by this. The lock is held while it is set, or made new. */
	struct near_lock guard;
	struct near_cancel cancel;
};

struct game {
	const char *name;
	unsigned roles;
	void (*begin)(void);
	/* False: the game is over, which is for the last time asked after stress.stop was set. */
	bool (*step)(struct role *r);
	void (*end)(void); /* NULL: nothing to do but to set stress.stop */
	/* With the roles of the game, when all have ended. */
	void (*check)(const struct role *roles);
};

extern const struct game game_sections, game_turns, game_signals, game_queue, game_permits,
	game_ring, game_meetings, game_desks, game_sleepers, game_forks, game_tables, game_pair;

extern struct stress {
	struct role roles[STRESS_ROLES];
	unsigned n_roles;
	bool stop;         /* atomic */
	unsigned patience; /* seconds that a wait may last */
	unsigned long came, moved, signals, cancelled;
} stress;

/* Plays the games, for that long. */
void stress_run(const struct game *const *games, unsigned n, unsigned ms);

/* A wait that goes on for too long is told, and ends the program. */
void watch_begin(void);
void watch_end(void);

/* ---- for games ---- */

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

static inline uint64_t sum(const struct role *roles, unsigned first, unsigned n, unsigned tally)
{
	uint64_t all = 0;

	while (n--)
		all += roles[first + n].tally[tally];
	return all;
}

#endif
