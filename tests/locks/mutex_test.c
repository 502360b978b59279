/* SPDX-License-Identifier: MIT */
/* near_mutex: its steps one by one, with waiters that the test plays itself; then the same by
 * storm. */
#include "unit.h"

#include <nearcpu/mutex.h>

#include "parking/lot.h"
#include "locks/owner.h"
#include "locks/slice.h"

#define PARKED 1u
#define WAKING 2u
#define AWAITED 4u
#define WARY 8u
#define CHOSEN 1
#define HANDED 2
#define MS 1000000

/* CLOCK_MONOTONIC stands still here, unless it is 0. */
static long frozen_ms;
int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	long ms = __atomic_load_n(&frozen_ms, __ATOMIC_RELAXED);

	if (!ms || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, t);
	*t = (struct timespec){1000 + ms / 1000, ms % 1000 * MS};
	return 0;
}

static void freeze_at(long ms)
{
	__atomic_store_n(&frozen_ms, ms, __ATOMIC_RELAXED);
}

static int freeze(void **state)
{
	freeze_at(500);
	return 0;
}

static int unfreeze(void **state)
{
	freeze_at(0);
	return 0;
}

static uint32_t word_of(struct near_mutex *m)
{
	return __atomic_load_n(&m->word, __ATOMIC_ACQUIRE);
}

static uint32_t me(void)
{
	return near__owner_now();
}

static unsigned waiters_of(struct near_mutex *m)
{
	struct near__bucket *b = near__lot_lock(m);
	struct near__waiter *w = near__lot_first(b, m, NEAR__SPACE_MUTEX);
	unsigned n = 0;

	for (; w; w = near__lot_next(w))
		n++;
	near__lot_unlock(b);
	return n;
}

static void wait_for_waiters(struct near_mutex *m, unsigned n)
{
	while (waiters_of(m) != n)
		usleep(100);
}

/* ---- states ---- */

static struct near_mutex early;
static bool early_was_mine, early_is_free;

/* Runs before any constructor without a priority of its own, those of the library included. */
__attribute__((constructor(101))) static void use_before_constructors(void)
{
	near_mutex_lock(&early);
	early_was_mine = near_mutex_is_mine(&early) && !near_mutex_try_lock(&early);
	near_mutex_unlock(&early);
	early_is_free = near_mutex_try_lock(&early);
	near_mutex_unlock(&early);
}

static void zero_is_a_free_mutex(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	assert_int_equal(sizeof(struct near_mutex), 4);
	assert_true(early_was_mine && early_is_free);
	assert_int_equal(word_of(&m), 0);
	near_mutex_lock(&m);
	assert_int_equal(word_of(&m), me());
	assert_true(near_mutex_is_mine(&m));
	assert_false(near_mutex_try_lock(&m));
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
	assert_false(near_mutex_is_mine(&m));
	assert_true(near_mutex_try_lock(&m));
	near_mutex_unlock_fair(&m);
	assert_int_equal(word_of(&m), 0);
	near_mutex_destroy(&m);
}

static void *lock_in_new_thread(void *arg)
{
	struct near_mutex *m = arg;

	/* A thread's first call, whichever it is, finds out who it is. */
	CHECK(!near_mutex_is_mine(m));
	CHECK(near_mutex_try_lock(m));
	CHECK(near_mutex_is_mine(m));
	near_mutex_unlock(m);
	return NULL;
}

static void threads_are_different_owners(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	unit_join(unit_start(lock_in_new_thread, &m));
	assert_int_equal(word_of(&m), 0);
}

/* ---- steps: the test plays the waiters ---- */

#define OTHER(n) ((uint32_t)(4000000 + (n)) << NEAR__OWNER_SHIFT)

struct played {
	struct near_mutex m;
	struct near__waiter w[3];
};

static void play(struct played *p, unsigned i, long waited_ns)
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

static bool was_woken(struct near__waiter *w, uintptr_t token)
{
	return !w->queued && w->word == NEAR__WOKEN && w->token == token;
}

static void leave_queue(struct played *p)
{
	struct near__bucket *b = near__lot_lock(&p->m);

	for (unsigned i = 0; i < 3; i++)
		if (p->w[i].queued)
			near__lot_take(b, &p->w[i]);
	near__lot_unlock(b);
}

