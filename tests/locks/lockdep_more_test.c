/* SPDX-License-Identifier: MIT */
/* The checker of lock order: its limits, forked children, what stops, settings. */
#include "lockdep_scenarios.h"

/* ---- limits ---- */

static void many_pairs(void)
{
	unsigned n = NEAR__LOCKDEP_NODES + 100;
	struct near_mutex *all = calloc(n, sizeof(*all));

	CHECK(all);
	in_order(&a, &b);
	for (unsigned i = 0; i < n; i++)
		in_order(&c, &all[i]);
	in_order(&b, &a);
	free(all);
}

static void many_held(void)
{
	struct near_mutex all[NEAR__LOCKDEP_HELD + 10];

	memset(all, 0, sizeof(all));
	for (unsigned i = 0; i < LENGTH(all); i++)
		near_mutex_lock(&all[i]);
	for (unsigned i = 0; i < LENGTH(all); i++)
		near_mutex_unlock(&all[i]);
}

static void *in_order_once(void *unused)
{
	in_order(&a, &b);
	return unused;
}

static void many_threads(void)
{
	for (unsigned i = 0; i < unit_scale(5000); i++)
		unit_join(unit_start(in_order_once, NULL));
	CHECK(near__locks.lockdep->threads_used <= 64);
	by_thread(&b, &a);
}

static struct near_mutex lost;

static void *end_with_lock(void *unused)
{
	memset(&lost, 0, sizeof(lost));
	near_mutex_lock(&lost);
	return unused;
}

/* No thread holds what they held, even if a new one has their address and their number. */
static void threads_that_end_with_locks(void)
{
	in_order(&a, &b);
	for (unsigned i = 0; i < 100; i++)
		unit_join(unit_start(end_with_lock, NULL));
	for (unsigned i = 0; i < 100; i++)
		unit_join(unit_start(in_order_once, NULL));
	memset(&lost, 0, sizeof(lost));
	in_order(&a, &lost);
}

static void no_memory(void)
{
	struct rlimit none = {0, 0}, before;

	CHECK(near__process_init());
	CHECK(getrlimit(RLIMIT_AS, &before) == 0);
	none.rlim_max = before.rlim_max;
	CHECK(setrlimit(RLIMIT_AS, &none) == 0);
	in_order(&a, &b);
	CHECK(setrlimit(RLIMIT_AS, &before) == 0);
	in_order(&b, &a);
}

static void says_once(void (*run)(void), const char *line)
{
	assert_int_equal(play(run, NULL), 0);
	assert_int_equal(count(line), 1);
	assert_int_equal(count("nearcpu: "), 1);
}

static void what_there_is_no_room_for_is_said_once(void **state)
{
	says_once(many_pairs, "too many pairs of locks");
	says_once(many_held, "a thread holds too many locks");
	if (!UNIT_SANITIZED && !unit_emulated())
		says_once(no_memory, "no memory to check with: locks are not checked");
	tells(many_threads, 1);
	tells(threads_that_end_with_locks, 0);
}

/* ---- reader-writer locks ---- */

static struct near_rwlock table, other_table;

static void *read_table_then_lock(void *unused)
{
	near_rwlock_read_lock(&table);
	near_rwlock_read_lock(&table);
	in_order(&a, &b);
	near_rwlock_read_unlock(&table);
	near_rwlock_read_unlock(&table);
	return unused;
}

static void read_in_order(void)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 100000);

	CHECK(near_rwlock_init(&table) == 0);
	for (unsigned i = 0; i < 100; i++)
		read_table_then_lock(NULL);
	unit_join(unit_start(read_table_then_lock, NULL));
	near_rwlock_write_lock(&table);
	in_order(&a, &b);
	near_rwlock_downgrade(&table);
	in_order(&a, &b);
	near_rwlock_read_unlock(&table);
	in_order(&a, &b);
	CHECK(near_rwlock_read_lock_until(&table, CLOCK_MONOTONIC, &soon, NULL) == 0);
	near_rwlock_read_unlock(&table);
	/* Tried: no order. */
	near_mutex_lock(&a);
	CHECK(near_rwlock_try_read_lock(&table));
	near_rwlock_read_unlock(&table);
	CHECK(near_rwlock_try_write_lock(&table));
	near_rwlock_write_unlock(&table);
	near_mutex_unlock(&a);
}

static void read_after_lock(void)
{
	read_in_order();
	near_mutex_lock(&b);
	near_rwlock_read_lock(&table);
	near_rwlock_read_unlock(&table);
	near_mutex_unlock(&b);
}

static void write_after_lock(void)
{
	read_in_order();
	near_mutex_lock(&b);
	near_rwlock_write_lock(&table);
	near_rwlock_write_unlock(&table);
	near_mutex_unlock(&b);
}

