/* SPDX-License-Identifier: MIT */
/* Step 3 of the tutorial: a log of the requests that were slow, one copy per slot. It keeps the
 * first ids of each slot; appending takes no lock and no atomic instruction. */
#ifndef SLOW_H
#define SLOW_H

#include <nearcpu/percpu.h>

/* [log] */
#define SLOW_MAX 30

struct slow_log {
	uint64_t n; /* entries that are valid */
	uint64_t ids[SLOW_MAX];
};
/* [/log] */

/* [append] */
enum { SLOW_FULL = 2 }; /* a label of the sequence */

/* if (at->n < max) at->ids[at->n] = id; at->n + 1 commits. No thread reads an entry beyond n, so
 * storing there is harmless to repeat. Release: pairs with the acquire of the reader. */
static inline int slow_try_append(struct slow_log *log, uint64_t id)
{
	uint64_t at, n, entry;

	return NEAR_SEQ(
		NEAR_SLOT(at, log)
		NEAR_LOAD8(n, at, 0)
		NEAR_BRANCH_NOT_BELOW(n, max, SLOW_FULL)
		NEAR_MOVE(entry, n)
		NEAR_SHIFT_LEFT(entry, 3)
		NEAR_ADD(entry, at)
		NEAR_STORE8(id, entry, 8)
		NEAR_ADD_CONST(n, 1)
		NEAR_COMMIT8_RELEASE(n, at),
		NEAR_OUT(at, n, entry), NEAR_IN(NEAR_OBJECT(log), id, (max, SLOW_MAX)), SLOW_FULL);
}
/* [/append] */

/* [fallback] */
/* On a copy that no sequence writes. Its threads may be between the two steps: an id of 0 is not
 * there yet. */
static inline bool slow_append_shared(struct slow_log *copy, uint64_t id)
{
	uint64_t i = __atomic_fetch_add(&copy->n, 1, __ATOMIC_RELAXED);

	if (i < SLOW_MAX)
		__atomic_store_n(&copy->ids[i], id, __ATOMIC_RELAXED);
	return i < SLOW_MAX;
}

/* Appends an id, which is not 0. Returns false if the log is full here. */
static inline bool slow_append(struct slow_log *log, uint64_t id)
{
	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		int result = slow_try_append(log, id);

		if (result != NEAR_SEQ_FAILED)
			return result == NEAR_SEQ_COMMITTED;
		if (!near_slot_open(log))
			break;
	}
	return slow_append_shared((struct slow_log *)near_percpu_fallback(log), id);
}
/* [/fallback] */

/* [read] */
/* Calls visit for the ids of all copies, while others append. */
static inline void slow_read(const struct slow_log *log, void (*visit)(uint64_t id, void *arg),
			     void *arg)
{
	for (unsigned s = 0; near_percpu_next(log, &s); s++) {
		const struct slow_log *copy = (const struct slow_log *)near_percpu_at(log, s);
		uint64_t n = __atomic_load_n(&copy->n, __ATOMIC_ACQUIRE);

		for (uint64_t i = 0; i < n && i < SLOW_MAX; i++) {
			uint64_t id = __atomic_load_n(&copy->ids[i], __ATOMIC_RELAXED);

			if (id)
				visit(id, arg);
		}
	}
}
/* [/read] */

#endif
