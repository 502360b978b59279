/* SPDX-License-Identifier: MIT */
/* Several locks at once. They are taken in ascending order, by any object's the same. That alone
 * would not do: a handler holds what the code has taken that it interrupted, out of any order. So
 * nobody keeps a lock while it waits for another but for some pauses: it lets go of all, sleeps
 * until that one is free, and starts again. */
#define _GNU_SOURCE
#include "locks.h"

#include <sys/syscall.h>
#include <unistd.h>

/* After a writer met another so many loads take the lock. */
#define CROWD 64

/* So many rounds for a holder that runs. Few looks and long pauses: whoever is away for a while
 * leaves the cache lines to one who makes progress. With 16 pauses instead of 64, two threads that
 * add to one object took 1.6 times as long. */
#define ROUNDS 4
#define PAUSES 64

/* A fork yields the CPU this many times before it releases all that it has taken. */
#define PATIENCE 300

void near__locks_of_many(struct near__locks *out, uintptr_t line, size_t lines)
{
	uint64_t set[NEAR__ATOMIC_LOCKS / 64] = {0};

	for (size_t i = 0; i < lines; i++) {
		unsigned lock = near__atomic_hash(line + i);

		set[lock / 64] |= (uint64_t)1 << lock % 64;
	}
	out->count = 0;
	for (unsigned word = 0; word < NEAR__ATOMIC_LOCKS / 64; word++)
		for (uint64_t left = set[word]; left; left &= left - 1)
			out->list[out->count++] = (uint8_t)(64 * word + __builtin_ctzll(left));
}

static bool take_soon(struct near__atomic_lock *l, unsigned long mine)
{
	int rounds = 0;

	for (; !near__take_at_once(l, mine); rounds++) {
		if (rounds == ROUNDS)
			return false;
		near__pauses(PAUSES);
	}
	if (rounds)
		near__count(&l->spun);
	return true;
}

/* *waited: the lock that was waited for last. */
static void wait_next(struct near__atomic_lock *l, struct near__atomic_lock **waited)
{
	if (*waited && *waited != l)
		near__pass_on(*waited);
	*waited = l;
	near__atomic_wait(l);
}

bool near__take_from(const struct near__locks *locks, unsigned long mine, bool writes, unsigned i)
{
	struct near__atomic_lock *waited = NULL;

	if (writes)
		__atomic_store_n(&near__nth(locks, 0)->crowded, CROWD, __ATOMIC_RELAXED);
	for (; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);
		bool own = near__holds(l, mine);

		if (!own && take_soon(l, mine))
			continue;
		near__let_go_of(locks, i, NEAR__DROPPED);
		if (own) {
			if (waited)
				near__pass_on(waited);
			return false;
		}
		wait_next(l, &waited);
		i = -1U;
	}
	return true;
}

/* As take_soon, for a fork, which has up to 255 others and would lose them. Bounded as well. */
static bool take_patiently(struct near__atomic_lock *l, unsigned long mine)
{
	for (int i = 0; !near__take_at_once(l, mine); i++) {
		if (i == PATIENCE)
			return false;
		syscall(SYS_sched_yield);
	}
	return true;
}

void near__take_missing(const struct near__locks *locks, unsigned long mine,
			struct near__blocked *b, bool patient, struct near__locks *taken)
{
	struct near__atomic_lock *waited = NULL;

	taken->count = 0;
	for (unsigned i = 0; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);

		if (near__holds(l, mine))
			continue;
		if (patient ? take_patiently(l, mine) : take_soon(l, mine)) {
			taken->list[taken->count++] = locks->list[i];
			continue;
		}
		near__let_go_of(taken, taken->count, NEAR__DROPPED);
		taken->count = 0;
		near__unblock_signals(b);
		wait_next(l, &waited);
		*b = near__block_signals();
		i = -1U;
	}
}