static void an_unlock_wakes_the_first_who_is_young(void **state)
{
	struct played p = {.m = {me() | PARKED}};

	play(&p, 0, 0);
	play(&p, 1, 0);
	near_mutex_unlock(&p.m);
	assert_int_equal(word_of(&p.m), PARKED | WAKING);
	assert_true(was_woken(&p.w[0], CHOSEN));
	/* While it is on its way nobody else is woken, and bits stay as they are. */
	near_mutex_lock(&p.m);
	assert_int_equal(word_of(&p.m), me() | PARKED | WAKING);
	near_mutex_unlock(&p.m);
	assert_int_equal(word_of(&p.m), PARKED | WAKING);
	assert_true(near_mutex_try_lock(&p.m));
	near_mutex_unlock(&p.m);
	assert_int_equal(word_of(&p.m), PARKED | WAKING);
	assert_true(p.w[1].queued);
	/* The last one leaves no PARKED behind. */
	p.m.word = me() | PARKED;
	near_mutex_unlock(&p.m);
	assert_int_equal(word_of(&p.m), WAKING);
	assert_true(was_woken(&p.w[1], CHOSEN));
}

static void an_unlock_hands_the_mutex_to_the_first_who_is_old(void **state)
{
	struct played p = {.m = {me() | PARKED}};

	play(&p, 0, 3 * MS / 2);
	play(&p, 1, 0);
	near_mutex_unlock(&p.m);
	assert_int_equal(word_of(&p.m), OTHER(0) | PARKED);
	assert_true(was_woken(&p.w[0], HANDED));
	assert_false(near_mutex_try_lock(&p.m));
	leave_queue(&p);
}

static void the_age_that_counts_is_a_millisecond(void **state)
{
	struct played p = {.m = {me() | PARKED}};

	play(&p, 0, 0);
	freeze_at(501);
	near_mutex_unlock(&p.m);
	assert_true(was_woken(&p.w[0], CHOSEN));
	p.m.word = me() | PARKED;
	play(&p, 0, 0);
	freeze_at(503);
	near_mutex_unlock(&p.m);
	assert_true(was_woken(&p.w[0], HANDED));
	assert_int_equal(word_of(&p.m), OTHER(0));
}

static void a_fair_unlock_hands_over_at_once(void **state)
{
	struct played p = {.m = {me() | PARKED | WAKING}};

	play(&p, 0, 0);
	near_mutex_unlock_fair(&p.m);
	assert_int_equal(word_of(&p.m), OTHER(0) | WAKING);
	assert_true(was_woken(&p.w[0], HANDED));
	p.m.word = me() | PARKED; /* of nobody any more */
	near_mutex_unlock_fair(&p.m);
	assert_int_equal(word_of(&p.m), 0);
}

static void an_unlock_clears_bits_of_nobody(void **state)
{
	struct near_mutex m = {me() | PARKED | AWAITED};

	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
	m.word = me() | PARKED | AWAITED | WAKING;
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), WAKING);
}

/* One that was chosen, and found the mutex taken, enters the queue again. */
static void who_comes_back_stands_by_its_age(void **state)
{
	static const long ages[] = {9, 3, 6, 1, 12};
	static const unsigned order[] = {4, 0, 2, 1, 3};
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct near__waiter w[LENGTH(ages)], *at;
	struct near__bucket *b = near__lot_lock(&m);

	for (size_t i = 0; i < LENGTH(ages); i++) {
		w[i] = (struct near__waiter){.address = &m,
					     .space = NEAR__SPACE_MUTEX,
					     .since = 1000 - (uint64_t)ages[i]};
		near__lot_insert(b, &w[i]);
	}
	at = near__lot_first(b, &m, NEAR__SPACE_MUTEX);
	for (size_t i = 0; i < LENGTH(order); i++) {
		struct near__waiter *next = near__lot_next(at);

		assert_ptr_equal(at, &w[order[i]]);
		near__lot_take(b, at);
		at = next;
	}
	assert_null(at);
	near__lot_unlock(b);
}

/* ---- waits ---- */

struct waiter {
	struct near_mutex *m;
	struct near_cancel *cancel;
	const struct timespec *deadline;
	clockid_t clock;
	int result;
	unsigned *order, turn;
	pthread_t thread;
};

static void *wait_for_mutex(void *arg)
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

static void start_waiter(struct waiter *w)
{
	unsigned before = waiters_of(w->m);

	w->thread = unit_start(wait_for_mutex, w);
	wait_for_waiters(w->m, before + 1);
}

static void every_waiter_gets_it(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[12];
	unsigned order = 0;

	for (unsigned round = 0; round < 10; round++) {
		near_mutex_lock(&m);
		for (unsigned i = 0; i < 12; i++) {
			w[i] = (struct waiter){.m = &m, .order = &order};
			start_waiter(&w[i]);
		}
		assert_int_equal(order, round * 12);
		if (round % 2)
			near_mutex_unlock(&m);
		else
			near_mutex_unlock_fair(&m);
		for (unsigned i = 0; i < 12; i++)
			unit_join(w[i].thread);
		assert_int_equal(order, (round + 1) * 12);
		assert_int_equal(word_of(&m), 0);
	}
}

