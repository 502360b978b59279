/* SPDX-License-Identifier: MIT */
/* What the tests of near_rwlock share: the contents of the word, and what other threads find. */
#ifndef NEARCPU_TESTS_RWLOCKS_H
#define NEARCPU_TESTS_RWLOCKS_H

#include "waits.h"

#include <nearcpu/rwlock.h>

#include "locks/rwlock.h"

static inline uint64_t word_of(const struct near_rwlock *l)
{
	return __atomic_load_n(&l->word, __ATOMIC_ACQUIRE);
}

/* Without the reads in peace. */
static inline uint64_t state_of(const struct near_rwlock *l)
{
	return word_of(l) & ~(WORD_READS_MAX * WORD_READ);
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

/* The same with a policy. */
static inline void rwlock_init_with(struct near_rwlock *l, bool with_slots,
				    enum near_rwlock_policy policy)
{
	if (policy == NEAR_RWLOCK_WRITERS_FIRST)
		*l = (struct near_rwlock)NEAR_RWLOCK_INIT_WRITERS_FIRST;
	else
		*l = (struct near_rwlock)NEAR_RWLOCK_INIT;
	if (with_slots)
		assert_int_equal(near_rwlock_init_with(l, policy), 0);
	assert_int_equal(l->policy, policy);
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

/* A thread that locks, gives up at its deadline or token, and unlocks. */
struct reader {
	struct near_rwlock *l;
	const struct timespec *deadline;
	struct near_cancel *cancel;
	clockid_t clock;
	bool writes;
	unsigned *order, turn, *release;
	int result;
	pthread_t thread;
};

static inline void *lock_for_a_while(void *arg)
{
	struct reader *r = arg;

	errno = UNIT_ERRNO;
	r->result = (r->writes ? near_rwlock_write_lock_until : near_rwlock_read_lock_until)(
		r->l, r->clock, r->deadline, r->cancel);
	if (r->result == 0) {
		if (r->order)
			r->turn = __atomic_add_fetch(r->order, 1, __ATOMIC_SEQ_CST);
		while (r->release && !__atomic_load_n(r->release, __ATOMIC_ACQUIRE))
			usleep(100);
		if (r->writes)
			near_rwlock_write_unlock(r->l);
		else
			near_rwlock_read_unlock(r->l);
	}
	CHECK(errno == UNIT_ERRNO);
	return NULL;
}

static inline void start(struct reader *r, struct near_rwlock *l, bool writes)
{
	r->l = l;
	r->writes = writes;
	r->thread = unit_start(lock_for_a_while, r);
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
