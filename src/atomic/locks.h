/* SPDX-License-Identifier: MIT */
/* The locks of one object, each once and in ascending order: how they are found, taken and
 * released. */
#ifndef NEARCPU_ATOMIC_LOCKS_H
#define NEARCPU_ATOMIC_LOCKS_H

#include "atomic/section.h"
#include "atomic/section_signals.h"
#include "atomic/table.h"

struct near__locks {
	unsigned count;
	uint8_t list[NEAR__ATOMIC_LOCKS]; /* the first `count` are set */
};

_Static_assert(NEAR__ATOMIC_LOCKS - 1 <= UINT8_MAX, "their numbers fit");

static inline struct near__atomic_lock *near__nth(const struct near__locks *locks, unsigned i)
{
	return &near__atomic_locks.locks[locks->list[i]];
}

/* The most locks of one object. */
#define NEAR__ATOMIC_SPAN 64

void near__locks_of_many(struct near__locks *out, uintptr_t line, size_t lines);

/* The locks of as many lines as the object would have if it began a line, at most
 * NEAR__ATOMIC_SPAN: all operations on an object begin at the same byte, and find the same locks.
 * Requires that size is not 0. */
static inline void near__locks_of(struct near__locks *out, const void *object, size_t size)
{
	uintptr_t line = near__line_of(object);
	size_t lines = (size - 1) / NEAR__ATOMIC_LINE + 1;
	unsigned a = near__atomic_hash(line), b = lines > 1 ? near__atomic_hash(line + 1) : a;

	if (lines > 2) {
		near__locks_of_many(out, line,
				    lines < NEAR__ATOMIC_SPAN ? lines : NEAR__ATOMIC_SPAN);
		return;
	}
	out->list[0] = (uint8_t)(a < b ? a : b);
	out->list[1] = (uint8_t)(a < b ? b : a);
	out->count = 1 + (a != b);
}

static inline bool near__take_now(struct near__atomic_lock *l, unsigned long mine)
{
	unsigned long seen;

	if (!near__try_take(l, mine, &seen))
		return false;
	l->version = seen;
	return true;
}

/* Continues near__take_all from the i-th lock; those before are held. */
bool near__take_from(const struct near__locks *locks, unsigned long mine, bool writes, unsigned i);

/* Takes all of them. Returns false, and holds none, if this thread holds one already: then
 * near__take_missing does it. Holds none while it sleeps. writes: if a lock is held, the next loads
 * take the first lock as well, see near__locked_load. */
static inline bool near__take_all(const struct near__locks *locks, unsigned long mine, bool writes)
{
	for (unsigned i = 0; i < locks->count; i++)
		if (__builtin_expect(!near__take_now(near__nth(locks, i), mine), 0))
			return near__take_from(locks, mine, writes, i);
	return true;
}

/* Releases the first `count`. retries: there was no section; this is for statistics, as a handler
 * may have changed an object in any case, and the word always grows. */
static inline void near__release_first(const struct near__locks *locks, unsigned count,
				       bool retries)
{
	for (unsigned i = 0; i < count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);

		l->retries += retries;
		/* Release: pairs with the first load of the word by loads, and with the take of the
		 * next holder. */
		__atomic_store_n(&l->word, l->version + 2, __ATOMIC_RELEASE);
	}
	/* Orders the stores before the loads of `waiters`, unless waiters do: see table.h. */
	if (near__waiters_fence())
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	else
		near__full_fence();
	for (unsigned i = 0; i < count; i++)
		near__pass_on(near__nth(locks, i));
}

static inline void near__release_all(const struct near__locks *locks)
{
	near__release_first(locks, locks->count, false);
}

/* For signal handlers and for fork: takes the locks that this thread does not hold for interrupted
 * code. Requires that signals are blocked; they are not while the thread sleeps. patient: tries for
 * longer before it releases what it has taken. */
void near__take_missing(const struct near__locks *locks, unsigned long mine,
			struct near__blocked *b, bool patient, struct near__locks *taken);

/* Publishes the section to handlers; NULL unpublishes it. */
static inline void near__publish_one(struct near__atomic_lock *l, struct near__section *s)
{
	NEAR__BARRIER();
	*(struct near__section *volatile *)&l->section = s;
	NEAR__BARRIER();
}

static inline void near__publish(const struct near__locks *locks, struct near__section *s)
{
	for (unsigned i = 0; i < locks->count; i++)
		near__publish_one(near__nth(locks, i), s);
}

#endif
