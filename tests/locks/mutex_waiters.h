/* SPDX-License-Identifier: MIT */
/* What the tests of near_mutex share: its word, threads that wait. */
#ifndef NEARCPU_TESTS_MUTEX_WAITERS_H
#define NEARCPU_TESTS_MUTEX_WAITERS_H

#include "waiters.h"

#include "locks/mutex.h"
#include "locks/locks_state.h"

#define MS 1000000

static inline uint32_t word_of(struct near_mutex *m)
{
	return __atomic_load_n(&m->word, __ATOMIC_ACQUIRE);
}

static inline uint32_t me(void)
{
	return near__owner_now();
}

/* Nobody has it, nobody waits for it. ATOMIC_UNLOCK stays with more than two CPUs, until the fence
 * has been paid for (mutex.h). */
static inline bool is_at_rest(struct near_mutex *m)
{
	uint32_t word = word_of(m);

	return !(word & (OWNER | FLAGS) & ~ATOMIC_UNLOCK);
}

static inline unsigned waiters_of(struct near_mutex *m)
{
	return waits_on(m, NEAR__SPACE_MUTEX);
}

static inline bool is_set(void *flag)
{
	return *(bool *)flag;
}

/* ---- threads ---- */

/* Starts n threads that lock, each when the one before sleeps. */
static inline void start_lockers(struct waiter *w, unsigned n, struct near_mutex *m,
				 unsigned *order)
{
	start_waiters(w, n, (struct waiter){.kind = &wait_mutex, .on = m, .order = order});
}

static inline void *hold_until_waited_for(void *m)
{
	near_mutex_lock(m);
	UNTIL(word_of(m) & PARKED);
	near_mutex_unlock(m);
	return NULL;
}

/* After a wait for a thread that runs `hold`, which locks and unlocks it. */
static inline void lock_after_a_wait(struct near_mutex *m, void *(*hold)(void *m))
{
	pthread_t t = unit_start(hold, m);

	UNTIL(word_of(m) & OWNER);
	near_mutex_lock(m);
	unit_join(t);
}

/* Fixtures: whatever the machine has, so that words are the same everywhere. */
static inline void set_unlock_budget(uint32_t unlocks)
{
	__atomic_store_n(&near__locks.unlocks_per_fence, unlocks, __ATOMIC_RELAXED);
}

static inline int few_cpus(void **state)
{
	set_unlock_budget(1);
	return 0;
}

/* ATOMIC_UNLOCK is set. */
static inline int many_cpus(void **state)
{
	set_unlock_budget(6400);
	return 0;
}

#endif
