/* SPDX-License-Identifier: MIT */
/* Many threads on one lock, in all modes, under emulators and sanitizers: short rounds of the
 * scenarios of the stress test, with more threads too; and the last user of a lock frees it. */
#include "stress.h"

#include "locks/locks_state.h"

#define ROUND_MS 100
#define PATIENCE 30

/* ---- scenarios ---- */

static void play(const struct scenario *scenario, unsigned roles)
{
	struct scenario crowd = *scenario;
	const struct scenario *one = &crowd;

	crowd.roles = roles;
	stress.patience = PATIENCE * (unit_slow() ? 8 : 1);
	stress_run(&one, 1, ROUND_MS);
}

/* On a machine with few CPUs, then on one where a fence costs as much as some unlocks. */
static void sections_of_2_to_32_threads(void **state)
{
	static const unsigned threads[] = {2, 3, 8, 32, 3, 8};

	for (size_t i = 0; i < LENGTH(threads); i++) {
		__atomic_store_n(&near__locks.unlocks_per_fence, i < 4 ? 1 : 3, __ATOMIC_RELAXED);
		play(&scenario_sections, threads[i]);
	}
}

static void tables_of_3_to_32_threads(void **state)
{
	static const unsigned threads[] = {3, 8, 32};

	for (size_t i = 0; i < LENGTH(threads); i++)
		play(&scenario_tables, threads[i]);
}

static void a_unit_for_8_threads(void **state)
{
	play(&scenario_permits, 8);
}

static void a_barrier_of_8_threads(void **state)
{
	play(&scenario_barriers, 8);
}

static void turns_by_await(void **state)
{
	play(&scenario_turns, scenario_turns.roles);
}

static void a_bounded_queue_loses_no_item(void **state)
{
	play(&scenario_queue, scenario_queue.roles);
}

static void no_signal_is_lost(void **state)
{
	play(&scenario_signals, scenario_signals.roles);
}

static void no_unpark_is_lost(void **state)
{
	play(&scenario_desks, scenario_desks.roles);
}

/* ---- freeing ---- */

#define USERS 4

struct object {
	union {
		struct near_mutex m;
		struct near_rwlock l;
	};
	int users; /* atomic */
};

static struct {
	bool (*use)(struct object *o, unsigned user, unsigned round);
	pthread_barrier_t barrier;
	struct object *object;
	unsigned rounds, user;
} freeing;

static bool is_last(struct object *o)
{
	return __atomic_sub_fetch(&o->users, 1, __ATOMIC_ACQ_REL) == 0;
}

static bool use_mutex(struct object *o, unsigned user, unsigned round)
{
	bool last;

	near_mutex_lock(&o->m);
	if (round % 2)
		sched_yield();
	last = is_last(o);
	if (round % 3)
		near_mutex_unlock(&o->m);
	else
		near_mutex_unlock_fair(&o->m);
	return last;
}

/* The last one is a writer: it was alone, and all others have released the lock. */
static bool use_rwlock(struct object *o, unsigned user, unsigned round)
{
	bool last, writes = (user + round) % 4 > 1;

	(writes ? near_rwlock_write_lock : near_rwlock_read_lock)(&o->l);
	last = is_last(o);
	(writes ? near_rwlock_write_unlock : near_rwlock_read_unlock)(&o->l);
	if (last) {
		near_rwlock_write_lock(&o->l);
		near_rwlock_write_unlock(&o->l);
	}
	return last;
}

static void *use_objects(void *unused)
{
	unsigned user = __atomic_fetch_add(&freeing.user, 1, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < freeing.rounds; i++) {
		struct object *o;

		if (pthread_barrier_wait(&freeing.barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
			o = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
			CHECK(o != MAP_FAILED);
			o->users = USERS;
			freeing.object = o;
		}
		pthread_barrier_wait(&freeing.barrier);
		o = freeing.object;
		if (freeing.use(o, user, i))
			munmap(o, 4096);
		pthread_barrier_wait(&freeing.barrier);
	}
	return unused;
}

static void the_last_user_frees_right_after_unlock(void **state)
{
	char users[USERS];

	freeing.rounds = unit_scale(3000);
	pthread_barrier_init(&freeing.barrier, NULL, USERS);
	freeing.use = use_mutex;
	unit_run(use_objects, users, 1, USERS);
	freeing.user = 0;
	freeing.use = use_rwlock;
	unit_run(use_objects, users, 1, USERS);
	pthread_barrier_destroy(&freeing.barrier);
}

UNIT_MAIN(sections_of_2_to_32_threads, tables_of_3_to_32_threads, a_unit_for_8_threads,
	  a_barrier_of_8_threads, turns_by_await, a_bounded_queue_loses_no_item, no_signal_is_lost,
	  no_unpark_is_lost, the_last_user_frees_right_after_unlock)
