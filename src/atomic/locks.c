/* SPDX-License-Identifier: MIT */
/* Several locks at once. They are taken in ascending order, by any object's the same. That alone
 * would not do: a handler holds what the code has taken that it interrupted, out of any order. So
 * nobody keeps a lock while it waits for another but for some pauses: it lets go of all, sleeps
 * until that one is free, and starts again. */
#include "locks.h"

/* So many rounds for a holder that runs. */
#define ROUNDS 4
#define PAUSES 16

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
	for (int i = 0; !near__take_at_once(l, mine); i++) {
		if (i == ROUNDS)
			return false;
		near__pauses(PAUSES);
	}
	return true;
}

static bool held_by(const struct near__atomic_lock *l, unsigned long mine)
{
	/* Relaxed: only this thread stores `mine`. */
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED) == mine;
}

static void wait_for(struct near__atomic_lock *l, unsigned long mine)
{
	near__let_go(l, near__atomic_take_slow(l, mine));
}

bool near__take_from(const struct near__locks *locks, unsigned long mine, unsigned i)
{
	for (; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);
		bool own = held_by(l, mine);

		if (!own && take_soon(l, mine))
			continue;
		near__let_go_of(locks, i);
		if (own)
			return false;
		wait_for(l, mine);
		i = -1U;
	}
	return true;
}

void near__take_others(const struct near__locks *locks, unsigned long mine,
		       struct near__locks *taken)
{
	taken->count = 0;
	for (unsigned i = 0; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);

		if (held_by(l, mine))
			continue;
		if (take_soon(l, mine)) {
			taken->list[taken->count++] = locks->list[i];
			continue;
		}
		near__let_go_all(taken);
		wait_for(l, mine);
		taken->count = 0;
		i = -1U;
	}
}
