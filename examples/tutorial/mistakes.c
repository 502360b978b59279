/* SPDX-License-Identifier: MIT */
/* usage: mistakes count|slot|value
 * Step 3 of the tutorial: three wrong forms of slow_append, and what near_torture reports of them;
 * nearcpu check reads them in the binary. With -DTWO_COMMITS it does not assemble. */
#include "slow_torture.h"

#include <string.h>

/* [count] */
/* Wrong: counts first, and loads that count again. An abort after it leaves a hole. */
__attribute__((noinline)) static int count_first(struct slow_log *log, uint64_t id)
{
	uint64_t at, n, entry;

	return NEAR_SEQ(
		NEAR_SLOT(at, log)
		NEAR_LOAD8(n, at, 0)
		NEAR_ADD_CONST(n, 1)
		NEAR_STORE8(n, at, 0)
		NEAR_LOAD8(entry, at, 0)
		NEAR_SHIFT_LEFT(entry, 3)
		NEAR_ADD(entry, at)
		NEAR_COMMIT8(id, entry, 0),
		NEAR_OUT(at, n, entry), NEAR_IN(NEAR_OBJECT(log), id));
}
/* [/count] */

/* [slot] */
/* Wrong: the copy of the slot that the thread had before the sequence. */
__attribute__((noinline)) static int slot_before(struct slow_log *log, uint64_t id)
{
	uint64_t unused, n, entry;
	struct slow_log *copy;

	if (!near_slot_open(log))
		return NEAR_SEQ_FAILED;
	copy = (struct slow_log *)near_percpu_at(log, near_slot());
	return NEAR_SEQ(
		NEAR_INDEX(unused) /* so that it assembles */
		NEAR_LOAD8(n, copy, 0)
		NEAR_MOVE(entry, n)
		NEAR_SHIFT_LEFT(entry, 3)
		NEAR_ADD(entry, copy)
		NEAR_STORE8(id, entry, 8)
		NEAR_ADD_CONST(n, 1)
		NEAR_COMMIT8_RELEASE(n, copy),
		NEAR_OUT(unused, n, entry), NEAR_IN(copy, id));
}
/* [/slot] */

/* [value] */
/* Wrong: the number that the slot had before the sequence. */
__attribute__((noinline)) static int value_before(struct slow_log *log, uint64_t id)
{
	struct slow_log *copy = (struct slow_log *)near_percpu_at(log, near_slot());
	uint64_t n = __atomic_load_n(&copy->n, __ATOMIC_RELAXED), at, entry;
	uint64_t offset = n * 8, next = n + 1;

	return NEAR_SEQ(
		NEAR_SLOT(at, log)
		NEAR_MOVE(entry, offset)
		NEAR_ADD(entry, at)
		NEAR_STORE8(id, entry, 8)
		NEAR_COMMIT8_RELEASE(next, at),
		NEAR_OUT(at, entry), NEAR_IN(NEAR_OBJECT(log), id, offset, next));
}
/* [/value] */

#ifdef TWO_COMMITS
int two_commits(struct slow_log *log, uint64_t id);
int two_commits(struct slow_log *log, uint64_t id)
{
	uint64_t at, n;

	return NEAR_SEQ(
		NEAR_SLOT(at, log)
		NEAR_LOAD8(n, at, 0)
		NEAR_ADD_CONST(n, 1)
		NEAR_COMMIT8(n, at, 0)
		NEAR_COMMIT8(id, at, 8),
		NEAR_OUT(at, n), NEAR_IN(NEAR_OBJECT(log), id));
}
#endif

static int (*wrong)(struct slow_log *log, uint64_t id);

static bool append(struct slow_log *log, uint64_t id)
{
	for (int i = 0; i < NEAR_SEQ_TRIES; i++) {
		if (wrong(log, id) == NEAR_SEQ_COMMITTED)
			return true;
		if (!near_slot_open(log))
			break;
	}
	return slow_append_shared((struct slow_log *)near_percpu_fallback(log), id);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	wrong = strcmp(name, "count") == 0  ? count_first
		: strcmp(name, "slot") == 0 ? slot_before
					    : value_before;
	return slow_torture(append);
}
