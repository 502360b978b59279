/* SPDX-License-Identifier: MIT */
/* Scenarios with near_park, near_thrsleep, and forks. */
#include "stress.h"

/* ---- desks: waiters are called, or requeued to the other desk ---- */

#define GUESTS 4

static struct {
	uint32_t desks[2];
	unsigned left; /* guests that have left; atomic */
	/* The sums of what the callers report; atomic. */
	uint64_t called, tokens;
} desks;

static bool is_open(void *unused)
{
	return !stress_is_over();
}

static bool wait_at_desk(struct role *r)
{
	const void *desk = &desks.desks[unit_random(&r->random) % 2];
	struct near_park p = {.validate = is_open, .mark = r->index};
	struct limit l;
	int result;

	limit_draw(&l, r);
	p.clock = l.clock | (unit_random(&r->random) % 4 == 0 ? NEAR_INTERRUPTIBLE : 0);
	p.deadline = l.deadline;
	p.cancel = l.cancel;
	WAIT(r, desk, result = near_park(desk, &p));
	if (result == 0) {
		r->tally[0]++;
		r->tally[1] += p.token;
	}
	CHECK(result != -EINTR || p.clock & NEAR_INTERRUPTIBLE);
	limit_check(&l, result == -EAGAIN || result == -EINTR ? 0 : result);
	if (!stress_is_over())
		return true;
	__atomic_add_fetch(&desks.left, 1, __ATOMIC_RELAXED);
	return false;
}

static enum near_park_choice choose(void *role, uintptr_t mark)
{
	struct role *r = role;
	uint32_t random = unit_random(&r->random);

	CHECK(mark < GUESTS);
	return random % 8 == 0   ? NEAR_PARK_SKIP
	       : random % 8 == 1 ? NEAR_PARK_STOP
				 : NEAR_PARK_CHOOSE;
}

static bool call_guests(struct role *r)
{
	unsigned i = unit_random(&r->random) % 2;
	struct near_unpark u = {
		.wake = unit_random(&r->random) % 3,
		.requeue = unit_random(&r->random) % 3,
		.to = &desks.desks[!i],
		.choose = choose,
		.arg = r,
		.token = 1 + unit_random(&r->random) % 100,
	};
	struct near_unparked found = {0};

	if (unit_random(&r->random) % 2)
		found.woken = near_unpark(&desks.desks[i], 1, u.token);
	else
		CHECK(near_unpark_with(&desks.desks[i], &u, &found) == 0);
	CHECK(found.woken <= GUESTS && found.requeued <= GUESTS);
	__atomic_add_fetch(&desks.called, found.woken, __ATOMIC_RELAXED);
	__atomic_add_fetch(&desks.tokens, found.woken * u.token, __ATOMIC_RELAXED);
	end_wait(r);
	sched_yield();
	return !stress_is_over() || __atomic_load_n(&desks.left, __ATOMIC_RELAXED) < GUESTS;
}

static bool step_desks(struct role *r)
{
	return r->index < GUESTS ? wait_at_desk(r) : call_guests(r);
}

static void check_desks(const struct role *roles)
{
	for (unsigned i = 0; i < 2; i++)
		CHECK(waits_on(&desks.desks[i], NEAR__SPACE_PARK) == 0);
	CHECK(desks.called == sum(roles, 0, GUESTS, 0));
	CHECK(desks.tokens == sum(roles, 0, GUESTS, 1));
}

SCENARIO(desks, GUESTS + 2, desks, NULL, NULL);

/* ---- sleepers: a unit goes round, by semaphores made of near_thrsleep ---- */

#define SLEEPERS 3

static struct thr_sem {
	uint32_t lock, units, waiters;
} sleepers[SLEEPERS];
static uint64_t sleepers_passes; /* by the thread that has the unit */

static void begin_sleepers(unsigned roles)
{
	sleepers_passes = 0;
	sleepers[0].units = 1;
}