/* All are old: each unlock hands the mutex to the next. */
static void old_waiters_get_it_in_their_order(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[6];
	unsigned order = 0;

	near_mutex_lock(&m);
	for (unsigned i = 0; i < 6; i++) {
		w[i] = (struct waiter){.m = &m, .order = &order};
		start_waiter(&w[i]);
	}
	usleep(3000);
	near_mutex_unlock(&m);
	for (unsigned i = 0; i < 6; i++) {
		unit_join(w[i].thread);
		assert_int_equal(w[i].turn, i + 1);
	}
}

/* ---- fences ---- */

static uint64_t fences(void)
{
	return __atomic_load_n(&near__lot.fences, __ATOMIC_RELAXED);
}

static void set_calm(uint32_t unlocks)
{
	__atomic_store_n(&near__lot.calm_needed, unlocks, __ATOMIC_RELAXED);
}

/* Whatever the machine has, so that words are the same everywhere. */
static int few_cpus(void **state)
{
	set_calm(1);
	return 0;
}

/* Somebody parks, and gets it. */
static void be_waited_for(struct near_mutex *m, uint32_t bits)
{
	struct waiter w = {.m = m};

	near_mutex_lock(m);
	start_waiter(&w);
	assert_int_equal(word_of(m) & ~NEAR__MUTEX_OWNER, bits);
	near_mutex_unlock(m);
	unit_join(w.thread);
	assert_int_equal(w.result, 0);
}

static void each_first_park_fences_where_cpus_are_few(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	uint64_t before = fences();

	set_calm(1);
	for (unsigned i = 1; i <= 5; i++) {
		be_waited_for(&m, PARKED);
		assert_int_equal(word_of(&m), 0);
		assert_int_equal(fences() - before, i);
	}
}

static unsigned calm_unlocks(struct near_mutex *m)
{
	unsigned n = 0;

	while (word_of(m) == WARY) {
		near_mutex_lock(m);
		assert_int_equal(word_of(m), me() | WARY);
		near_mutex_unlock(m);
		n++;
	}
	assert_int_equal(word_of(m), 0);
	return n;
}

static void unlocks_pay_for_fences_where_cpus_are_many(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT, other = NEAR_MUTEX_INIT;
	uint64_t before = fences();

	set_calm(50);
	for (unsigned i = 1; i <= 5; i++) {
		be_waited_for(&m, PARKED | WARY);
		assert_int_equal(fences() - before, 2 * i - 1);
		be_waited_for(&m, PARKED | WARY);
		assert_int_equal(fences() - before, 2 * i - 1);
		assert_int_equal(word_of(&m), WARY);
		assert_int_equal(calm_unlocks(&m), 50);
		/* A thread counts for all its mutexes. */
		be_waited_for(&m, PARKED | WARY);
		m.word = me() | WARY;
		near_mutex_unlock_fair(&m);
		be_waited_for(&other, PARKED | WARY);
		assert_int_equal(calm_unlocks(&other), 49);
		before++;
		m.word = 0;
	}
}

/* With two CPUs or fewer none are counted; with more, in proportion. */
static void the_number_goes_by_the_machine(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	bool few = near_cpus() <= 2;

	set_calm(0);
	be_waited_for(&m, few ? PARKED : PARKED | WARY);
	assert_int_equal(near__lot.calm_needed, few ? 1 : 100 * near_cpus());
}

/* ---- longer slices ---- */

/* The kernel's area as a kernel would have it that can extend a slice. */
static struct near__area fake;

struct slice_ctrl {
	uint8_t request, granted;
};

static struct slice_ctrl *ctrl(void)
{
	return (struct slice_ctrl *)&fake.slice_ctrl;
}

struct occupied {
	struct near_mutex m;
	uint32_t holds;
};

static void *let_one_wait(void *arg)
{
	struct occupied *o = arg;

	near_mutex_lock(&o->m);
	__atomic_store_n(&o->holds, 1, __ATOMIC_RELEASE);
	wait_for_waiters(&o->m, 1);
	CHECK(ctrl()->request == 0);
	near_mutex_unlock(&o->m);
	return NULL;
}

static void lock_after_a_wait(struct occupied *o)
{
	pthread_t t;

	o->holds = 0;
	t = unit_start(let_one_wait, o);
	while (!__atomic_load_n(&o->holds, __ATOMIC_ACQUIRE))
		usleep(100);
	near_mutex_lock(&o->m);
	unit_join(t);
}

