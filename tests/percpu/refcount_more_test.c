/* SPDX-License-Identifier: MIT */
/* near_refcount among threads: the callback runs once, after the last put, and sees what was
 * done before each put; kills and revivals concurrent with gets and puts; signal handlers,
 * children, a filter. */
#include "unit.h"

#include <nearcpu/refcount.h>

#include "filter.h"
#include "percpu/internal.h"

static struct near_refcount ref;
static unsigned released;
static bool stop;

/* ---- the callback ---- */

#define THREADS 6

static struct {
	uint64_t written[THREADS]; /* plain: only the order of puts protects them */
	unsigned rounds;
} work;

static void check_all_written(struct near_refcount *r)
{
	CHECK(r == &ref);
	for (unsigned i = 0; i < THREADS; i++)
		CHECK(work.written[i] == work.rounds);
	__atomic_add_fetch(&released, 1, __ATOMIC_RELAXED);
}

struct worker {
	unsigned number;
	pthread_barrier_t *barrier;
};

static void *write_and_put(void *arg)
{
	struct worker *w = arg;

	near_refcount_get(&ref);
	pthread_barrier_wait(w->barrier);
	for (unsigned i = 0; i < work.rounds; i++) {
		near_refcount_get(&ref);
		if (w->number % 2)
			CHECK(near_refcount_try_get(&ref));
		work.written[w->number]++;
		near_refcount_put(&ref);
		if (w->number % 2)
			near_refcount_put(&ref);
	}
	near_refcount_put(&ref);
	return NULL;
}

/* Kills while threads get and put: each still holds a reference of its own. */
static void the_callback_runs_once_after_all_puts(void **state)
{
	struct worker workers[THREADS];
	pthread_t threads[THREADS];
	pthread_barrier_t barrier;
	unsigned rounds = unit_scale(100);

	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	work.rounds = 500;
	for (unsigned k = 1; k <= rounds; k++) {
		released = 0;
		memset(work.written, 0, sizeof(work.written));
		assert_int_equal(near_refcount_init(&ref, check_all_written), 0);
		for (unsigned i = 0; i < THREADS; i++) {
			workers[i] = (struct worker){i, &barrier};
			threads[i] = unit_start(write_and_put, &workers[i]);
		}
		pthread_barrier_wait(&barrier);
		if (k % 3)
			usleep(k % 200);
		near_refcount_kill(&ref);
		for (unsigned i = 0; i < THREADS; i++)
			unit_join(threads[i]);
		assert_int_equal(released, 1);
		assert_true(near_refcount_is_zero(&ref));
		near_refcount_destroy(&ref);
	}
	pthread_barrier_destroy(&barrier);
}

/* ---- kill and revive ---- */

static bool in_service; /* false from the callback on, until the revival */
static unsigned entered;

static void close_service(struct near_refcount *r)
{
	CHECK(__atomic_exchange_n(&in_service, false, __ATOMIC_SEQ_CST));
	__atomic_add_fetch(&released, 1, __ATOMIC_RELAXED);
}

static void *enter_and_leave(void *arg)
{
	uint64_t seed = *(unsigned *)arg;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		bool live = unit_random(&seed) % 2;

		if (!(live ? near_refcount_try_get_live(&ref) : near_refcount_try_get(&ref))) {
			sched_yield();
			continue;
		}
		__atomic_add_fetch(&entered, 1, __ATOMIC_RELAXED);
		for (unsigned i = unit_random(&seed) % 4; i; i--) {
			CHECK(__atomic_load_n(&in_service, __ATOMIC_SEQ_CST));
			near_refcount_get(&ref);
			near_refcount_put(&ref);
		}
		CHECK(__atomic_load_n(&in_service, __ATOMIC_SEQ_CST));
		near_refcount_put(&ref);
	}
	return NULL;
}

/* A thread that is not live. */
static void *enter_and_leave_dead(void *arg)
{
	near_slot();
	near__self.state = NEAR__DEAD;
	near__self.area = &near__dead;
	return enter_and_leave(arg);
}

static void a_thread_with_a_reference_is_served(void **state)
{
	unsigned numbers[4], rounds = unit_scale(30);
	pthread_t threads[LENGTH(numbers)];

	assert_int_equal(near_refcount_init(&ref, close_service), 0);
	in_service = true;
	stop = false;
	released = entered = 0;
	for (unsigned i = 0; i < LENGTH(numbers); i++) {
		numbers[i] = i;
		threads[i] =
			unit_start(i % 2 ? enter_and_leave : enter_and_leave_dead, &numbers[i]);
	}
	for (unsigned k = 1; k <= rounds; k++) {
		for (unsigned i = k % 8; i; i--)
			sched_yield();
		near_refcount_kill(&ref);
		while (!near_refcount_is_zero(&ref) ||
		       __atomic_load_n(&released, __ATOMIC_RELAXED) != k)
			sched_yield();
		__atomic_store_n(&in_service, true, __ATOMIC_SEQ_CST);
		near_refcount_revive(&ref);
	}
	/* It is in service now: a thread gets a reference. */
	while (!__atomic_load_n(&entered, __ATOMIC_RELAXED))
		sched_yield();
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < LENGTH(numbers); i++)
		unit_join(threads[i]);
	near_refcount_kill(&ref);
	assert_int_equal(released, rounds + 1);
	near_refcount_destroy(&ref);
}

/* The thread that revives holds a reference: the callback never runs. */
static void never(struct near_refcount *r)
{
	CHECK(false);
}

