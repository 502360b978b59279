/* SPDX-License-Identifier: MIT */
/* Several locks at once. They are taken in ascending order, by any object's the same. That alone would
 * not do: a handler holds what the code has taken that it interrupted, out of any order. So nobody keeps a
 * lock while it waits for another but for some pauses: it lets go of all, sleeps until that one is
 * free, and starts again. */
#include "locks.h"

/* So many rounds for a holder that runs. */
#define ROUNDS 4
#define PAUSES 16

void near__locks_of_many(struct near__locks *out, const void *object, size_t size)
{
	uintptr_t line = near__line_of(object);
	uintptr_t last = near__line_of((const char *)object + size - 1);
	uint64_t set[NEAR__ATOMIC_LOCKS / 64] = {0};

	/* The hash sends no 256 lines in a row to fewer locks than there are, but nearly. Who needs so
	 * many takes all. */
	bool all = last - line >= 2 * NEAR__ATOMIC_LOCKS;

	for (; !all && line <= last; line++) {
		unsigned i = near__atomic_hash(line);

		set[i / 64] |= (uint64_t)1 << i % 64;
	}
	out->count = 0;
	for (unsigned word = 0; word < NEAR__ATOMIC_LOCKS / 64; word++)
		for (uint64_t left = all ? ~(uint64_t)0 : set[word]; left; left &= left - 1)
			out->list[out->count++] = (uint8_t)(64 * word + __builtin_ctzll(left));
}

static bool take_soon(struct near__atomic_lock *l, unsigned long mine)
{
	unsigned long seen;

	for (int i = 0; !near__try_take(l, mine, &seen); i++) {
		if (i == ROUNDS)
			return false;
		near__pauses(PAUSES);
	}
	l->version = seen;
	return true;
}

static void let_go_of_first(const struct near__locks *locks, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);

		/* Release: pairs with the first look of readers, and the next holder's. */
		__atomic_store_n(&l->word, l->version + 2, __ATOMIC_RELEASE);
	}
	/* Between the stores and the looks, see table.h; and between this operation and all that the
	 * thread does next. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < count; i++)
		if (__atomic_load_n(&near__nth(locks, i)->waiters, __ATOMIC_SEQ_CST))
			near__atomic_wake(near__nth(locks, i));
}

void near__let_go_all(const struct near__locks *locks)
{
	if (locks->count == 1)
		near__let_go(near__nth(locks, 0), near__nth(locks, 0)->version);
	else
		let_go_of_first(locks, locks->count);
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

bool near__take_all(const struct near__locks *locks, unsigned long mine)
{
	for (unsigned i = 0; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);
		bool own = held_by(l, mine);

		if (!own && take_soon(l, mine))
			continue;
		let_go_of_first(locks, i);
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
		let_go_of_first(taken, taken->count);
		wait_for(l, mine);
		taken->count = 0;
		i = -1U;
	}
}