static void who_has_waited_asks_for_a_longer_slice(void **state)
{
	struct occupied outer = {.m = NEAR_MUTEX_INIT}, inner = outer;
	struct near__thread saved = near__self;

	set_calm(1);
	near__slice = (struct near__slice){NEAR__SLICE_ABLE, false};
	near__self.area = &fake;
	near__self.state = NEAR__LIVE;
	near_mutex_lock(&outer.m);
	assert_int_equal(ctrl()->request, 0);
	near_mutex_unlock(&outer.m);
	lock_after_a_wait(&outer);
	assert_int_equal(ctrl()->request, 1);
	assert_int_equal(word_of(&outer.m), me()); /* its unlock comes here all the same */
	lock_after_a_wait(&inner); /* which withdraws the first, as let_one_wait sees */
	assert_int_equal(ctrl()->request, 1);
	near_mutex_unlock(&inner.m);
	assert_int_equal(ctrl()->request, 0);
	near_mutex_unlock(&outer.m);
	assert_int_equal(word_of(&outer.m), 0);
	assert_int_equal(word_of(&inner.m), 0);
	near__self = saved;
	near__slice = (struct near__slice){0};
}

static void what_was_granted_is_given_back(void **state)
{
	struct near__thread saved = near__self;

	near__slice = (struct near__slice){NEAR__SLICE_ABLE, false};
	near__self.area = &fake;
	near__self.state = NEAR__LIVE;
	assert_true(near__slice_begin());
	*ctrl() = (struct slice_ctrl){.granted = 1};
	errno = UNIT_ERRNO;
	assert_true(near__slice_end_asked());
	assert_int_equal(errno, UNIT_ERRNO);
	*ctrl() = (struct slice_ctrl){0};
	assert_true(near__slice_begin());
	assert_false(near__slice_end_asked());
	near__self.state = NEAR__LIVE + 1;
	assert_false(near__slice_begin());
	assert_int_equal(fake.slice_ctrl, 0);
	near__self = saved;
	near__slice = (struct near__slice){0};
}

static void nothing_is_asked_of_a_kernel_without(void **state)
{
	struct near_rseq_status status;

	near_rseq_status(&status, sizeof(status));
	near__slice = (struct near__slice){0};
	if (status.has_slice)
		skip();
	assert_false(near__slice_begin());
	assert_int_equal(near__slice.state == NEAR__SLICE_UNABLE, status.live);
	assert_int_equal(near__self.area->slice_ctrl, 0);
}

static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};

static void *hold(void *arg)
{
	struct played *p = arg;

	near_mutex_lock(&p->m);
	while (!__atomic_load_n(&p->w[0].token, __ATOMIC_ACQUIRE))
		usleep(100);
	near_mutex_unlock(&p->m);
	return NULL;
}

static pthread_t start_holder(struct played *p)
{
	pthread_t t = unit_start(hold, p);

	while (!word_of(&p->m))
		usleep(100);
	return t;
}

static void end_holder(struct played *p, pthread_t t)
{
	__atomic_store_n(&p->w[0].token, 1, __ATOMIC_RELEASE);
	unit_join(t);
	assert_int_equal(word_of(&p->m), 0);
}

