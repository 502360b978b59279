/* SPDX-License-Identifier: MIT */
/* What the tests of near_rwlock share: the contents of the word, and what other threads find. */
#ifndef NEARCPU_TESTS_RWLOCKS_H
#define NEARCPU_TESTS_RWLOCKS_H

#include "waiters.h"

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
		assert_int_equal(near_rwlock_init(l, NULL), 0);
}

/* The same with a policy. */
static inline void rwlock_init_with(struct near_rwlock *l, bool with_slots,
				    enum near_rwlock_policy policy)
{
	const struct near_rwlock_options o = {.policy = policy};

	if (policy == NEAR_RWLOCK_WRITERS_FIRST)
		*l = (struct near_rwlock)NEAR_RWLOCK_INIT_WRITERS_FIRST;
	else
		*l = (struct near_rwlock)NEAR_RWLOCK_INIT;
	if (with_slots)
		assert_int_equal(near_rwlock_init(l, &o), 0);
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

static inline int next_rwlock(struct near_rwlock *l, int kind)
{
	near_rwlock_destroy(l);
	if (kind < 2)
		rwlock_init(l, kind);
	return kind;
}

/* The statement that follows runs with the lock made of zeros, then with one with slots. */
#define EACH_RWLOCK(l)                                                                             \
	for (int kind = (rwlock_init(l, false), 0); kind < 2; kind = next_rwlock(l, kind + 1))

/* ---- threads that lock for a while ---- */

static inline void start(struct waiter *w, struct near_rwlock *l, bool writes)
{
	w->on = l;
	w->kind = writes ? &wait_writer : &wait_reader;
	w->thread = unit_start(run_waiter, w);
}

static inline void start_asleep(struct waiter *w, struct near_rwlock *l, bool writes)
{
	unsigned before = sleepers_of(l);

	start(w, l, writes);
	wait_for_sleepers(l, before + 1);
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