static void lock_sem(struct thr_sem *s)
{
	while (__atomic_exchange_n(&s->lock, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock_sem(struct thr_sem *s)
{
	__atomic_store_n(&s->lock, NEAR_THR_UNLOCKED, __ATOMIC_RELEASE);
}

static void sleep_for_unit(struct role *r, struct thr_sem *s)
{
	int abort = unit_random(&r->random) % 32 == 0, result;
	struct limit l;

	limit_draw(&l, r);
	s->waiters++;
	WAIT(r, &s->units, result = near_thrsleep(s, l.clock, l.deadline, &s->lock, &abort));
	CHECK(result == 0 || result == EINTR ||
	      (result == EWOULDBLOCK && l.deadline && wait_is_past(l.clock, l.time)));
	lock_sem(s);
	s->waiters--;
}

static void take_unit(struct role *r, struct thr_sem *s)
{
	lock_sem(s);
	while (!s->units)
		sleep_for_unit(r, s);
	s->units--;
	unlock_sem(s);
}

static void give_unit(struct role *r, struct thr_sem *s)
{
	int result = 0;

	lock_sem(s);
	s->units++;
	if (s->waiters)
		result = near_thrwakeup(s, unit_random(&r->random) % 2 ? 1 : -1);
	/* The waiter may have left, or may have to abort. */
	CHECK(result == 0 || result == ESRCH);
	unlock_sem(s);
}

static bool step_sleepers(struct role *r)
{
	bool over;

	take_unit(r, &sleepers[r->index]);
	over = stress_is_over();
	sleepers_passes++;
	r->tally[0]++;
	give_unit(r, &sleepers[(r->index + 1) % SLEEPERS]);
	end_wait(r);
	return !over;
}

static void check_sleepers(const struct role *roles)
{
	uint32_t units = 0;

	for (unsigned i = 0; i < SLEEPERS; i++)
		units += sleepers[i].units;
	CHECK(units == 1);
	CHECK(sleepers_passes == sum(roles, 0, SLEEPERS, 0));
}

SCENARIO(sleepers, SLEEPERS, sleepers, begin_sleepers, NULL);

/* ---- forks: with locks held, while others are in the middle of anything ---- */

static struct {
	struct near_mutex held, waited_for;
	struct near_cond c;
	struct near_sem s;
} forks;

static void *meet_parent(void *unused)
{
	near_mutex_lock(&forks.held);
	near_mutex_unlock(&forks.held);
	near_sem_post(&forks.s);
	return unused;
}

/* All operations of the locks work in a child, next to what it inherited. */
static void live_in_child(void)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 1);
	struct near_park p = {.clock = CLOCK_MONOTONIC, .deadline = &soon};
	pthread_t t;

	/* After the watch has seen that the parent waits for too long. */
	alarm(2 * stress.patience);
	CHECK(near_mutex_is_mine(&forks.held) && !near_mutex_try_lock(&forks.held));
	CHECK(near_cond_wait_until(&forks.c, &forks.held, CLOCK_MONOTONIC, &soon, NULL) ==
	      -ETIMEDOUT);
	CHECK(near_park(&forks, &p) == -ETIMEDOUT);
	/* The sanitizers' own locks may be held for ever in a child of threads. */
	if (!UNIT_SANITIZED) {
		t = unit_start(meet_parent, NULL);
		near_mutex_unlock(&forks.held);
		near_sem_wait(&forks.s);
		unit_join(t);
	} else {
		near_mutex_unlock(&forks.held);
	}
	near_mutex_lock(&forks.waited_for);
	near_mutex_unlock(&forks.waited_for);
	_exit(0);
}

static bool step_forks(struct role *r)
{
	pid_t child;
	int status;

	near_mutex_lock(&forks.held);
	child = fork();
	CHECK(child >= 0);
	if (child == 0)
		live_in_child();
	near_mutex_unlock(&forks.held);
	WAIT(r, &forks.held, status = unit_wait(child, NULL));
	CHECK(status == 0);
	usleep(1000);
	return !stress_is_over();
}

static void check_forks(const struct role *roles)
{
	CHECK(near_mutex_try_lock(&forks.held));
	near_mutex_unlock(&forks.held);
}

SCENARIO(forks, 1, forks, NULL, NULL);
