/* SPDX-License-Identifier: MIT */
/* What the tests of near_rwlock share: what stands in the word, and what other threads find. */
#ifndef NEARCPU_TESTS_RWLOCKS_H
#define NEARCPU_TESTS_RWLOCKS_H

#include "waits.h"

#include <nearcpu/rwlock.h>

#include "rwlock.h"

static inline uint64_t word_of(const struct near_rwlock *l)
{
	return __atomic_load_n(&l->word, __ATOMIC_ACQUIRE);
}

/* Without the reads in peace. */
static inline uint64_t state_of(const struct near_rwlock *l)
{
	return word_of(l) & ~(PEACE_MAX * PEACE);
}

static inline bool has_readers(const struct near_rwlock *l)
{
	return readers_of(state_of(l)) + near__rwlock_sum(l, false) != 0;
}

static inline bool has_slots(void)
{
	near_slots();
	return near__process.usable;
}

/* The one of zeros, or one with slots. */
static inline void rwlock_init(struct near_rwlock *l, bool with_slots)
{
	*l = (struct near_rwlock)NEAR_RWLOCK_INIT;
	if (with_slots)
		assert_int_equal(near_rwlock_init(l), 0);
}

static inline unsigned sleepers_of(const struct near_rwlock *l)
{
	return waits_on(l, NEAR__SPACE_RWLOCK);
}

static inline void wait_for_sleepers(const struct near_rwlock *l, unsigned n)
{
	wait_for_waits(l, NEAR__SPACE_RWLOCK, n);
}

static inline void wait_for_writers(const struct near_rwlock *l, unsigned n)
{
	wait_for_waits(&l->writers, NEAR__SPACE_MUTEX, n);
}

/* Other threads, whose results say what they found. */
static inline void *try_to_read(void *l)
{
	bool got = near_rwlock_try_read_lock(l);

	if (got)
		near_rwlock_read_unlock(l);
	return got ? l : NULL;
}

static inline void *try_to_write(void *l)
{
	bool got = near_rwlock_try_write_lock(l);

	CHECK(near_rwlock_is_mine(l) == got);
	if (got)
		near_rwlock_write_unlock(l);
	return got ? l : NULL;
}

static inline bool another_can(void *(*what)(void *), struct near_rwlock *l)
{
	void *result;

	assert_int_equal(pthread_join(unit_start(what, l), &result), 0);
	return result != NULL;
}

#endif
