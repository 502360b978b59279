/* SPDX-License-Identifier: MIT */
/* near_rwlock: misuse stops the program; a lock may be made where another one was. */
#include "rwlocks.h"

static struct near_rwlock l;

static void *read_unlock(void *unused)
{
	near_rwlock_read_unlock(&l);
	return unused;
}

static void *write_unlock(void *unused)
{
	near_rwlock_write_unlock(&l);
	return unused;
}

static void read_it(void)
{
	near_rwlock_read_lock(&l);
	near_rwlock_read_unlock(&l);
}

static void an_unlock_of_what_is_not_held_stops(void **state)
{
	static const char not_reading[] =
		"near_rwlock_read_unlock: this thread does not hold the lock for reading";
	static const char not_writing[] =
		"near_rwlock_write_unlock: this thread does not hold the lock for writing";

	EACH_RWLOCK(&l) {
		DIES(not_reading)
			near_rwlock_read_unlock(&l);
		DIES(not_reading) {
			read_it();
			near_rwlock_read_unlock(&l);
		}
		DIES(not_reading) {
			near_rwlock_read_lock(&l);
			unit_join(unit_start(read_unlock, NULL));
		}
		DIES(not_writing)
			near_rwlock_write_unlock(&l);
		DIES(not_writing) {
			near_rwlock_read_lock(&l);
			near_rwlock_write_unlock(&l);
		}
		DIES(not_writing) {
			near_rwlock_write_lock(&l);
			unit_join(unit_start(write_unlock, NULL));
		}
		DIES("near_rwlock_downgrade: this thread does not hold the lock for writing")
			near_rwlock_downgrade(&l);
	}
}

static void a_lock_of_what_is_held_stops(void **state)
{
	EACH_RWLOCK(&l) {
		DIES("near_rwlock_write_lock: this thread holds the lock for reading") {
			near_rwlock_read_lock(&l);
			near_rwlock_write_lock(&l);
		}
		DIES("near_rwlock_write_lock: this thread holds the lock for reading") {
			near_rwlock_read_lock(&l);
			near_rwlock_write_lock_until(&l, 0, NULL, NULL);
		}
		DIES("near_rwlock_write_lock: this thread holds the lock already") {
			near_rwlock_write_lock(&l);
			near_rwlock_write_lock(&l);
		}
		DIES("near_rwlock_read_lock: this thread holds the lock for writing") {
			near_rwlock_write_lock(&l);
			near_rwlock_read_lock(&l);
		}
		DIES("near_rwlock_destroy: the lock is held, or waited for") {
			near_rwlock_read_lock(&l);
			near_rwlock_destroy(&l);
		}
		DIES("near_rwlock_destroy: the lock is held, or waited for") {
			near_rwlock_write_lock(&l);
			near_rwlock_destroy(&l);
		}
	}
}

static void what_is_destroyed_stops_the_program(void **state)
{
	static const char line[] = "near_rwlock: the lock was destroyed";
	struct near_rwlock next;

	EACH_RWLOCK(&l) {
		DIES(line) {
			read_it();
			near_rwlock_destroy(&l);
			near_rwlock_read_lock(&l);
		}
		/* Its slots are those of another lock. */
		DIES(line) {
			read_it();
			near_rwlock_destroy(&l);
			near_rwlock_init(&next, NULL);
			near__rwlock_count_on_slot(&next, 1);
			near_rwlock_read_lock(&l);
		}
		DIES(line) {
			near_rwlock_destroy(&l);
			near_rwlock_write_lock(&l);
		}
		DIES(line) {
			near_rwlock_destroy(&l);
			near_rwlock_read_unlock(&l);
		}
	}
}

/* The earlier lock is forgotten, although this thread may have a record of it. */
static void a_lock_may_be_made_where_another_one_was(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		near_rwlock_init(&l, NULL);
		read_it();
		near_rwlock_destroy(&l);
		l = (struct near_rwlock)NEAR_RWLOCK_INIT;
		near_rwlock_read_lock(&l);
		assert_int_equal(state_of(&l), READER);
		near_rwlock_read_unlock(&l);
		assert_int_equal(state_of(&l), 0);
	}
}

UNIT_MAIN(an_unlock_of_what_is_not_held_stops, a_lock_of_what_is_held_stops,
	  what_is_destroyed_stops_the_program, a_lock_may_be_made_where_another_one_was)
