/* SPDX-License-Identifier: MIT */
/* near_pool, step by step: what a slot keeps, the cap over all slots, taking what slots have. The
 * program is linked with --wrap=near__topology_cpus and --wrap=near__fence. */
#include "things.h"

#include "slots.h"

#include "fences.h"
#include "live.h"
#include "pool/pool.h"

#define MANY 4000u
#define CAP 2080u /* half for the slots: with 130, one node, 8 for each, in batches of 2 */

static struct things all;
static struct near_pool pool; /* a new one in each test */
static struct thing *held[MANY];

static void make(size_t cap, unsigned batch, size_t most)
{
	const struct near_pool_options o = {THINGS(&all), .max_idle = cap, .batch = batch,
					    .max_objects = most ? most : THINGS_MOST};

	memset(&all, 0, sizeof(all));
	memset(&pool, 0x5a, sizeof(pool));
	KEEPS_ERRNO(assert_int_equal(near_pool_init(&pool, sizeof(struct thing), &o), 0));
	fences_made();
}

static int make_pool(void **state)
{
	make(CAP, 0, 0);
	return 0;
}

static int destroy_pool(void **state)
{
	slots_leave();
	if (pool.rest)
		near_pool_destroy(&pool);
	assert_null(pool.rest);
	assert_int_equal(all.made, all.ended);
	return 0;
}

static bool live(void)
{
	return near__process.usable;
}

static void get(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		KEEPS_ERRNO(held[i] = thing_get(&pool));
}

static void put(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		KEEPS_ERRNO(thing_put(&pool, held[i]));
}

static uint64_t idle(void)
{
	return pool_now(&pool).idle;
}

/* ---- one slot ---- */

static void what_was_put_last_is_got_first(void **state)
{
	slots_enter(4);
	get(0, 2);
	put(0, 2);
	assert_ptr_equal(thing_get(&pool), held[1]);
	assert_ptr_equal(thing_get(&pool), held[0]);
	put(0, 2);
	assert_int_equal(fences_made(), 0);
}

static void objects_stay_constructed(void **state)
{
	uint64_t made;

	slots_enter(4);
	get(0, 100);
	made = all.made;
	assert_in_range(made, 100, 100 + 2 * near__process.cpus);
	put(0, 100);
	get(0, 100);
	assert_int_equal(all.made, made);
	put(0, 100);
	assert_int_equal(all.ended, 0);
	assert_int_equal(pool_now(&pool).objects, made);
	assert_int_equal(idle(), made);
	KEEPS_ERRNO(assert_int_equal(near_pool_drain(&pool), made));
	assert_int_equal(all.ended, made);
	assert_int_equal(pool_now(&pool).objects, 0);
	assert_int_equal(pool_now(&pool).memory, 0);
	get(0, 1);
	put(0, 1);
}

static void many_at_once(void **state)
{
	slots_enter(9);
	for (unsigned n = 0; n < 300; n += n < 40 ? 1 : 37) {
		KEEPS_ERRNO(assert_int_equal(near_pool_get_many(&pool, (void **)held, n), n));
		for (unsigned i = 0; i < n; i++)
			thing_took(held[i]);
		for (unsigned i = 0; i < n; i++)
			thing_gives(held[i]);
		KEEPS_ERRNO(near_pool_put_many(&pool, (void *const *)held, n));
	}
	assert_int_equal(pool_now(&pool).objects, idle());
}

static void try_get_takes_what_is_idle(void **state)
{
	slots_enter(9);
	KEEPS_ERRNO(assert_null(near_pool_try_get(&pool)));
	assert_int_equal(all.made, 0);
	get(0, 20);
	put(0, 20);
	for (unsigned i = 0; i < 20; i++)
		KEEPS_ERRNO(held[i] = thing_took(near_pool_try_get(&pool)));
	put(0, 20);
	KEEPS_ERRNO(near_pool_put(&pool, NULL));
	/* Another thread, or the code that was interrupted, holds the lock. */
	near_pool_drain(&pool);
	near_lock_lock(pool.rest->lock);
	KEEPS_ERRNO(assert_null(near_pool_try_get(&pool)));
	near_lock_unlock(pool.rest->lock);
}

/* ---- the cap ---- */

static void at_most_the_cap_is_idle(void **state)
{
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		get(0, MANY);
		put(0, MANY);
		assert_in_range(idle(), 1, CAP);
	}
	assert_in_range(idle(), CAP / 2, CAP); /* a slot may have less than its grant */
	assert_int_equal(pool_now(&pool).objects, idle());
}

static void a_small_cap_holds(void **state)
{
	for (size_t cap = 1; cap < 40; cap = cap * 3 / 2 + 1) {
		destroy_pool(NULL);
		make(cap, 0, 0);
		for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
			slots_enter(slot);
			get(0, 50);
			put(0, 50);
			assert_in_range(idle(), 0, cap);
		}
		assert_in_range(idle(), 1, cap);
	}
}

/* One slot gets, another puts. The center passes the objects on. */
static void one_way_flow_is_bounded(void **state)
{
	for (unsigned i = 0; i < 3000; i++) {
		slots_enter(7);
		get(0, 5);
		slots_enter(8);
		put(0, 5);
	}
	assert_in_range(idle(), 1, CAP);
	assert_in_range(all.made, 5, CAP);
	assert_int_equal(fences_made(), 0);
}

