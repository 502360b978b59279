/* SPDX-License-Identifier: MIT */
/* near_pool: exactly as many objects as the limit, wherever the idle ones are; gets that wait. */
#include "things.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "pool/pool.h"
#include "team.h"

static struct things all;
static struct near_pool pool;

static void make(size_t most, size_t cap)
{
	const struct near_pool_options o = {THINGS(&all), .max_objects = most, .max_idle = cap};

	memset(&all, 0, sizeof(all));
	assert_int_equal(near_pool_init(&pool, sizeof(struct thing), &o), 0);
}

/* ---- the number ---- */

#define LARGE 3000

static void as_many_objects_as_the_limit(void **state)
{
	static const size_t limits[] = {1, 2, 10, 100, LARGE};
	static struct thing *t[LARGE];

	for (unsigned i = 0; i < LENGTH(limits); i++) {
		make(limits[i], 0);
		for (int round = 0; round < 3; round++) {
			for (size_t k = 0; k < limits[i]; k++)
				t[k] = thing_get(&pool);
			KEEPS_ERRNO(assert_null(near_pool_get(&pool)));
			assert_null(near_pool_try_get(&pool));
			for (size_t k = 0; k < limits[i]; k++)
				thing_put(&pool, t[k]);
		}
		assert_int_equal(pool_now(&pool).objects - pool_now(&pool).idle, 0);
		near_pool_destroy(&pool);
		assert_int_equal(all.made, all.ended);
	}
}

/* Objects that are idle in the slots of other CPUs. */
static void an_idle_object_of_any_slot_is_got(void **state)
{
	static struct thing *t[LARGE];

	for (unsigned from = 0; from < 2; from++) {
		make(LARGE, 2 * LARGE);
		if (!unit_pin(from, NULL))
			break;
		for (unsigned i = 0; i < LARGE; i++)
			t[i] = thing_get(&pool);
		for (unsigned i = 0; i < LARGE; i++)
			thing_put(&pool, t[i]);
		if (!unit_pin(!from, NULL))
			break;
		for (unsigned i = 0; i < LARGE; i++)
			t[i] = thing_get(&pool);
		assert_null(near_pool_get(&pool));
		for (unsigned i = 0; i < LARGE; i++)
			thing_put(&pool, t[i]);
		near_pool_destroy(&pool);
	}
	unit_unpin();
}

/* As many threads as objects, each with one at most: no get may fail, also while the pool becomes
 * scarce. thing_get stops the program if one does. */
#define THREADS 4
#define PER_THREAD 40

static void get_and_put(unsigned number)
{
	static struct thing *t[THREADS][PER_THREAD];

	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < PER_THREAD; i++)
			t[number][i] = thing_get(&pool);
		for (unsigned i = 0; i < PER_THREAD; i++)
			thing_put(&pool, t[number][i]);
	}
}

static void no_get_fails_while_an_object_is_idle(void **state)
{
	struct team team;

	for (unsigned i = 0; i < unit_scale(50); i++) {
		make(THREADS * PER_THREAD, i % 2 ? 0 : 2000);
		team_start(&team, THREADS, get_and_put);
		team_join(&team);
		near_pool_destroy(&pool);
	}
}

/* A thread of the parent has a batch in its hands: the child has neither. One of the child has one
 * for a while: the child's get waits for it. */
#define MOVED 2

static uint64_t moved[MOVED + 1];

static void move_for_long(unsigned number)
{
	usleep(20000);
	near__pool_give(pool.rest, moved, MOVED, true);
}

static void get_in_a_child(void)
{
	struct team team;

	near__pool_moves(pool.rest, 1);
	team_start(&team, 1, move_for_long);
	CHECK(near_pool_get(&pool));
	team_join(&team);
}

static void a_child_waits_for_its_own_movers(void **state)
{
	int status;
	pid_t child;

	make(MOVED, 0);
	for (unsigned i = 0; i < MOVED; i++)
		moved[i] = (uintptr_t)near_pool_get(&pool);
	near__pool_moves(pool.rest, 1);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		get_in_a_child();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	near__pool_moves(pool.rest, -1);
	for (unsigned i = 0; i < MOVED; i++)
		near_pool_put(&pool, (void *)(uintptr_t)moved[i]);
	near_pool_destroy(&pool);
}

/* An error of the constructor is none of the pool, whatever its number: the pool is not at its
 * limit, and a get does not wait. */
