/* SPDX-License-Identifier: MIT */
/* The mutants: sequences with one fault each. */
#include "mutants.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <nearcpu/percpu.h>

#include "percpu/percpu.h"

/* The offsets in the sequences below. */
_Static_assert(offsetof(struct mutant_copy, total) == 8, "mutants");
_Static_assert(offsetof(struct mutant_copy, gate) == 16, "mutants");

/* They are not inlined, to be found by name. All have the same C side except for the fault. */
/* clang-format off */
#define MUTANT(name, operations, area)                                                             \
	__attribute__((noinline)) static bool name(struct mutant_copy *p)                          \
	{                                                                                          \
		uint64_t at, v;                                                                    \
                                                                                                   \
		return NEAR__SEQ(([near_area] "r"(area),                                           \
				  [near_index_mode] "r"((uint64_t)near__self.index_mode)),         \
				 operations, NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p)));            \
	}

#define OPEN_SLOT NEAR_SLOT(at, p) NEAR_BRANCH_MEM4_NE(at, 16, 1, near_failed)
#define COUNT_UP NEAR_LOAD8(v, at, 0) NEAR_ADD_CONST(v, 1)

/* For an operation after the end, which the assembler would refuse. */
#define UNNOTICED(op) ".set .Lnear_indexed, 1\n\t" op ".set .Lnear_indexed, 2\n\t"

MUTANT(sound,
	OPEN_SLOT
	COUNT_UP
	NEAR_COMMIT8(v, at, 0),
	near__self.area)

MUTANT(two_stores,
	OPEN_SLOT
	COUNT_UP
	NEAR_STORE8(v, at, 0)
	NEAR_LOAD8(v, at, 8)
	NEAR_ADD_CONST(v, 1)
	NEAR_COMMIT8(v, at, 8),
	near__self.area)

MUTANT(commit_not_last,
	OPEN_SLOT
	COUNT_UP
	NEAR_STORE8(v, at, 0)
	NEAR_MOVE(v, at)
	NEAR__SEQ_END,
	near__self.area)

MUTANT(commit_outside,
	OPEN_SLOT
	COUNT_UP
	NEAR__SEQ_END
	UNNOTICED(NEAR_STORE8(v, at, 0)),
	near__self.area)

MUTANT(no_state_check,
	NEAR_SLOT(at, p)
	COUNT_UP
	NEAR_COMMIT8(v, at, 0),
	near__self.area)

/* Indexed by cpu_id_start, which becomes 0, not negative, when the area is unregistered. */
MUTANT(unregistered,
	NEAR__MARK_INDEX
	NEAR_LOAD4(at, near_area, 0)
	NEAR_SHIFT_LEFT(at, 20)
	NEAR__BRANCH_MEM4X_NE(p_arena, at, 1, near_failed)
	NEAR_ADD(at, p)
	COUNT_UP
	NEAR_COMMIT8(v, at, 0),
	near__self.area)

MUTANT(early_store,
	OPEN_SLOT
	COUNT_UP
	NEAR_STORE8(v, at, 8)
	NEAR_COMMIT8(v, at, 0),
	near__self.area)

/* It writes to a copy of the area, which the kernel does not read. */
static struct near__area not_the_kernels;
MUTANT(unarmed,
	OPEN_SLOT
	COUNT_UP
	NEAR_COMMIT8(v, at, 0),
	&not_the_kernels)

/* What the library would do if it believed the kernel's area alone. */
static struct near__area *kernels_area;
MUTANT(no_live_check,
	OPEN_SLOT
	COUNT_UP
	NEAR_COMMIT8(v, at, 0),
	kernels_area)
/* clang-format on */

/* Here `p` is the copy of the slot that the thread had when it started. */
__attribute__((noinline)) static bool index_outside(struct mutant_copy *p)
{
	uint64_t v;

	return NEAR_SEQ(
		NEAR__MARK_INDEX
		NEAR_LOAD8(v, p, 0)
		NEAR_ADD_CONST(v, 1)
		NEAR_COMMIT8(v, p, 0),
		NEAR_OUT(v), NEAR_IN(p));
}

/* The copy of the slot that the thread had before, and what was in it. */
#define MUTANT_BEFORE(name, ops)                                                                   \
	__attribute__((noinline)) static bool name(struct mutant_copy *p)                          \
	{                                                                                          \
		struct mutant_copy *mine = near_percpu_at(p, near_slot());                         \
		uint64_t at, v;                                                                    \
		uint64_t next = __atomic_load_n(&mine->count, __ATOMIC_RELAXED) + 1;               \
                                                                                                   \
		return NEAR_SEQ(ops, NEAR_OUT(at, v), NEAR_IN(NEAR_OBJECT(p), mine, next));        \
	}

/* clang-format off */
MUTANT_BEFORE(value_outside,
	OPEN_SLOT
	NEAR_MOVE(v, next)
	NEAR_COMMIT8(v, at, 0))

MUTANT_BEFORE(address_outside,
	NEAR_SLOT(at, p)
	NEAR_LOAD8(v, mine, 0)
	NEAR_ADD_CONST(v, 1)
	NEAR_COMMIT8(v, mine, 0))

