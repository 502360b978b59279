/* SPDX-License-Identifier: MIT */
/* Scenarios with mutexes and condition variables. */
#include "stress.h"

/* ---- sections: a thread is alone in its section ---- */

#define SECTIONS 4

static struct {
	struct near_mutex m;
	pid_t inside;
	uint64_t count;
} sections[SECTIONS];

static bool take(struct role *r, struct near_mutex *m)
{
	return TAKE(r, m, near_mutex_try_lock, near_mutex_lock, near_mutex_lock_until);
}

static void release(struct role *r, struct near_mutex *m)
{
	CHECK(near_mutex_is_mine(m));
	if (unit_random(&r->random) % 8)
		near_mutex_unlock(m);
	else
		near_mutex_unlock_fair(m);
}

/* Now and then for longer than a waiter is patient. */
static void stay(struct role *r)
{
	uint32_t random = unit_random(&r->random);

	if (random % 512 == 0)
		usleep(1500);
	else if (random % 16 == 0)
		sched_yield();
}

static void be_inside(struct role *r, unsigned i)
{
	CHECK(sections[i].inside == 0);
	sections[i].inside = r->tid;
	sections[i].count++;
	r->tally[0]++;
	stay(r);
	CHECK(sections[i].inside == r->tid);
	sections[i].inside = 0;
}

static bool step_sections(struct role *r)
{
	unsigned i = unit_random(&r->random) % SECTIONS, k = i + 1 + r->index % 2;

	if (!take(r, &sections[i].m))
		return !stress_is_over();
	if (k < SECTIONS && unit_random(&r->random) % 8 == 0 && take(r, &sections[k].m)) {
		be_inside(r, k);
		release(r, &sections[k].m);
	}
	be_inside(r, i);
	release(r, &sections[i].m);
	return !stress_is_over();
}

static void check_sections(const struct role *roles)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < SECTIONS; i++) {
		CHECK(near_mutex_try_lock(&sections[i].m));
		near_mutex_unlock(&sections[i].m);
		near_mutex_destroy(&sections[i].m);
		count += sections[i].count;
	}
	CHECK(count == sum(roles, 0, roles->scenario->roles, 0));
}

SCENARIO(sections, 6, sections, NULL, NULL);

/* ---- pair: two threads that interleave often, and no other that would wake a sleeper by chance
 * ----
 *
 * One of them mostly holds the mutex: it locks it again as soon as it unlocked it, by a
 * sequence. So the other seldom finds it free, and begins to sleep while a sequence is in
 * progress. */

static struct {
	struct near_mutex m;
	uint64_t count;
} pair;

static void spin(uint32_t n)
{
	for (; n; n--)
		__asm__ volatile("" ::: "memory");
}

static void take_for(struct role *r, uint32_t inside)
{
	WAIT(r, &pair.m, near_mutex_lock(&pair.m));
	pair.count++;
	spin(inside);
	near_mutex_unlock(&pair.m);
	r->tally[0]++;
}

static bool step_pair(struct role *r)
{
	bool often = r->index == 0 && unit_random(&r->random) % 8;

	/* Outside and inside for up to a few microseconds, for which a waiter spins, or sleeps. */
	for (int i = 0; i < 100 && !often; i++) {
		spin(unit_random(&r->random) % 4096);
		take_for(r, unit_random(&r->random) % 4096);
	}
	for (int i = 0; i < 4096 && often; i++)
		take_for(r, 128);
	return !stress_is_over();
}

static void check_pair(const struct role *roles)
{
	CHECK(pair.count == sum(roles, 0, 2, 0));
}

SCENARIO(pair, 2, pair, NULL, NULL);

/* ---- turns: each awaits its own ---- */

#define PLAYERS 3

static struct {
	struct near_mutex m;
	unsigned turn;
	uint64_t passes;
	bool over;
} turns;

static bool is_my_turn(void *role)
{
	return turns.over || turns.turn == ((struct role *)role)->index;
}

static bool step_turns(struct role *r)
{
	bool over;
	int result;

	WAIT(r, &turns.m, near_mutex_lock(&turns.m));
	result = WAIT_LIMITED(r, &turns.m,
			      near_mutex_await_until(&turns.m, is_my_turn, r, l.clock, l.deadline,
						     l.cancel));
	CHECK((result == 0) == is_my_turn(r));
	over = turns.over;
	if (!result && !over) {
		turns.turn = (turns.turn + 1) % PLAYERS;
		turns.passes++;
		r->tally[0]++;
	}
	release(r, &turns.m);
	return !over;
}

static void end_turns(void)
{
	near_mutex_lock(&turns.m);
	turns.over = true;
	near_mutex_unlock(&turns.m);
}

static void check_turns(const struct role *roles)
{
	CHECK(turns.passes == sum(roles, 0, PLAYERS, 0));
	CHECK(turns.turn == turns.passes % PLAYERS);
}

SCENARIO(turns, PLAYERS, turns, NULL, end_turns);

/* ---- signals: as many waits end as were signalled, or more ---- */

#define WAITERS 4

