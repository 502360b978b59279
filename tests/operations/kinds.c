/* SPDX-License-Identifier: MIT */
/* The objects without a file of their own: how they are made, and judged. */
#include "objects.h"

#include <stdlib.h>
#include <string.h>

#include "counters.h"
#include "locks/rwlock.h"
#include "percpu/percpu.h"

/* ---- counter ---- */

static bool create_counter(void)
{
	return !near_counter_init(&OBJ.counter);
}

static void fill_counter(void)
{
	call_add(OPS_FIRST_COUNT);
}

static void enter_counter(void)
{
	call_add(0);
}

static void destroy_counter(void)
{
	near_counter_destroy(&OBJ.counter);
}

static void describe_counter(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	put_field(t, " counter ", near_counter_read(&OBJ.counter));
}

static const char *counter_conserved(const struct actor *a, const struct actor *b)
{
	if (near_counter_read(&OBJ.counter) != OPS_FIRST_COUNT + a->counted + b->counted)
		return "an add to the counter is lost or was counted twice";
	return NULL;
}

const struct ops_kind kind_counter = {
	.create = create_counter,
	.fill = fill_counter,
	.enter = enter_counter,
	.destroy = destroy_counter,
	.describe = describe_counter,
	.conserved = counter_conserved,
};

/* ---- reference count ---- */

static void released(struct near_refcount *r)
{
	OBJ.released++;
}

static bool create_refcount(void)
{
	if (near_refcount_init(&OBJ.refcount, released))
		return false;
	OBJ.bias = OBJ.refcount.exact - 1;
	OBJ.released = 0;
	return true;
}

static void fill_refcount(void)
{
	for (unsigned i = 1; i < OPS_FIRST_REFS; i++)
		call_get();
}

static void begin_refcount(void)
{
	if (OBJ.setup == OPS_KILLED)
		near_refcount_kill(&OBJ.refcount);
}

static void enter_refcount(void)
{
	if (OBJ.setup == OPS_KILLED)
		return;
	call_get();
	call_put();
}

static void destroy_refcount(void)
{
	near_refcount_destroy(&OBJ.refcount);
}

static int64_t refs(void)
{
	int64_t total = OBJ.refcount.exact;

	if (OBJ.refcount.mode == 0)
		total -= OBJ.bias;
	for (unsigned s = 0; near_percpu_next(OBJ.refcount.p, &s); s++) {
		const int64_t *count = near_percpu_at(OBJ.refcount.p, s);

		total += near_percpu_is_fallback(s) ? *count >> 2 : *count;
	}
	return total;
}

static void describe_refcount(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	put_field(t, " refs ", refs());
	put_field(t, " killed ", OBJ.refcount.mode);
	put_field(t, " released ", OBJ.released);
}

static const char *refs_conserved(const struct actor *a, const struct actor *b)
{
	int64_t total = OPS_FIRST_REFS - (OBJ.setup == OPS_KILLED) + a->refs + b->refs;

	if (refs() != total)
		return "a reference is lost or was counted twice";
	if (OBJ.released > 1 || (OBJ.refcount.mode != 0 && (total == 0) != (OBJ.released == 1)))
		return "released while references are left, or not, or twice";
	return NULL;
}

const struct ops_kind kind_refcount = {
	.create = create_refcount,
	.fill = fill_refcount,
	.begin = begin_refcount,
	.enter = enter_refcount,
	.destroy = destroy_refcount,
	.describe = describe_refcount,
	.conserved = refs_conserved,
};

/* ---- counters in a region ---- */

bool open_region(const struct near_region *r)
{
	return near__region_open_cpu(r) || !near__thread_live();
}

/* To make a file and map it takes longer than all else here, and to allocate the blocks of a slot
 * longer than most: what a region holds when it is new, but for the slot of this thread, is copied
 * from one that nobody changes. */
static bool fresh_shared(void)
{
	struct near_shared_counters *s = &OBJ.shared, *untouched = &OBJ.untouched;

	if (!s->region.header && (counters_open(s, 8) || counters_open(untouched, 8) ||
				  !open_region(&untouched->region)))
		return false;
	memcpy(s->region.header, untouched->region.header, s->region.total);
	return true;
}

