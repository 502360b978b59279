/* SPDX-License-Identifier: MIT */
/* What the tests of near_mutex share: its word, waiters that the test plays, threads that wait. */
#ifndef NEARCPU_TESTS_MUTEX_WAITERS_H
#define NEARCPU_TESTS_MUTEX_WAITERS_H

#include "waits.h"

#include <nearcpu/mutex.h>

#include "locks/state.h"
#include "locks/owner.h"

#define PARKED 1u
#define WAKING 2u
#define AWAITED 4u
#define ATOMIC_UNLOCK 8u
#define DESIGNATED 1
#define HANDOFF 2
#define MS 1000000

static inline uint32_t word_of(struct near_mutex *m)
{
	return __atomic_load_n(&m->word, __ATOMIC_ACQUIRE);
}

static inline uint32_t me(void)
{
	return near__owner_now();
}

static inline unsigned waiters_of(struct near_mutex *m)
{
	return waits_on(m, NEAR__SPACE_MUTEX);
}

#define OTHER(n) ((uint32_t)(4000000 + (n)) << NEAR__OWNER_SHIFT)

struct played {
	struct near_mutex m;
	struct near__waiter w[3];
};

static inline void play(struct played *p, unsigned i, long waited_ns)
{
	struct near__bucket *b = near__lot_lock(&p->m);

	p->w[i] = (struct near__waiter){
		.address = &p->m,
		.space = NEAR__SPACE_MUTEX,
		.owner = OTHER(i),
		.since = (uint64_t)(near__now(CLOCK_MONOTONIC) - waited_ns),
	};
	near__lot_append(b, &p->w[i]);
	near__lot_unlock(b);
}

static inline bool was_woken(struct near__waiter *w, uintptr_t token)
{
	return !w->queued && w->word == NEAR__WOKEN && w->token == token;
}

static inline void leave_queue(struct played *p)
{
	struct near__bucket *b = near__lot_lock(&p->m);

	for (unsigned i = 0; i < 3; i++)
		if (p->w[i].queued)
			near__lot_take(b, &p->w[i]);
	near__lot_unlock(b);
}

struct waiter {
	struct near_mutex *m;
	struct near_cancel *cancel;
	const struct timespec *deadline;
	clockid_t clock;
	int result;
	unsigned *order, turn;
	pthread_t thread;
};

static inline void *wait_for_mutex(void *arg)
{
	struct waiter *w = arg;

	errno = UNIT_ERRNO;
	w->result = near_mutex_lock_until(w->m, w->clock, w->deadline, w->cancel);
	if (w->result == 0) {
		CHECK(near_mutex_is_mine(w->m));
		if (w->order)
			w->turn = ++*w->order;
		near_mutex_unlock(w->m);
	}
	CHECK(errno == UNIT_ERRNO);
	return NULL;
}

static inline void start_waiter(struct waiter *w)
{
	unsigned before = waiters_of(w->m);

	w->thread = unit_start(wait_for_mutex, w);
	wait_for_waits(w->m, NEAR__SPACE_MUTEX, before + 1);
}

static inline void *hold(void *arg)
{
	struct played *p = arg;

	near_mutex_lock(&p->m);
	while (!__atomic_load_n(&p->w[0].token, __ATOMIC_ACQUIRE))
		usleep(100);
	near_mutex_unlock(&p->m);
	return NULL;
}

static inline pthread_t start_holder(struct played *p)
{
	pthread_t t = unit_start(hold, p);

	while (!word_of(&p->m))
		usleep(100);
	return t;
}

static inline void end_holder(struct played *p, pthread_t t)
{
	__atomic_store_n(&p->w[0].token, 1, __ATOMIC_RELEASE);
	unit_join(t);
	assert_int_equal(word_of(&p->m), 0);
}

static inline bool is_set(void *flag)
{
	return *(unsigned *)flag != 0;
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

#endif