static struct {
	struct near_mutex m;
	struct near_cond c;
	unsigned waiting;
	uint64_t sent;
	bool over;
} signals;

static bool wait_for_signal(struct role *r)
{
	bool over = signals.over;

	if (!over) {
		signals.waiting++;
		WAIT(r, &signals.c, near_cond_wait(&signals.c, &signals.m));
		r->tally[0]++;
	}
	return !over;
}

/* With the mutex held, so that nobody comes or goes. A signal whose waiter is not asleep ends two
 * waits. */
static bool signal_some(struct role *r)
{
	bool all = unit_random(&r->random) % 8 == 0 || signals.over;
	unsigned waiting = signals.waiting, least = all ? waiting : waiting > 0;

	if (all)
		near_cond_broadcast(&signals.c);
	else
		near_cond_signal(&signals.c);
	signals.waiting = waits_on(&signals.c, NEAR__SPACE_COND);
	CHECK(signals.waiting <= waiting - least);
	signals.sent += waiting - signals.waiting;
	return !signals.over;
}

static bool step_signals(struct role *r)
{
	bool goes_on;

	WAIT(r, &signals.m, near_mutex_lock(&signals.m));
	goes_on = r->index < WAITERS ? wait_for_signal(r) : signal_some(r);
	release(r, &signals.m);
	if (r->index >= WAITERS)
		stay(r);
	return goes_on;
}

static void end_signals(void)
{
	near_mutex_lock(&signals.m);
	signals.over = true;
	near_mutex_unlock(&signals.m);
}

static void check_signals(const struct role *roles)
{
	CHECK(signals.waiting == 0);
	CHECK(signals.sent == sum(roles, 0, WAITERS, 0));
}

SCENARIO(signals, WAITERS + 2, signals, NULL, end_signals);

/* ---- queue: what goes in comes out, in order ---- */

#define SLOTS 3
#define PRODUCERS 2
#define CONSUMERS 3
#define LOCKER (PRODUCERS + CONSUMERS)

static struct {
	struct near_mutex m;
	struct near_cond not_full, not_empty;
	uint64_t slots[SLOTS], in, out;
	bool over;
} queue;

static bool has_place(void *unused)
{
	return queue.over || queue.in - queue.out < SLOTS;
}

static bool has_item(void *unused)
{
	return queue.over || queue.in != queue.out;
}

/* By the condition variable, or by near_mutex_await. */
static bool wait_while_not(struct role *r, bool (*can_go_on)(void *), struct near_cond *c)
{
	while (!can_go_on(NULL))
		if (unit_random(&r->random) % 2)
			WAIT_LIMITED(r, c,
				     near_cond_wait_until(c, &queue.m, l.clock, l.deadline,
							  l.cancel));
		else
			WAIT_LIMITED(r, &queue.m,
				     near_mutex_await_until(&queue.m, can_go_on, NULL, l.clock,
							    l.deadline, l.cancel));
	return !queue.over;
}

/* One is enough. More do no harm. */
static void wake(struct role *r, struct near_cond *c)
{
	if (unit_random(&r->random) % 16)
		near_cond_signal(c);
	else
		near_cond_broadcast(c);
}

static void pass_item(struct role *r, bool produces)
{
	uint64_t item = produces ? queue.in++ : queue.out++, *slot = &queue.slots[item % SLOTS];

	if (produces)
		*slot = item + 1;
	CHECK(*slot == item + 1);
	if (!produces)
		*slot = 0;
	r->tally[0]++;
}

/* The last role only locks. */
static bool step_locker(struct role *r)
{
	bool over;

	WAIT(r, &queue.m, near_mutex_lock(&queue.m));
	over = queue.over;
	release(r, &queue.m);
	sched_yield();
	return !over;
}

static bool step_queue(struct role *r)
{
	bool produces = r->index < PRODUCERS, early = unit_random(&r->random) % 2, goes_on;
	struct near_cond *own = produces ? &queue.not_full : &queue.not_empty;
	struct near_cond *other = produces ? &queue.not_empty : &queue.not_full;

	if (r->index == LOCKER)
		return step_locker(r);
	WAIT(r, &queue.m, near_mutex_lock(&queue.m));
	goes_on = wait_while_not(r, produces ? has_place : has_item, own);
	if (goes_on)
		pass_item(r, produces);
	if (early)
		wake(r, other);
	release(r, &queue.m);
	if (!early)
		wake(r, other);
	return goes_on;
}

static void end_queue(void)
{
	near_mutex_lock(&queue.m);
	queue.over = true;
	near_cond_broadcast(&queue.not_full);
	near_cond_broadcast(&queue.not_empty);
	near_mutex_unlock(&queue.m);
}

static void check_queue(const struct role *roles)
{
	CHECK(queue.in == sum(roles, 0, PRODUCERS, 0));
	CHECK(queue.out == sum(roles, PRODUCERS, CONSUMERS, 0));
	CHECK(queue.in - queue.out <= SLOTS);
}

SCENARIO(queue, LOCKER + 1, queue, NULL, end_queue);