static void *get_and_put(void *unused)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		near_refcount_get(&ref);
		near_refcount_get(&ref);
		near_refcount_put(&ref);
		near_refcount_put(&ref);
	}
	return NULL;
}

static void no_reference_is_lost_between_kill_and_revive(void **state)
{
	unsigned rounds = unit_scale(100);
	pthread_t threads[3];

	assert_int_equal(near_refcount_init(&ref, never), 0);
	near_refcount_get(&ref);
	stop = false;
	for (unsigned i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(get_and_put, NULL);
	for (unsigned k = 0; k < rounds; k++) {
		near_refcount_kill(&ref);
		if (k % 4 == 0)
			sched_yield();
		near_refcount_revive(&ref);
		if (k % 4 == 1)
			sched_yield();
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
	near_refcount_kill(&ref);
	assert_int_equal(ref.exact, 1);
	ref.release = NULL;
	near_refcount_put(&ref);
	assert_true(near_refcount_is_zero(&ref));
	near_refcount_destroy(&ref);
}

/* Different counts share the lock of the gates. */
struct killer {
	struct near_refcount ref;
	unsigned rounds;
};

static void *kill_own(void *arg)
{
	struct killer *k = arg;

	CHECK(near_refcount_init(&k->ref, NULL) == 0);
	for (unsigned i = 0; i < k->rounds; i++) {
		near_refcount_get(&k->ref);
		near_refcount_kill(&k->ref);
		CHECK(!near_refcount_is_zero(&k->ref));
		near_refcount_put(&k->ref);
		CHECK(near_refcount_is_zero(&k->ref));
		near_refcount_revive(&k->ref);
	}
	near_refcount_kill(&k->ref);
	CHECK(near_refcount_is_zero(&k->ref));
	near_refcount_destroy(&k->ref);
	return NULL;
}

static void counts_are_killed_side_by_side(void **state)
{
	struct killer killers[8];

	for (unsigned i = 0; i < LENGTH(killers); i++)
		killers[i].rounds = unit_scale(60);
	unit_run(kill_own, killers, sizeof(killers[0]), LENGTH(killers));
}

/* ---- signal handlers, children, a filter ---- */

static volatile sig_atomic_t handled;

static void get_in_handler(int signal)
{
	near_refcount_get(&ref);
	if (near_refcount_try_get(&ref))
		near_refcount_put(&ref);
	near_refcount_put(&ref);
	handled++;
}

static void handlers_may_get_and_put(void **state)
{
	unsigned rounds = unit_scale(300000);

	assert_int_equal(near_refcount_init(&ref, never), 0);
	near_refcount_get(&ref);
	unit_timer(100, get_in_handler);
	for (unsigned i = 0; i < rounds; i++) {
		near_refcount_get(&ref);
		near_refcount_put(&ref);
		if (i % 3000 == 0) {
			near_refcount_kill(&ref);
			near_refcount_revive(&ref);
		}
	}
	raise(SIGALRM);
	unit_timer(0, NULL);
	assert_true(handled > 0);
	near_refcount_kill(&ref);
	assert_int_equal(ref.exact, 1);
	near_refcount_destroy(&ref);
}

static void kill_in_child(void *unused)
{
	near_refcount_get(&ref);
	near_refcount_kill(&ref);
	near_refcount_put(&ref);
	CHECK(!near_refcount_is_zero(&ref));
	near_refcount_put(&ref);
	CHECK(near_refcount_is_zero(&ref));
	near_refcount_revive(&ref);
	CHECK(near_refcount_try_get_live(&ref));
}

static void *kill_until_stop(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		kill_own(arg);
	return NULL;
}

static void a_child_has_its_own_count(void **state)
{
	struct killer killers[3];
	pthread_t threads[LENGTH(killers)];
	unsigned rounds = unit_scale(60);
	bool busy = !UNIT_THREAD_SANITIZER; /* it does not like children of many threads */

	assert_int_equal(near_refcount_init(&ref, NULL), 0);
	near_refcount_get(&ref);
	stop = false;
	for (unsigned i = 0; busy && i < LENGTH(killers); i++) {
		killers[i].rounds = 10;
		threads[i] = unit_start(kill_until_stop, &killers[i]);
	}
	for (unsigned i = 0; i < rounds; i++)
		unit_in_child(kill_in_child, NULL);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; busy && i < LENGTH(killers); i++)
		unit_join(threads[i]);
	near_refcount_kill(&ref);
	assert_false(near_refcount_is_zero(&ref));
	near_refcount_put(&ref);
	assert_true(near_refcount_is_zero(&ref));
	near_refcount_destroy(&ref);
}

static void kill_without_membarrier(void *unused)
{
	filter_out(NEAR__SYS_MEMBARRIER, ENOSYS);
	near_refcount_kill(&ref);
}

/* What the sequences rest on was taken away: better to stop than to count wrongly. */
static void a_late_filter_stops_the_program(void **state)
{
	if (unit_emulated() || !near__process.usable)
		skip();
	assert_int_equal(near_refcount_init(&ref, NULL), 0);
	unit_dies(kill_without_membarrier, NULL,
		  "membarrier stopped working (a filter installed after start?); "
		  "start the program with NEAR_CONF=rseq:off");
	near_refcount_destroy(&ref);
}

UNIT_MAIN(the_callback_runs_once_after_all_puts, a_thread_with_a_reference_is_served,
	  no_reference_is_lost_between_kill_and_revive, counts_are_killed_side_by_side,
	  handlers_may_get_and_put, a_child_has_its_own_count, a_late_filter_stops_the_program)
