/* SPDX-License-Identifier: MIT */
/* Scenarios with semaphores, barriers and near_once. */
#include "stress.h"

/* ---- permits: no more are inside than there are units ---- */

#define PERMITS 2u

static struct {
	struct near_sem s;
	unsigned inside; /* atomic */
} permits;

static void begin_permits(unsigned roles)
{
	permits.s = (struct near_sem)NEAR_SEM_INIT(PERMITS);
}

static bool take(struct role *r, struct near_sem *s)
{
	return TAKE(r, s, near_sem_try_wait, near_sem_wait, near_sem_wait_until);
}

static bool step_permits(struct role *r)
{
	if (take(r, &permits.s)) {
		CHECK(__atomic_add_fetch(&permits.inside, 1, __ATOMIC_RELAXED) <= PERMITS);
		if (unit_random(&r->random) % 16 == 0)
			sched_yield();
		__atomic_sub_fetch(&permits.inside, 1, __ATOMIC_RELAXED);
		CHECK(near_sem_post(&permits.s) == 0);
	}
	return !stress_is_over();
}

static void check_permits(const struct role *roles)
{
	CHECK(permits.inside == 0);
	CHECK(near_sem_read(&permits.s) == PERMITS);
}

SCENARIO(permits, 5, permits, begin_permits, NULL);

/* ---- ring: one unit goes round ---- */

#define RING 3

static struct {
	struct near_sem s[RING];
	uint64_t passes; /* by the thread that has the unit */
} ring;

static void begin_ring(unsigned roles)
{
	ring.s[0] = (struct near_sem)NEAR_SEM_INIT(1);
}

/* In the end the unit goes round once more, and each thread that has had it leaves. */
static bool step_ring(struct role *r)
{
	bool over;

	while (!take(r, &ring.s[r->index]))
		;
	over = stress_is_over();
	ring.passes++;
	r->tally[0]++;
	CHECK(near_sem_post(&ring.s[(r->index + 1) % RING]) == 0);
	return !over;
}

static void check_ring(const struct role *roles)
{
	uint32_t units = 0;

	for (unsigned i = 0; i < RING; i++)
		units += near_sem_read(&ring.s[i]);
	CHECK(units == 1);
	CHECK(ring.passes == sum(roles, 0, RING, 0));
}

SCENARIO(ring, RING, ring, begin_ring, NULL);

/* ---- barriers: all threads arrive, and something is done once ---- */

#define FAILURE -EIO

static struct {
	struct near_barrier b;
	struct near_once once[2];
	unsigned done, tries; /* atomic */
	uint64_t held;
	bool over;
} barriers;

static void begin_barriers(unsigned roles)
{
	barriers.b = (struct near_barrier)NEAR_BARRIER_INIT(roles);
}

static bool meet(struct role *r)
{
	int result;

	do
		result = WAIT_LIMITED(r, &barriers.b,
				      near_barrier_wait_until(&barriers.b, l.clock, l.deadline,
							      l.cancel));
	while (result < 0);
	return result == 1;
}

static int fail_or_do(void *role)
{
	struct role *r = role;

	if (unit_random(&r->random) % 4 == 0)
		return FAILURE;
	sched_yield();
	__atomic_add_fetch(&barriers.done, 1, __ATOMIC_RELAXED);
	return 0;
}

static void do_once(struct role *r, struct near_once *o)
{
	int result, failure = 0;

	do {
		struct limit l;

		limit_draw(&l, r);
		WAIT(r, o,
		     result = near_once_call_until(o, fail_or_do, r, &failure, l.clock, l.deadline,
						   l.cancel));
		limit_check(&l, result);
		CHECK(failure == 0 || failure == FAILURE);
	} while (result || failure);
	CHECK(near_once_is_done(o));
}

static bool step_barriers(struct role *r)
{
	struct near_once *o = &barriers.once[r->tally[0] % 2];

	do_once(r, o);
	/* Between this barrier and the next one only the last to arrive uses the state. */
	if (meet(r)) {
		CHECK(barriers.done == 1);
		barriers.done = 0;
		barriers.once[(r->tally[0] + 1) % 2] = (struct near_once)NEAR_ONCE_INIT;
		barriers.over = stress_is_over();
		barriers.held++;
		r->tally[1]++;
	}
	for (unsigned i = 0; i < r->scenario->roles; i++)
		CHECK(first_role(r)[i].tally[0] == r->tally[0]);
	meet(r);
	r->tally[0]++;
	return !barriers.over;
}

static void check_barriers(const struct role *roles)
{
	CHECK(barriers.b.arrived == 0);
	CHECK(barriers.held == sum(roles, 0, roles->scenario->roles, 1));
	for (unsigned i = 0; i < roles->scenario->roles; i++)
		CHECK(roles[i].tally[0] == barriers.held);
}

SCENARIO(barriers, 3, barriers, begin_barriers, NULL);
