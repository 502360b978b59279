/* SPDX-License-Identifier: MIT */
/* The locks of one object: each once, in ascending order. */
#ifndef NEARCPU_ATOMIC_LOCKS_H
#define NEARCPU_ATOMIC_LOCKS_H

#include "section.h"
#include "signals.h"
#include "table.h"

struct near__locks {
	unsigned count;
	uint8_t list[NEAR__ATOMIC_LOCKS]; /* the first `count` are set */
};

_Static_assert(NEAR__ATOMIC_LOCKS - 1 <= UINT8_MAX, "their numbers fit");

static inline struct near__atomic_lock *near__nth(const struct near__locks *locks, unsigned i)
{
	return &near__atomic_table.locks[locks->list[i]];
}

/* No object has more locks than that of its lines. */
#define NEAR__ATOMIC_SPAN 64

void near__locks_of_many(struct near__locks *out, uintptr_t line, size_t lines);

/* size: not 0. As many as the object would have lines if it began with one, and not more than
 * NEAR__ATOMIC_SPAN: all who use it begin at the same byte, and find the same. */
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

static inline bool near__take_at_once(struct near__atomic_lock *l, unsigned long mine)
{
	unsigned long seen;

	if (!near__try_take(l, mine, &seen))
		return false;
	l->version = seen;
	return true;
}

/* From the i-th on; those before are held. */
bool near__take_from(const struct near__locks *locks, unsigned long mine, bool writes, unsigned i);

/* Takes all of them, or none: then near__take_missing must. Keeps none while it sleeps. writes:
 * if it meets somebody, loads shall take the lock for a while, see near__locked_load. */
static inline bool near__take_all(const struct near__locks *locks, unsigned long mine, bool writes)
{
	for (unsigned i = 0; i < locks->count; i++)
		if (__builtin_expect(!near__take_at_once(near__nth(locks, i), mine), 0))
			return near__take_from(locks, mine, writes, i);
	return true;
}

/* Whether it was for a section: for people. A handler may have changed something in any case, so
 * the word always grows. */
enum near__purpose { NEAR__DROPPED, NEAR__DONE };

/* Lets go of the first `count`. */
static inline void near__let_go_of(const struct near__locks *locks, unsigned count,
				   enum near__purpose purpose)
{
	for (unsigned i = 0; i < count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);

		l->dropped += purpose == NEAR__DROPPED;
		/* Release: pairs with the first look of readers, and the next holder's. */
		__atomic_store_n(&l->word, l->version + 2, __ATOMIC_RELEASE);
	}
	/* Between the stores and the looks, see table.h; and between this operation and all that
	 * the thread does next. */
	near__full_fence();
	for (unsigned i = 0; i < count; i++)
		near__pass_on(near__nth(locks, i));
}

static inline void near__let_go_all(const struct near__locks *locks)
{
	near__let_go_of(locks, locks->count, NEAR__DONE);
}

/* For signal handlers and for fork: takes those that this thread does not hold already, for code
 * that the handler interrupted. Requires that signals are blocked; while the thread waits they are
 * not. patient: keeps those that it has for longer while it waits for the next one. */
void near__take_missing(const struct near__locks *locks, unsigned long mine,
			struct near__blocked *b, bool patient, struct near__locks *taken);

/* Shows the section to handlers, or no longer. */
static inline void near__show_one(struct near__atomic_lock *l, struct near__section *s)
{
	NEAR__BARRIER();
	*(struct near__section *volatile *)&l->section = s;
	NEAR__BARRIER();
}

static inline void near__show(const struct near__locks *locks, struct near__section *s)
{
	for (unsigned i = 0; i < locks->count; i++)
		near__show_one(near__nth(locks, i), s);
}

#endif
