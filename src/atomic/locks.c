/* SPDX-License-Identifier: MIT */
/* Operations that take several locks. They take them in ascending order. This alone does not
 * prevent deadlock, since a handler runs while the code that it interrupted holds locks of any
 * number. So an operation holds no lock while it sleeps for another one: it releases all that it
 * has taken, sleeps until that one is free, and starts again. */
#define _GNU_SOURCE
#include "atomic/locks.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/spin.h"

/* How many loads take a lock after a writer found it held. Loads of the last thread that waited, or
 * that took the lock for a load, neither take it nor count. */
#define CONTENDED_LOADS 7

/* Rounds in which a waiter pauses and then tries again. The pauses are long, as a waiter that stays
 * away leaves the cache lines to a thread that makes progress. With pauses of 1,280, 1,920 and
 * 2,560 ns (Intel Xeon, Granite Rapids class, 2 CPUs; medians of 9 runs): a list with four threads
 * 24.5, 22.7, 21.8 ns per operation (GCC's library 49 to 72); the slowest of 1,000 operations 5.1,
 * 6.7, 9.2 us (25 to 41). On an AMD EPYC with 2 CPUs, two threads that add to one object took 1.6
 * times as long with 160 ns as with 640. */
#define ROUNDS 4
#define ROUND_NS 1920

/* A fork yields the CPU this many times before it releases all that it has taken. */
#define PATIENCE 300

void near__locks_of_many(struct near__locks *out, uintptr_t line, size_t lines)
{
	uint64_t set[NEAR__ATOMIC_LOCKS / 64] = {0};

	for (size_t i = 0; i < lines; i++)
		near__bit_set(set, near__atomic_hash(line + i));
	out->count = 0;
	for (unsigned word = 0; word < NEAR__ATOMIC_LOCKS / 64; word++)
		for (uint64_t left = set[word]; left; left &= left - 1)
			out->list[out->count++] = (uint8_t)(64 * word + __builtin_ctzll(left));
}

static bool take_soon(struct near__atomic_lock *l, unsigned long mine)
{
	int rounds = 0;

	for (; !near__take_now(l, mine); rounds++) {
		if (rounds == ROUNDS)
			return false;
		near__pause_for(ROUND_NS);
	}
	if (rounds)
		near__count(&l->spun);
	return true;
}

/* *waited: the lock that the caller waited for last, or NULL. */
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

	for (; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);
		bool own = near__holds(l, mine);

		if (!own && take_soon(l, mine))
			continue;
		near__release_first(locks, i, true);
		if (own) {
			if (waited)
				near__pass_on(waited);
			return false;
		}
		wait_next(l, &waited);
		i = -1U;
	}
	if (writes)
		near__set_contended(near__nth(locks, 0), CONTENDED_LOADS);
	return true;
}

/* As take_soon, for a fork, which holds up to 255 other locks and would lose them. */
static bool take_patiently(struct near__atomic_lock *l, unsigned long mine)
{
	for (int i = 0; !near__take_now(l, mine); i++) {
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
		near__release_first(taken, taken->count, true);
		taken->count = 0;
		near__unblock_signals(b);
		wait_next(l, &waited);
		*b = near__block_signals();
		i = -1U;
	}
}