static void a_constructor_fails_with_any_error(void **state)
{
	static const int errors[] = {-EAGAIN, -ENOMEM, -EINTR, -1};
	void *object;

	make(2, 0);
	for (unsigned i = 0; i < LENGTH(errors); i++) {
		all.error = errors[i];
		KEEPS_ERRNO(assert_null(near_pool_get(&pool)));
		assert_int_equal(near_pool_get_until(&pool, &object, CLOCK_MONOTONIC, NULL, NULL),
				 errors[i]);
		assert_null(object);
	}
	assert_int_equal(pool_now(&pool).objects, 0);
	near_pool_destroy(&pool);
}

/* ---- waiting ---- */

static struct timespec after_ms(long ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += ms / 1000;
	t.tv_nsec += ms % 1000 * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

static int wait_get(void **object, struct near_cancel *cancel)
{
	return near_pool_get_until(&pool, object, CLOCK_MONOTONIC, NULL, cancel);
}

static void a_wait_ends(void **state)
{
	struct near_cancel cancel = NEAR_CANCEL_INIT;
	struct timespec bad = {0, -1}, soon;
	void *first, *object;

	make(1, 0);
	near_cancel_set(&cancel);
	/* What needs no wait is done in any case. */
	assert_int_equal(near_pool_get_until(&pool, &first, 1000, &bad, &cancel), 0);
	assert_int_equal(wait_get(&object, &cancel), -ECANCELED);
	assert_null(object);
	soon = after_ms(3);
	KEEPS_ERRNO(assert_int_equal(
		near_pool_get_until(&pool, &object, CLOCK_MONOTONIC, &soon, NULL), -ETIMEDOUT));
	assert_int_equal(near_pool_get_until(&pool, &object, CLOCK_MONOTONIC, &bad, NULL), -EINVAL);
	assert_int_equal(near_pool_get_until(&pool, &object, 1000, &soon, NULL), -EINVAL);
	near_pool_put(&pool, first);
	assert_int_equal(wait_get(&object, NULL), 0);
	assert_ptr_equal(object, first);
	near_pool_put(&pool, object);
	/* A wait that constructs. */
	near_pool_drain(&pool);
	all.error = -EIO;
	assert_int_equal(wait_get(&object, NULL), -EIO);
	all.error = 0;
	assert_int_equal(wait_get(&object, NULL), 0);
	near_pool_put(&pool, object);
	near_pool_destroy(&pool);
}

#define FEW 3
#define WAITS 2000

/* More threads than objects; some gets give up, some puts come from handlers. */
static void wait_and_put(unsigned number)
{
	for (unsigned i = 0; i < unit_scale(WAITS); i++) {
		struct timespec at = after_ms(0);
		bool gives_up = number == 0 && i % 2;
		void *object;
		int r = near_pool_get_until(&pool, &object, CLOCK_MONOTONIC, gives_up ? &at : NULL,
					    NULL);

		CHECK(r == (object ? 0 : -ETIMEDOUT) && (object || gives_up));
		if (object)
			thing_put(&pool, thing_took(object));
	}
}

static void waiters_get_what_is_put(void **state)
{
	struct team team;

	make(FEW, 0);
	team_start(&team, 2 * FEW, wait_and_put);
	team_join(&team);
	assert_int_equal(pool_now(&pool).idle, pool_now(&pool).objects);
	near_pool_destroy(&pool);
}

static void *given;

static void put_given(int signal)
{
	thing_put(&pool, given);
}

static void put_soon(unsigned number)
{
	usleep(2000);
	raise(SIGUSR1);
}

static void a_handler_puts_for_a_waiter(void **state)
{
	struct team team;
	void *object;

	unit_on_signal(SIGUSR1, put_given);
	for (int i = 0; i < 20; i++) {
		make(1, 0);
		given = thing_get(&pool);
		team_start(&team, 1, put_soon);
		assert_int_equal(wait_get(&object, NULL), 0);
		assert_ptr_equal(thing_took(object), given);
		team_join(&team);
		thing_put(&pool, object);
		near_pool_destroy(&pool);
	}
}

UNIT_MAIN(as_many_objects_as_the_limit, an_idle_object_of_any_slot_is_got,
	  a_child_waits_for_its_own_movers, a_constructor_fails_with_any_error,
	  no_get_fails_while_an_object_is_idle, a_wait_ends, waiters_get_what_is_put,
	  a_handler_puts_for_a_waiter)
