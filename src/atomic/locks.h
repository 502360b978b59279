/* SPDX-License-Identifier: MIT */
/* The locks of one object: each once, in ascending order. */
#ifndef NEARCPU_ATOMIC_LOCKS_H
#define NEARCPU_ATOMIC_LOCKS_H

#include "section.h"
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

void near__locks_of_many(struct near__locks *out, const void *object, size_t size);

/* size: not 0. */
static inline void near__locks_of(struct near__locks *out, const void *object, size_t size)
{
	uintptr_t first = near__line_of(object);
	uintptr_t last = near__line_of((const char *)object + size - 1);
	unsigned a = near__atomic_hash(first), b = near__atomic_hash(last);

	if (last - first > 1) {
		near__locks_of_many(out, object, size);
		return;
	}
	out->list[0] = (uint8_t)(a < b ? a : b);
	out->list[1] = (uint8_t)(a < b ? b : a);
	out->count = 1 + (a != b);
}

/* Takes all of them, or none: false if this thread holds one already. Keeps none while it sleeps. */
bool near__take_all(const struct near__locks *locks, unsigned long mine);

/* The same, but those that this thread holds already are left alone. taken: those that were not. */
void near__take_others(const struct near__locks *locks, unsigned long mine,
		       struct near__locks *taken);

void near__let_go_all(const struct near__locks *locks);

/* Shows the section to handlers, or no longer. */
static inline void near__show(const struct near__locks *locks, struct near__section *s)
{
	NEAR__BARRIER();
	for (unsigned i = 0; i < locks->count; i++)
		*(struct near__section *volatile *)&near__nth(locks, i)->section = s;
	NEAR__BARRIER();
}

#endif