/* A center that is full leaves another slot its part of the cap. */
static void each_slot_has_its_part(void **state)
{
	unsigned part = CAP / 2 / near_slots();

	if (!live())
		skip();
	slots_enter(7);
	get(0, MANY);
	put(0, MANY);
	assert_int_equal(idle(), part + CAP - part * near_slots());
	slots_enter(8);
	get(0, part / 2);
	put(0, part / 2);
	near_lock_lock(pool.rest->lock);
	for (unsigned i = 0; i < 20; i++) {
		get(0, part / 2);
		put(0, part / 2);
	}
	assert_int_equal(pool.rest->returned, 0);
	near_lock_unlock(pool.rest->lock);
}

/* ---- drain ---- */

static void drain_takes_all(void **state)
{
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		get(slot * 2, 2);
	}
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		put(slot * 2, 2);
	}
	slots_enter(90);
	fences_made();
	assert_int_equal(near_pool_drain(&pool), all.made);
	assert_int_equal(fences_made(), live() ? (SLOTS_CPUS + 31) / 32 : 0);
	assert_int_equal(all.ended, all.made);
	assert_int_equal(near_pool_drain(&pool), 0);
	slots_enter(3); /* the slots are open again */
	get(0, 3);
	put(0, 3);
	assert_int_equal(pool_now(&pool).objects, idle());
}

/* ---- trim ---- */

static void trim_ends_what_was_idle(void **state)
{
	unsigned used = 100, batch = pool.rest->options.batch, ended;

	for (unsigned slot = 0; slot < 3; slot++) {
		slots_enter(slot);
		get(slot * used, used);
	}
	for (unsigned slot = 0; slot < 3; slot++) {
		slots_enter(slot);
		put(slot * used, used);
	}
	KEEPS_ERRNO(assert_int_equal(near_pool_trim(&pool), 0));
	slots_enter(5);
	get(0, used);
	put(0, used);
	ended = (unsigned)near_pool_trim(&pool);
	assert_in_range(ended, all.made - used - batch, all.made - used);
	assert_int_equal(all.ended, ended);
	get(0, used); /* what was used last is there */
	assert_int_equal(all.made, all.ended + idle() + used);
	put(0, used);
	near_pool_trim(&pool);
	near_pool_trim(&pool);
	assert_int_equal(all.ended, all.made);
	assert_int_equal(near_pool_trim(&pool), 0);
	get(0, 3);
	put(0, 3);
	assert_int_equal(pool_now(&pool).objects, idle());
}

/* What the center has no room for stays in its slots. */
static void trim_moves_what_has_room(void **state)
{
	uint64_t before;

	slots_enter(3);
	get(0, MANY);
	put(0, MANY);
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		get(0, 8);
		put(0, 8);
	}
	before = idle();
	near_pool_trim(&pool);
	assert_int_equal(idle(), before);
	near_pool_trim(&pool);
	near_pool_trim(&pool);
	near_pool_trim(&pool);
	assert_int_equal(idle(), 0);
}

static struct thing *in_hook;

/* While the slot is closed its threads use a fallback slot. */
static void use_closed_slot(void)
{
	in_hook = thing_get(&pool);
	thing_put(&pool, in_hook);
	near_pool_try_get(&pool);
}

static void a_closed_slot_is_not_used(void **state)
{
	if (!live())
		skip();
	slots_enter(5);
	get(0, 3);
	put(0, 3);
	fence_hook = use_closed_slot;
	near_pool_drain(&pool);
	assert_non_null(in_hook);
	assert_int_equal(pool_now(&pool).objects, all.made - all.ended);
	assert_in_range(pool_now(&pool).objects, 1, 8);
	near_pool_put(&pool, in_hook); /* that try_get took */
}

/* put does not wait for the lock; what it could not give is moved by the next call that can. */
static void put_does_not_wait(void **state)
{
	uint64_t before;

	slots_enter(5);
	get(0, MANY);
	near_lock_lock(pool.rest->lock);
	put(0, 500);
	assert_true(pool.rest->returned != 0);
	assert_int_equal(all.ended, 0);
	near_lock_unlock(pool.rest->lock);
	before = idle();
	put(500, MANY - 500);
	assert_int_equal(pool.rest->returned, 0);
	assert_in_range(idle(), before, CAP);
	assert_int_equal(pool_now(&pool).objects, idle());
}

/* Of a slot, and without rseq of a CPU, where a migration between put and get is seldom. */
static void what_was_put_is_got_without_the_lock(void **state)
{
	struct thing *got = NULL;

	slots_enter(5);
	for (int tries = 0; !got && tries < 1000; tries++) {
		get(0, 1);
		put(0, 1);
		near_lock_lock(pool.rest->lock);
		got = near_pool_try_get(&pool);
		near_lock_unlock(pool.rest->lock);
	}
	assert_non_null(got);
	near_pool_put(&pool, got);
}

UNIT_MAIN_EACH(make_pool, destroy_pool, what_was_put_last_is_got_first, objects_stay_constructed,
	       many_at_once, try_get_takes_what_is_idle, at_most_the_cap_is_idle, a_small_cap_holds,
	       one_way_flow_is_bounded, each_slot_has_its_part, drain_takes_all,
	       trim_ends_what_was_idle, trim_moves_what_has_room, a_closed_slot_is_not_used,
	       put_does_not_wait, what_was_put_is_got_without_the_lock)