/* Readers of both, and a writer of each that waits: nobody goes on. */
static void read_two(void)
{
	for (unsigned i = 0; i < 2; i++) {
		near_rwlock_read_lock(i ? &table : &other_table);
		near_rwlock_read_lock(i ? &other_table : &table);
		near_rwlock_read_unlock(&table);
		near_rwlock_read_unlock(&other_table);
	}
}

static void reuse_table(void)
{
	read_in_order();
	near_rwlock_destroy(&table);
	memset(&table, 0, sizeof(table));
	near_mutex_lock(&b);
	near_rwlock_read_lock(&table);
	near_rwlock_read_unlock(&table);
	near_mutex_unlock(&b);
}

static void readers_and_writers_are_checked(void **state)
{
	tells(read_in_order, 0);
	tells(read_after_lock, 1);
	tells(write_after_lock, 1);
	tells(read_two, 1);
	tells(reuse_table, 0);
}

/* ---- forks, ends, settings ---- */

static void fork_then(void (*run)(void))
{
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0) {
		run();
		_exit(0);
	}
	CHECK(unit_wait(child, NULL) == 0);
}

static void unlock_in_child(void)
{
	CHECK(near_mutex_is_mine(&c));
	CHECK(near__owner_now() >> NEAR__OWNER_SHIFT == (uint32_t)syscall(SYS_gettid));
	near_mutex_unlock(&c);
	in_order(&b, &a);
}

static void forking(void)
{
	in_order(&a, &b);
	near_mutex_lock(&c);
	fork_then(unlock_in_child);
	near_mutex_unlock(&c);
}

static void begin_again(void)
{
	in_order(&b, &a);
	in_order(&b, &c);
	in_order(&c, &b);
}

/* As if another thread were in the middle of a change. */
static void forking_in_a_change(void)
{
	in_order(&a, &b);
	near_lock_lock(&near__locks.lockdep->lock);
	near_lock_lock(&near__locks.lockdep->report_lock);
	fork_then(begin_again);
	near_lock_unlock(&near__locks.lockdep->report_lock);
	near_lock_unlock(&near__locks.lockdep->lock);
}

static void children_are_checked(void **state)
{
	tells(forking, 1);
	tells(forking_in_a_change, 1);
}

static struct near_sem one_each;

static void *embrace(void *arg)
{
	const struct pair *p = arg;

	near_mutex_lock(p->first);
	near_sem_post(&one_each);
	while (near_sem_read(&one_each) < 2)
		sched_yield();
	near_mutex_lock(p->second);
	return NULL;
}

static void for_ever(void)
{
	struct pair there = {&a, &b}, here = {&b, &a};

	unit_start(embrace, &there);
	embrace(&here);
}

static void lock_again(void)
{
	near_mutex_lock(&a);
	near_mutex_lock(&a);
}

static void *unlock_there(void *m)
{
	near_mutex_unlock(m);
	return NULL;
}

static void unlock_by_another(void)
{
	near_mutex_lock(&a);
	unit_join(unit_start(unlock_there, &a));
}

static void stops_with(void (*run)(void), unsigned circles, const char *line)
{
	int signal = 0;

	assert_int_equal(play(run, &signal), -1);
	assert_int_equal(signal, SIGABRT);
	assert_int_equal(count(IN_A_CIRCLE), circles);
	assert_int_equal(count(line), 1);
}

static void programs_are_stopped_by_lock_check_2(void **state)
{
	conf = "lock_check:2";
	stops_with(for_ever, 1,
		   "nearcpu: lock order: stopped, because of NEAR_CONF=lock_check:2\n");
	conf = "lock_check:1";
	stops_with(lock_again, 0,
		   "nearcpu: near_mutex_lock: this thread holds the mutex already\n");
	stops_with(unlock_by_another, 0,
		   "nearcpu: near_mutex_unlock: another thread holds the mutex\n");
}

static void unchecked(void)
{
	in_order(&a, &b);
	in_order(&b, &a);
	CHECK(near__owner != NEAR__NO_OWNER && !near__lockdep_self && !near__locks.lockdep);
}

static void nothing_is_checked_by_default(void **state)
{
	static const char *const bad[] = {"lock_check:3", "lock_check",
					  "lock_check:", "lock_check:x"};

	conf = "lock_check:0";
	assert_int_equal(play(unchecked, NULL), 0);
	assert_string_equal(reported, "");
	for (unsigned i = 0; i < LENGTH(bad); i++) {
		conf = bad[i];
		assert_int_equal(play(unchecked, NULL), 0);
		assert_int_equal(count("nearcpu: NEAR_CONF: bad value '"), 1);
		assert_int_equal(count("nearcpu: "), 1);
	}
	conf = "lock_check:1";
}

UNIT_MAIN(what_there_is_no_room_for_is_said_once, readers_and_writers_are_checked,
	  children_are_checked, programs_are_stopped_by_lock_check_2, nothing_is_checked_by_default)