static void deadlines_end_waits(void **state)
{
	static const struct timespec past = {0, 0}, before = {-1, 0};
	struct played p = {.m = NEAR_MUTEX_INIT};
	pthread_t t = start_holder(&p);

	for (size_t i = 0; i < LENGTH(clocks); i++) {
		struct timespec soon, now;

		clock_gettime(clocks[i], &soon);
		soon.tv_sec += soon.tv_nsec >= 980000000;
		soon.tv_nsec = (soon.tv_nsec + 20000000) % 1000000000;
		assert_int_equal(near_mutex_lock_until(&p.m, clocks[i], &soon, NULL), -ETIMEDOUT);
		clock_gettime(clocks[i], &now);
		assert_true(now.tv_sec > soon.tv_sec ||
			    (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
		assert_int_equal(near_mutex_lock_until(&p.m, clocks[i], &past, NULL), -ETIMEDOUT);
		assert_int_equal(near_mutex_lock_until(&p.m, clocks[i], &before, NULL), -ETIMEDOUT);
		assert_int_equal(waiters_of(&p.m), 0);
	}
	end_holder(&p, t);
	/* A free one is taken in any case. */
	assert_int_equal(near_mutex_lock_until(&p.m, CLOCK_REALTIME, &past, NULL), 0);
	near_mutex_unlock(&p.m);
}

static void a_wrong_deadline_is_an_error(void **state)
{
	static const struct timespec wrong = {1, 1000000000}, negative = {1, -1}, right = {1, 0};
	struct near_mutex m = NEAR_MUTEX_INIT;

	assert_int_equal(near_mutex_lock_until(&m, CLOCK_MONOTONIC, &wrong, NULL), -EINVAL);
	assert_int_equal(near_mutex_lock_until(&m, CLOCK_MONOTONIC, &negative, NULL), -EINVAL);
	assert_int_equal(near_mutex_lock_until(&m, 4711, &right, NULL), -EINVAL);
	assert_int_equal(near_mutex_lock_until(&m, CLOCK_PROCESS_CPUTIME_ID, &right, NULL),
			 -EINVAL);
	assert_int_equal(word_of(&m), 0);
	assert_int_equal(near_mutex_lock_until(&m, 4711, NULL, NULL), 0);
	near_mutex_unlock(&m);
}

static void a_token_ends_waits(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	struct waiter w[3];
	unsigned order = 0;

	near_mutex_lock(&m);
	for (unsigned i = 0; i < 3; i++) {
		w[i] = (struct waiter){.m = &m, .cancel = i == 1 ? NULL : &token, .order = &order};
		start_waiter(&w[i]);
	}
	near_cancel_set(&token);
	unit_join(w[0].thread);
	unit_join(w[2].thread);
	assert_int_equal(w[0].result, -ECANCELED);
	assert_int_equal(w[2].result, -ECANCELED);
	assert_int_equal(waiters_of(&m), 1);
	near_mutex_unlock(&m);
	unit_join(w[1].thread);
	assert_int_equal(w[1].turn, 1);
	assert_int_equal(word_of(&m), 0);
}

/* ---- await ---- */

static bool is_set(void *flag)
{
	return *(unsigned *)flag != 0;
}

struct turn {
	struct near_mutex m;
	unsigned now, awake;
};

struct player {
	struct turn *turn;
	unsigned mine, rounds, players;
};

static bool is_my_turn(void *arg)
{
	struct player *p = arg;

	return p->turn->now % p->players == p->mine;
}

static void *take_turns(void *arg)
{
	struct player *p = arg;

	for (unsigned i = 0; i < p->rounds; i++) {
		near_mutex_lock(&p->turn->m);
		near_mutex_await(&p->turn->m, is_my_turn, p);
		CHECK(near_mutex_is_mine(&p->turn->m));
		CHECK(is_my_turn(p));
		p->turn->now++;
		near_mutex_unlock(&p->turn->m);
	}
	return NULL;
}

static void await_hands_over_to_whose_condition_is_true(void **state)
{
	struct turn turn = {.m = NEAR_MUTEX_INIT};
	struct player players[5];

	for (unsigned i = 0; i < 5; i++)
		players[i] = (struct player){&turn, i, unit_scale(2000), 5};
	unit_run(take_turns, players, sizeof(players[0]), 5);
	assert_int_equal(turn.now, 5 * unit_scale(2000));
	assert_int_equal(word_of(&turn.m), 0);
}

static unsigned asked;

static bool ask(void *flag)
{
	asked++;
	return *(bool *)flag;
}

static void await_asks_at_once(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	bool yes = true;

	near_mutex_lock(&m);
	asked = 0;
	near_mutex_await(&m, ask, &yes);
	assert_int_equal(asked, 1);
	assert_int_equal(word_of(&m), me());
	near_mutex_unlock(&m);
}

static void await_ends_by_deadline_and_token(void **state)
{
	struct near_cancel token = NEAR_CANCEL_INIT;
	struct near_mutex m = NEAR_MUTEX_INIT;
	static const struct timespec wrong = {1, -1};
	unsigned flag = 0;

	near_mutex_lock(&m);
	for (size_t i = 0; i < LENGTH(clocks); i++) {
		struct timespec now;

		clock_gettime(clocks[i], &now);
		assert_int_equal(near_mutex_await_until(&m, is_set, &flag, clocks[i], &now, NULL),
				 -ETIMEDOUT);
		assert_true(near_mutex_is_mine(&m));
	}
	assert_int_equal(near_mutex_await_until(&m, is_set, &flag, 0, &wrong, NULL), -EINVAL);
	assert_true(near_mutex_is_mine(&m));
	near_cancel_set(&token);
	assert_int_equal(near_mutex_await_until(&m, is_set, &flag, 0, NULL, &token), -ECANCELED);
	assert_true(near_mutex_is_mine(&m));
	flag = 1;
	assert_int_equal(near_mutex_await_until(&m, is_set, &flag, 0, NULL, &token), 0);
	near_mutex_unlock(&m);
	assert_int_equal(word_of(&m), 0);
}

/* Many awaiters, of whom one at a time may go on, beside others who only lock. */
struct queue {
	struct near_mutex m;
	unsigned items, taken, put, goal;
};

static bool has_items(void *arg)
{
	struct queue *q = arg;

	return q->items > 0 || q->taken == q->goal;
}

static bool has_room(void *arg)
{
	struct queue *q = arg;

	return q->items < 3 || q->put == q->goal;
}

static void *take_items(void *arg)
{
	struct queue *q = arg;

	for (bool more = true; more;) {
		near_mutex_lock(&q->m);
		near_mutex_await(&q->m, has_items, q);
		CHECK(has_items(q) && q->items <= 3);
		more = q->taken < q->goal;
		if (more) {
			q->items--;
			q->taken++;
		}
		near_mutex_unlock(&q->m);
	}
	return NULL;
}

static void *put_items(void *arg)
{
	struct queue *q = arg;

	for (bool more = true; more;) {
		near_mutex_lock(&q->m);
		near_mutex_await(&q->m, has_room, q);
		more = q->put < q->goal;
		if (more) {
			q->items++;
			q->put++;
		}
		near_mutex_unlock(&q->m);
	}
	return NULL;
}

static void *only_lock(void *arg)
{
	struct queue *q = arg;

	for (bool more = true; more;) {
		near_mutex_lock(&q->m);
		more = q->taken < q->goal;
		near_mutex_unlock(&q->m);
		sched_yield();
	}
	return NULL;
}

static void *play_queue(void *arg)
{
	static void *(*const roles[])(void *) = {put_items, take_items, only_lock};
	struct {
		struct queue *q;
		unsigned role;
	} *part = arg;

	return roles[part->role](part->q);
}

static void a_bounded_queue_by_await(void **state)
{
	struct queue q = {.m = NEAR_MUTEX_INIT, .goal = unit_scale(20000)};
	struct {
		struct queue *q;
		unsigned role;
	} parts[7] = {{&q, 0}, {&q, 0}, {&q, 0}, {&q, 1}, {&q, 1}, {&q, 1}, {&q, 2}};

	unit_run(play_queue, parts, sizeof(parts[0]), 7);
	assert_int_equal(q.put, q.goal);
	assert_int_equal(q.taken, q.goal);
	assert_int_equal(waiters_of(&q.m), 0);
}

/* ---- misuse ---- */

static struct near_mutex misused;

static void unlock_free(void *unused)
{
	near_mutex_unlock(&misused);
}

static void *unlock_it(void *unused)
{
	near_mutex_unlock(&misused);
	return unused;
}

static void unlock_of_another(void *unused)
{
	near_mutex_lock(&misused);
	unit_join(unit_start(unlock_it, unused));
}

static void *lock_and_unlock(void *m)
{
	near_mutex_lock(m);
	near_mutex_unlock(m);
	return NULL;
}

static void unlock_of_another_who_locked_before(void *unused)
{
	unit_join(unit_start(lock_and_unlock, &misused));
	unlock_of_another(unused);
}

static void relock(void *unused)
{
	near_mutex_lock(&misused);
	near_mutex_lock(&misused);
}

static void await_free(void *flag)
{
	near_mutex_await(&misused, is_set, flag);
}

static void destroy_held(void *unused)
{
	near_mutex_lock(&misused);
	near_mutex_destroy(&misused);
}

static void use_destroyed(void *unused)
{
	near_mutex_destroy(&misused);
	near_mutex_lock(&misused);
}

static void unlock_destroyed(void *unused)
{
	near_mutex_destroy(&misused);
	near_mutex_unlock(&misused);
}

static void misuse_stops_with_one_line(void **state)
{
	unsigned flag = 0;

	unit_dies(unlock_free, NULL, "near_mutex_unlock: the mutex is not held");
	unit_dies(unlock_of_another, NULL, "near_mutex_unlock: another thread holds the mutex");
	unit_dies(unlock_of_another_who_locked_before, NULL,
		  "near_mutex_unlock: another thread holds the mutex");
	unit_dies(relock, NULL, "near_mutex_lock: this thread holds the mutex already");
	unit_dies(await_free, &flag, "near_mutex_await: this thread does not hold the mutex");
	unit_dies(destroy_held, NULL, "near_mutex_destroy: the mutex is held, or waited for");
	unit_dies(use_destroyed, NULL, "near_mutex: the mutex was destroyed");
	unit_dies(unlock_destroyed, NULL, "near_mutex: the mutex was destroyed");
}

/* ---- fork ---- */

static struct near_mutex forked, held_by_other = NEAR_MUTEX_INIT;

static void unlock_in_child(void *unused)
{
	struct waiter w[4];
	unsigned order = 0;

	CHECK(near_mutex_is_mine(&forked));
	near_mutex_unlock(&forked);
	CHECK(word_of(&forked) == 0);
	/* WAKING of the parent's is forgotten: or these would sleep for ever. */
	for (unsigned round = 0; round < 3; round++) {
		forked.word = round ? WAKING | PARKED : 0;
		near_mutex_lock(&forked);
		for (unsigned i = 0; i < 4; i++) {
			w[i] = (struct waiter){.m = &forked, .order = &order};
			start_waiter(&w[i]);
		}
		near_mutex_unlock(&forked);
		for (unsigned i = 0; i < 4; i++)
			unit_join(w[i].thread);
	}
	CHECK(order == 12);
	CHECK(word_of(&forked) == 0);
}

static void the_child_unlocks_what_its_thread_held(void **state)
{
	struct waiter w = {.m = &forked};

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it lets no child have threads */
	near_mutex_lock(&forked);
	start_waiter(&w);
	unit_in_child(unlock_in_child, NULL);
	assert_int_equal(waiters_of(&forked), 1);
	near_mutex_unlock(&forked);
	unit_join(w.thread);
	assert_int_equal(w.result, 0);
}

static void fork_again(void *levels)
{
	unsigned *left = levels;

	CHECK(near_mutex_is_mine(&forked));
	if ((*left)--)
		CHECK(unit_wait(unit_fork(fork_again, left), NULL) == 0);
	near_mutex_unlock(&forked);
	near_mutex_lock(&forked);
	near_mutex_unlock(&forked);
}

/* The deepest child knows it by the first process's name for it. */
static void children_of_children_unlock_it_too(void **state)
{
	unsigned levels = NEAR__OWNER_NAMES - 1;

	near_mutex_lock(&forked);
	unit_in_child(fork_again, &levels);
	near_mutex_unlock(&forked);
}

static void lock_in_child(void *m)
{
	near_mutex_lock(m);
}

static void a_child_does_not_wait_for_a_thread_of_the_parent(void **state)
{
	struct played p = {.m = NEAR_MUTEX_INIT};
	pthread_t t = start_holder(&p);

	unit_dies(lock_in_child, &p.m,
		  "near_mutex_lock: the holder is a thread of the parent process, "
		  "which the fork did not copy");
	end_holder(&p, t);
	near_mutex_lock(&held_by_other);
	unit_dies(relock, NULL, "near_mutex_lock: this thread holds the mutex already");
	near_mutex_unlock(&held_by_other);
}

static void wait_in_child(void *m)
{
	struct waiter w = {.m = m};

	start_waiter(&w);
	near_mutex_unlock(m);
	unit_join(w.thread);
	CHECK(w.result == 0);
}

/* The holder came along, under another number. */
static void threads_of_the_child_wait_for_the_one_that_forked(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	if (UNIT_THREAD_SANITIZER)
		skip();
	near_mutex_lock(&m);
	unit_in_child(wait_in_child, &m);
	near_mutex_unlock(&m);
}

/* ---- storms ---- */

struct storm {
	struct near_mutex m;
	struct near_cancel token;
	unsigned sections, flag;
	unsigned long inside; /* guarded, not atomic */
	int occupied, overlaps, given_up;
	uint64_t seed;
};

static void visit(struct storm *storm)
{
	if (__atomic_exchange_n(&storm->occupied, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&storm->overlaps, 1, __ATOMIC_RELAXED);
	storm->inside++;
	__atomic_store_n(&storm->occupied, 0, __ATOMIC_RELAXED);
}

static bool try_to_lock(struct storm *storm, uint32_t r)
{
	struct timespec soon;

	switch (r % 8) {
	case 0:
		return near_mutex_try_lock(&storm->m);
	case 1:
	case 2:
		clock_gettime(CLOCK_MONOTONIC, &soon);
		soon.tv_nsec += r >> 8 & 0xffff;
		soon.tv_sec += soon.tv_nsec / 1000000000;
		soon.tv_nsec %= 1000000000;
		return near_mutex_lock_until(&storm->m, CLOCK_MONOTONIC, &soon, &storm->token) == 0;
	default:
		near_mutex_lock(&storm->m);
		return true;
	}
}

static bool is_third(void *arg)
{
	return ((struct storm *)arg)->inside % 3 == 0;
}

static void act_inside(struct storm *storm, uint32_t r)
{
	struct timespec now;

	visit(storm);
	if (r % 64 == 0)
		sched_yield();
	if (r % 32 == 1) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		near_mutex_await_until(&storm->m, is_third, storm, CLOCK_MONOTONIC, &now, NULL);
		visit(storm);
		storm->inside--;
	}
	if (r % 1024 == 5)
		near_cancel_set(&storm->token);
	if (r % 16 == 3)
		near_mutex_unlock_fair(&storm->m);
	else
		near_mutex_unlock(&storm->m);
}

static void *rage(void *arg)
{
	struct storm *storm = *(struct storm **)arg;
	uint64_t random = __atomic_add_fetch(&storm->seed, 1, __ATOMIC_RELAXED);
	int given_up = 0;

	for (unsigned i = 0; i < storm->sections; i++) {
		uint32_t r = unit_random(&random);

		if (try_to_lock(storm, r))
			act_inside(storm, r >> 4);
		else
			given_up++;
	}
	__atomic_fetch_add(&storm->given_up, given_up, __ATOMIC_RELAXED);
	return NULL;
}

static void storms_of_2_to_32_threads(void **state)
{
	static const unsigned threads[] = {2, 3, 8, 32, 3, 8};

	for (size_t i = 0; i < LENGTH(threads); i++) {
		struct storm storm = {.sections = unit_scale(200000) / threads[i]}, *all[32];

		set_calm(i < 4 ? 1 : 3);
		for (unsigned t = 0; t < threads[i]; t++)
			all[t] = &storm;
		unit_run(rage, all, sizeof(all[0]), threads[i]);
		assert_int_equal(storm.overlaps, 0);
		assert_int_equal(storm.inside + (unsigned long)storm.given_up,
				 (unsigned long)threads[i] * storm.sections);
		assert_int_equal(waiters_of(&storm.m), 0);
		assert_int_equal(word_of(&storm.m) & NEAR__MUTEX_OWNER, 0);
	}
}

/* ---- freeing ---- */

struct object {
	struct near_mutex m;
	int users; /* guarded */
};

struct users {
	pthread_barrier_t barrier;
	struct object *object;
	unsigned rounds;
};

static void *use_objects(void *arg)
{
	struct users *users = *(struct users **)arg;

	for (unsigned i = 0; i < users->rounds; i++) {
		struct object *o;
		bool last;

		if (pthread_barrier_wait(&users->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
			o = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
			CHECK(o != MAP_FAILED);
			o->users = 4;
			users->object = o;
		}
		pthread_barrier_wait(&users->barrier);
		o = users->object;
		near_mutex_lock(&o->m);
		if (i % 2)
			sched_yield();
		last = --o->users == 0;
		if (i % 3)
			near_mutex_unlock(&o->m);
		else
			near_mutex_unlock_fair(&o->m);
		if (last)
			munmap(o, 4096);
		pthread_barrier_wait(&users->barrier);
	}
	return NULL;
}

static void the_last_user_frees_right_after_unlock(void **state)
{
	struct users users = {.rounds = unit_scale(3000)},
		     *all[4] = {&users, &users, &users, &users};

	pthread_barrier_init(&users.barrier, NULL, 4);
	unit_run(use_objects, all, sizeof(all[0]), 4);
	pthread_barrier_destroy(&users.barrier);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zero_is_a_free_mutex),
		cmocka_unit_test(threads_are_different_owners),
		cmocka_unit_test_setup_teardown(an_unlock_wakes_the_first_who_is_young, freeze,
						unfreeze),
		cmocka_unit_test_setup_teardown(an_unlock_hands_the_mutex_to_the_first_who_is_old,
						freeze, unfreeze),
		cmocka_unit_test_setup_teardown(the_age_that_counts_is_a_millisecond, freeze,
						unfreeze),
		cmocka_unit_test(a_fair_unlock_hands_over_at_once),
		cmocka_unit_test(an_unlock_clears_bits_of_nobody),
		cmocka_unit_test(who_comes_back_stands_by_its_age),
		cmocka_unit_test(every_waiter_gets_it),
		cmocka_unit_test(old_waiters_get_it_in_their_order),
		cmocka_unit_test_teardown(each_first_park_fences_where_cpus_are_few, few_cpus),
		cmocka_unit_test_teardown(unlocks_pay_for_fences_where_cpus_are_many, few_cpus),
		cmocka_unit_test_teardown(the_number_goes_by_the_machine, few_cpus),
		cmocka_unit_test_teardown(who_has_waited_asks_for_a_longer_slice, few_cpus),
		cmocka_unit_test(what_was_granted_is_given_back),
		cmocka_unit_test(nothing_is_asked_of_a_kernel_without),
		cmocka_unit_test(deadlines_end_waits),
		cmocka_unit_test(a_wrong_deadline_is_an_error),
		cmocka_unit_test(a_token_ends_waits),
		cmocka_unit_test(await_hands_over_to_whose_condition_is_true),
		cmocka_unit_test(await_asks_at_once),
		cmocka_unit_test(await_ends_by_deadline_and_token),
		cmocka_unit_test(a_bounded_queue_by_await),
		cmocka_unit_test(misuse_stops_with_one_line),
		cmocka_unit_test(the_child_unlocks_what_its_thread_held),
		cmocka_unit_test(a_child_does_not_wait_for_a_thread_of_the_parent),
		cmocka_unit_test(children_of_children_unlock_it_too),
		cmocka_unit_test(threads_of_the_child_wait_for_the_one_that_forked),
		cmocka_unit_test_teardown(storms_of_2_to_32_threads, few_cpus),
		cmocka_unit_test(the_last_user_frees_right_after_unlock),
	};

	return cmocka_run_group_tests(tests, few_cpus, NULL);
}
