/* SPDX-License-Identifier: MIT */
/* near_mutex with many threads: near_mutex_await, stress tests, the last user frees the mutex. */
#include "mutex_waiters.h"

/* ---- await ---- */

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

static void await_hands_over_to_a_waiter_whose_condition_is_true(void **state)
{
	struct turn turn = {.m = NEAR_MUTEX_INIT};
	struct player players[5];

	for (unsigned i = 0; i < 5; i++)
		players[i] = (struct player){&turn, i, unit_scale(2000), 5};
	unit_run(take_turns, players, sizeof(players[0]), 5);
	assert_int_equal(turn.now, 5 * unit_scale(2000));
	assert_int_equal(word_of(&turn.m), 0);
}

static unsigned checks;

static bool count_check(void *flag)
{
	checks++;
	return *(bool *)flag;
}

static void await_checks_its_condition_first(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;
	bool yes = true;

	near_mutex_lock(&m);
	checks = 0;
	near_mutex_await(&m, count_check, &yes);
	assert_int_equal(checks, 1);
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
	for (size_t i = 0; i < LENGTH(wait_clocks); i++) {
		struct timespec now;

		clock_gettime(wait_clocks[i], &now);
		assert_int_equal(near_mutex_await_until(&m, is_set, &flag, wait_clocks[i], &now,
							NULL),
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

/* Many threads await; one at a time may continue. Others only lock. */
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

/* ---- stress ---- */

struct stress {
	struct near_mutex m;
	struct near_cancel token;
	unsigned sections, flag;
	unsigned long inside; /* guarded, not atomic */
	int occupied, overlaps, given_up;
	uint64_t seed;
};

static void visit(struct stress *stress)
{
	if (__atomic_exchange_n(&stress->occupied, 1, __ATOMIC_RELAXED))
		__atomic_fetch_add(&stress->overlaps, 1, __ATOMIC_RELAXED);
	stress->inside++;
	__atomic_store_n(&stress->occupied, 0, __ATOMIC_RELAXED);
}

static bool try_to_lock(struct stress *stress, uint32_t r)
{
	struct timespec soon;

	switch (r % 8) {
	case 0:
		return near_mutex_try_lock(&stress->m);
	case 1:
	case 2:
		soon = wait_in_ns(r >> 8 & 0xffff);
		return near_mutex_lock_until(&stress->m, CLOCK_MONOTONIC, &soon, &stress->token) ==
		       0;
	default:
		near_mutex_lock(&stress->m);
		return true;
	}
}

static bool is_third(void *arg)
{
	return ((struct stress *)arg)->inside % 3 == 0;
}

static void act_inside(struct stress *stress, uint32_t r)
{
	struct timespec now;

	visit(stress);
	if (r % 64 == 0)
		sched_yield();
	if (r % 32 == 1) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		near_mutex_await_until(&stress->m, is_third, stress, CLOCK_MONOTONIC, &now, NULL);
		visit(stress);
		stress->inside--;
	}
	if (r % 1024 == 5)
		near_cancel_set(&stress->token);
	if (r % 16 == 3)
		near_mutex_unlock_fair(&stress->m);
	else
		near_mutex_unlock(&stress->m);
}

static void *enter_often(void *arg)
{
	struct stress *stress = *(struct stress **)arg;
	uint64_t random = __atomic_add_fetch(&stress->seed, 1, __ATOMIC_RELAXED);
	int given_up = 0;

	for (unsigned i = 0; i < stress->sections; i++) {
		uint32_t r = unit_random(&random);

		if (try_to_lock(stress, r))
			act_inside(stress, r >> 4);
		else
			given_up++;
	}
	__atomic_fetch_add(&stress->given_up, given_up, __ATOMIC_RELAXED);
	return NULL;
}

static void stress_of_2_to_32_threads(void **state)
{
	static const unsigned threads[] = {2, 3, 8, 32, 3, 8};

	for (size_t i = 0; i < LENGTH(threads); i++) {
		struct stress stress = {.sections = unit_scale(200000) / threads[i]}, *all[32];

		set_unlock_budget(i < 4 ? 1 : 3);
		for (unsigned t = 0; t < threads[i]; t++)
			all[t] = &stress;
		unit_run(enter_often, all, sizeof(all[0]), threads[i]);
		assert_int_equal(stress.overlaps, 0);
		assert_int_equal(stress.inside + (unsigned long)stress.given_up,
				 (unsigned long)threads[i] * stress.sections);
		assert_int_equal(waiters_of(&stress.m), 0);
		assert_int_equal(word_of(&stress.m) & NEAR__MUTEX_OWNER, 0);
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
	return UNIT_GROUP(few_cpus, few_cpus, NULL,
			  await_hands_over_to_a_waiter_whose_condition_is_true,
			  await_checks_its_condition_first, await_ends_by_deadline_and_token,
			  a_bounded_queue_by_await, stress_of_2_to_32_threads,
			  the_last_user_frees_right_after_unlock);
}