/* It commits only if what was read before is still there: this one is right. */
MUTANT_BEFORE(value_compared,
	OPEN_SLOT
	NEAR_LOAD8(v, at, 0)
	NEAR_ADD_CONST(v, 1)
	NEAR_BRANCH_NE(v, next, near_failed)
	NEAR_COMMIT8(v, at, 0))
/* clang-format on */

#define TRIES 100

static void retry(bool (*try)(struct mutant_copy *), struct mutant_copy *p)
{
	struct mutant_copy *fallback;

	for (int i = 0; i < TRIES; i++)
		if (try(p))
			return;
		else if (!near_slot_open(p))
			break;
	fallback = near_percpu_fallback(p);
	__atomic_fetch_add(&fallback->count, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&fallback->total, 1, __ATOMIC_RELAXED);
}

#define WITH_RETRY(name)                                                                           \
	static void add_##name(struct mutant_copy *p)                                              \
	{                                                                                          \
		retry(name, p);                                                                    \
	}                                                                                          \
	const struct mutant mutant_##name = {#name, add_##name};

WITH_RETRY(sound)
WITH_RETRY(two_stores)
WITH_RETRY(commit_not_last)
WITH_RETRY(commit_outside)
WITH_RETRY(no_state_check)
WITH_RETRY(no_live_check)
WITH_RETRY(unregistered)
WITH_RETRY(early_store)
WITH_RETRY(value_outside)
WITH_RETRY(address_outside)
WITH_RETRY(value_compared)

static void add_unarmed(struct mutant_copy *p)
{
	not_the_kernels = *near__self.area;
	retry(unarmed, p);
}
const struct mutant mutant_unarmed = {"unarmed", add_unarmed};

/* It uses a sequence that checks no gate of its own: on another slot no code would open that. */
static void add_unbounded(struct mutant_copy *p)
{
	while (!no_state_check(p))
		if (!near_slot_open(p))
			break;
}
const struct mutant mutant_unbounded = {"no_state_check", add_unbounded};

/* The copy of this thread's slot, which may be written; NULL: this thread has none. */
static struct mutant_copy *own_copy(struct mutant_copy *p)
{
	uint32_t slot = near__slot_open_own(p);

	return slot == NEAR__NO_SLOT ? NULL : near_percpu_at(p, slot);
}

static void add_fallback_in_slot(struct mutant_copy *p)
{
	struct mutant_copy *own;

	for (int i = 0; i < TRIES; i++)
		if (sound(p))
			return;
	own = own_copy(p);
	if (own)
		__atomic_fetch_add(&own->count, 1, __ATOMIC_RELAXED);
}
const struct mutant mutant_fallback_in_slot = {"sound", add_fallback_in_slot};

static void add_index_outside(struct mutant_copy *p)
{
	p = own_copy(p);
	for (int i = 0; p && i < TRIES && !index_outside(p); i++)
		;
}
const struct mutant mutant_index_outside = {"index_outside", add_index_outside};

/* ---- the suite ---- */

static struct mutant_copy *object;
static const struct mutant *current;
static bool stores_both;

static void open_own(void)
{
	struct mutant_copy *own = own_copy(object);

	if (own)
		own->gate = NEAR__OPEN;
}

struct mutant_copy *mutant_object(void)
{
	void *p;

	near_percpu_free(object);
	if (near_percpu_alloc(sizeof(*object), 8, &p))
		abort();
	object = p;
	if (near__self.state == NEAR__LIVE)
		kernels_area = near__self.area;
	open_own();
	return object;
}

struct mutant_copy *mutant_current(void)
{
	return object;
}

static void reset(enum ops_setup setup, enum ops_object of)
{
	mutant_object();
}

void mutant_sums(uint64_t *count, uint64_t *total)
{
	*count = *total = 0;
	for (unsigned s = 0; near_percpu_next(object, &s); s++) {
		const struct mutant_copy *copy = near_percpu_at(object, s);

		*count += copy->count;
		*total += copy->total;
	}
}

static void describe(char *out, size_t size, const struct actor *a, const struct actor *b)
{
	uint64_t count, total;

	mutant_sums(&count, &total);
	snprintf(out, size, "count %llu total %llu after %lld", (unsigned long long)count,
		 (unsigned long long)total, (long long)(a->counted + b->counted));
}

static const char *conserved(const struct actor *a, const struct actor *b)
{
	uint64_t expected = (uint64_t)(a->counted + b->counted), count, total;

	mutant_sums(&count, &total);
	return count == expected && (!stores_both || total == expected) ? NULL : "miscounted";
}

static uint64_t digest(const struct actor *a, const struct actor *b)
{
	return conserved(a, b) != NULL;
}

static bool valid(enum ops_setup setup, const struct op *a, const struct op *b)
{
	return a && b;
}

static bool one_step(enum ops_setup setup, const struct op *a)
{
	return a != NULL;
}

static void run(struct actor *me)
{
	me->counted++;
	current->add(object);
}

const struct suite *mutant_suite(const struct mutant *m)
{
	static const struct op add = {"add", run, OPS_COUNTER, 0};
	static const struct suite suite = {
		.ops = &add,
		.count = 1,
		.setups = 1,
		.reset = reset,
		.enter = open_own,
		.pair_is_valid = valid,
		.is_one_step = one_step,
		.digest = digest,
		.describe = describe,
		.conserved = conserved,
	};

	current = m;
	stores_both = m == &mutant_two_stores;
	return &suite;
}