static void fill_shared(void)
{
	call_add_shared(OPS_FIRST_COUNT);
}

static void enter_shared(void)
{
	call_add_shared(0);
}

static void describe_shared(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	put_field(t, " shared ", near_shared_counters_read(&OBJ.shared, OPS_SHARED_INDEX));
}

static const char *shared_conserved(const struct actor *a, const struct actor *b)
{
	if (near_shared_counters_read(&OBJ.shared, OPS_SHARED_INDEX) !=
	    OPS_FIRST_COUNT + a->shared + b->shared)
		return "an add to the shared region is lost or was counted twice";
	return NULL;
}

const struct ops_kind kind_shared = {
	.create = fresh_shared,
	.fill = fill_shared,
	.enter = enter_shared,
	.describe = describe_shared,
	.conserved = shared_conserved,
};

/* ---- the example: the highest value ---- */

static bool create_example(void)
{
	void *peak;

	if (near_percpu_alloc(sizeof(*OBJ.peak), sizeof(*OBJ.peak), &peak))
		return false;
	OBJ.peak = peak;
	return true;
}

static void fill_example(void)
{
	call_raise_to(&(struct actor){0}, OPS_FIRST_COUNT);
}

static void enter_example(void)
{
	call_raise_to(&(struct actor){0}, 1);
}

static void destroy_example(void)
{
	near_percpu_free(OBJ.peak);
}

static uint64_t peak(void)
{
	uint64_t highest = 0;

	for (unsigned s = 0; near_percpu_next(OBJ.peak, &s); s++) {
		const uint64_t *copy = near_percpu_at(OBJ.peak, s);

		highest = *copy > highest ? *copy : highest;
	}
	return highest;
}

static void describe_example(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	put_field(t, " peak ", (int64_t)peak());
}

static uint64_t highest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static const char *example_conserved(const struct actor *a, const struct actor *b)
{
	return peak() == highest(OPS_FIRST_COUNT, highest(a->peak, b->peak))
		       ? NULL
		       : "the highest value is lost";
}

const struct ops_kind kind_example = {
	.create = create_example,
	.fill = fill_example,
	.enter = enter_example,
	.destroy = destroy_example,
	.describe = describe_example,
	.conserved = example_conserved,
};

/* ---- reader-writer lock ---- */

static bool create_rwlock(void)
{
	OBJ.guarded[0] = OBJ.guarded[1] = OPS_FIRST_COUNT;
	OBJ.torn = false;
	return !near_rwlock_init(&OBJ.rwlock, NULL);
}

static void enter_rwlock(void)
{
	if (!call_try_read_lock())
		abort();
	call_read_unlock();
}

static void destroy_rwlock(void)
{
	near_rwlock_destroy(&OBJ.rwlock);
}

/* Nobody is inside when both have come to their end. */
static const char *rwlock_conserved(const struct actor *a, const struct actor *b)
{
	const struct near_rwlock *l = &OBJ.rwlock;
	int64_t readers = readers_of(l->word) + near__rwlock_sum(l, false);

	if (OBJ.torn)
		return "a reader and a writer were inside together";
	if (OBJ.guarded[0] != OPS_FIRST_COUNT + a->written + b->written ||
	    OBJ.guarded[1] != OBJ.guarded[0])
		return "what a writer wrote is lost";
	if (readers || writers_of(l->word))
		return "a reader or a writer of the lock is left behind";
	return NULL;
}

const struct ops_kind kind_rwlock = {
	.create = create_rwlock,
	.enter = enter_rwlock,
	.destroy = destroy_rwlock,
	.conserved = rwlock_conserved,
};

/* ---- fifo ---- */

static bool create_fifo(void)
{
	return !near_fifo_init(&ops_fifo, 2);
}

static void destroy_fifo(void)
{
	near_fifo_destroy(&ops_fifo);
}

static const char *fifo_conserved(const struct actor *a, const struct actor *b)
{
	return ops_fifo.count ? "an element of the fifo is left behind" : NULL;
}

const struct ops_kind kind_fifo = {
	.create = create_fifo,
	.destroy = destroy_fifo,
	.conserved = fifo_conserved,
};
