/* SPDX-License-Identifier: MIT */
/* near_rwlock: misuse stops the program; a lock may be made where another one was. */
#include "rwlocks.h"

static struct near_rwlock misused;

UNIT_CALLS(unlock_free, near_rwlock_read_unlock(&misused))

static void unlock_twice(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_read_unlock(&misused);
	unlock_free(unused);
}

static void *run_unlock(void *unused)
{
	unlock_free(unused);
	return NULL;
}

static void unlock_of_another(void *unused)
{
	near_rwlock_read_lock(&misused);
	unit_join(unit_start(run_unlock, unused));
}

UNIT_CALLS(write_unlock_free, near_rwlock_write_unlock(&misused))

static void write_unlock_by_reader(void *unused)
{
	near_rwlock_read_lock(&misused);
	write_unlock_free(unused);
}

static void *run_write_unlock(void *unused)
{
	write_unlock_free(unused);
	return NULL;
}

static void write_unlock_of_another(void *unused)
{
	near_rwlock_write_lock(&misused);
	unit_join(unit_start(run_write_unlock, unused));
}

UNIT_CALLS(downgrade_free, near_rwlock_downgrade(&misused))
UNIT_CALLS(read_then_write, near_rwlock_read_lock(&misused), near_rwlock_write_lock(&misused))

static void read_then_write_until(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_write_lock_until(&misused, 0, NULL, NULL);
}

UNIT_CALLS(write_twice, near_rwlock_write_lock(&misused), near_rwlock_write_lock(&misused))
UNIT_CALLS(write_then_read, near_rwlock_write_lock(&misused), near_rwlock_read_lock(&misused))
UNIT_CALLS(destroy_read, near_rwlock_read_lock(&misused), near_rwlock_destroy(&misused))
UNIT_CALLS(destroy_written, near_rwlock_write_lock(&misused), near_rwlock_destroy(&misused))

static void read_destroyed(void *unused)
{
	near_rwlock_read_lock(&misused);
	near_rwlock_read_unlock(&misused);
	near_rwlock_destroy(&misused);
	near_rwlock_read_lock(&misused);
}

static void read_destroyed_whose_slots_are_used(void *unused)
{
	struct near_rwlock next;

	near_rwlock_read_lock(&misused);
	near_rwlock_read_unlock(&misused);
	near_rwlock_destroy(&misused);
	near_rwlock_init(&next);
	near__rwlock_count_on_slot(&next, 1);
	near_rwlock_read_lock(&misused);
}

UNIT_CALLS(write_destroyed, near_rwlock_destroy(&misused), near_rwlock_write_lock(&misused))
UNIT_CALLS(unlock_destroyed, near_rwlock_destroy(&misused), near_rwlock_read_unlock(&misused))

static const struct {
	void (*what)(void *);
	const char *line;
} misuses[] = {
	{unlock_free, "near_rwlock_read_unlock: this thread does not hold the lock for reading"},
	{unlock_twice, "near_rwlock_read_unlock: this thread does not hold the lock for reading"},
	{unlock_of_another,
	 "near_rwlock_read_unlock: this thread does not hold the lock for reading"},
	{write_unlock_free,
	 "near_rwlock_write_unlock: this thread does not hold the lock for writing"},
	{write_unlock_by_reader,
	 "near_rwlock_write_unlock: this thread does not hold the lock for writing"},
	{write_unlock_of_another,
	 "near_rwlock_write_unlock: this thread does not hold the lock for writing"},
	{downgrade_free, "near_rwlock_downgrade: this thread does not hold the lock for writing"},
	{read_then_write, "near_rwlock_write_lock: this thread holds the lock for reading"},
	{read_then_write_until, "near_rwlock_write_lock: this thread holds the lock for reading"},
	{write_twice, "near_rwlock_write_lock: this thread holds the lock already"},
	{write_then_read, "near_rwlock_read_lock: this thread holds the lock for writing"},
	{destroy_read, "near_rwlock_destroy: the lock is held, or waited for"},
	{destroy_written, "near_rwlock_destroy: the lock is held, or waited for"},
	{read_destroyed, "near_rwlock: the lock was destroyed"},
	{read_destroyed_whose_slots_are_used, "near_rwlock: the lock was destroyed"},
	{write_destroyed, "near_rwlock: the lock was destroyed"},
	{unlock_destroyed, "near_rwlock: the lock was destroyed"},
};

static void misuse_stops_with_one_line(void **state)
{
	for (unsigned zero = 0; zero < 2; zero++)
		for (size_t i = 0; i < LENGTH(misuses); i++) {
			rwlock_init(&misused, !zero);
			unit_dies(misuses[i].what, NULL, misuses[i].line);
			near_rwlock_destroy(&misused);
		}
}

/* The earlier lock is forgotten, although this thread may have a record of it. */
static void a_lock_may_be_made_where_another_one_was(void **state)
{
	struct near_rwlock l;

	for (unsigned i = 0; i < 3; i++) {
		near_rwlock_init(&l);
		near_rwlock_read_lock(&l);
		near_rwlock_read_unlock(&l);
		near_rwlock_destroy(&l);
		l = (struct near_rwlock)NEAR_RWLOCK_INIT;
		near_rwlock_read_lock(&l);
		assert_int_equal(state_of(&l), READER);
		near_rwlock_read_unlock(&l);
		assert_int_equal(state_of(&l), 0);
	}
}

UNIT_MAIN(misuse_stops_with_one_line, a_lock_may_be_made_where_another_one_was)
