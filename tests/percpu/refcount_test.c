/* SPDX-License-Identifier: MIT */
/* near_refcount, step by step: where references are counted, kill and revive, the release callback,
 * misuse. refcount_threads_test.c has threads. */
#include <nearcpu/refcount.h>

#include "slots.h"

#include "fences.h"
#include "live.h"

static unsigned released;
static struct near_refcount *released_ref;

static void note(struct near_refcount *ref)
{
	released++;
	released_ref = ref;
}

static struct near_refcount r; /* a new one in each test */

static int make_refcount(void **state)
{
	memset(&r, 0x5a, sizeof(r));
	KEEPS_ERRNO(assert_int_equal(near_refcount_init(&r, note), 0));
	released = 0;
	released_ref = NULL;
	fences_made();
	return 0;
}

static int destroy_refcount(void **state)
{
	slots_leave();
	near_refcount_destroy(&r);
	assert_null(r.p);
	return 0;
}

static void get(unsigned n)
{
	while (n--)
		near_refcount_get(&r);
}

static void put(unsigned n)
{
	while (n--)
		near_refcount_put(&r);
}

/* These references are the last: the callback runs at the last put. */
static void put_last(unsigned n)
{
	unsigned before = released;

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(released, before);
		put(1);
	}
	assert_int_equal(released, before + 1);
}

/* ---- kill ---- */

static void kill_drops_the_first_reference(void **state)
{
	errno = UNIT_ERRNO;
	assert_false(near_refcount_is_zero(&r));
	near_refcount_kill(&r);
	assert_int_equal(released, 1);
	assert_ptr_equal(released_ref, &r);
	assert_true(near_refcount_is_zero(&r));
	assert_false(near_refcount_try_get(&r));
	assert_false(near_refcount_try_get_live(&r));
	assert_int_equal(errno, UNIT_ERRNO);
	assert_int_equal(released, 1);
}

static void the_last_put_releases(void **state)
{
	get(2);
	put(1);
	assert_int_equal(released, 0);
	near_refcount_kill(&r);
	assert_int_equal(released, 0);
	assert_false(near_refcount_is_zero(&r));
	assert_true(near_refcount_try_get(&r)); /* not zero yet */
	assert_false(near_refcount_try_get_live(&r));
	get(1);
	put(2);
	put_last(1);
	assert_true(near_refcount_is_zero(&r));
	assert_false(near_refcount_try_get(&r));
}

static void references_move_between_slots(void **state)
{
	struct near__thread self;

	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		get(5);
	}
	slots_enter(7);
	put(3 * SLOTS_CPUS); /* below zero in this slot */
	self = play_dead();  /* and on a fallback word */
	put(2 * SLOTS_CPUS - 1);
	get(1);
	put(1);
	near__self = self;
	assert_false(near_refcount_is_zero(&r));
	near_refcount_kill(&r);
	put_last(1);
}

static void killing_interrupts_once_and_reviving_once(void **state)
{
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		get(1);
		put(1);
	}
	assert_int_equal(fences_made(), 0);
	near_refcount_kill(&r);
	assert_int_equal(fences_made(), 1);
	near_refcount_revive(&r);
	assert_int_equal(fences_made(), 1);
	near_refcount_kill(&r);
}

static void many_are_killed_by_one_interrupt(void **state)
{
	struct near_refcount many[5], *refs[LENGTH(many)];

	for (unsigned i = 0; i < LENGTH(many); i++) {
		refs[i] = &many[i];
		assert_int_equal(near_refcount_init(refs[i], note), 0);
		for (unsigned n = 0; n < i * SLOTS_CPUS; n++) {
			slots_enter(n % SLOTS_CPUS);
			near_refcount_get(refs[i]);
		}
	}
	near_refcount_put(refs[1]);
	assert_int_equal(fences_made(), 0);
	near_refcount_kill_many(refs, 0);
	assert_int_equal(fences_made(), 0);
	KEEPS_ERRNO(near_refcount_kill_many(refs, LENGTH(refs)));
	assert_int_equal(fences_made(), 1);
	assert_int_equal(released, 1); /* the first, to which nobody else has a reference */
	assert_ptr_equal(released_ref, &many[0]);
	for (unsigned i = 0; i < LENGTH(many); i++) {
		for (unsigned n = i * SLOTS_CPUS - (i == 1); i && n; n--)
			near_refcount_put(refs[i]);
		assert_true(near_refcount_is_zero(refs[i]));
		near_refcount_destroy(refs[i]);
	}
	assert_int_equal(released, LENGTH(many));
	near_refcount_kill(&r);
}

static void without_a_callback_nothing_is_called(void **state)
{
	near_refcount_destroy(&r);
	assert_int_equal(near_refcount_init(&r, NULL), 0);
	get(1);
	near_refcount_kill(&r);
	put(1);
	assert_true(near_refcount_is_zero(&r));
}

struct object {
	struct near_refcount ref;
	char payload[40];
};

static void destroy_object(struct near_refcount *ref)
{
	near_refcount_destroy(ref);
	free(ref);
	released++;
}

/* What the library touched after the callback would be found by AddressSanitizer and valgrind. */
static void the_callback_may_free_the_object(void **state)
{
	for (unsigned i = 0; i < 100; i++) {
		struct object *o = malloc(sizeof(*o));

		assert_non_null(o);
		assert_int_equal(near_refcount_init(&o->ref, destroy_object), 0);
		near_refcount_get(&o->ref);
		if (i % 2)
			near_refcount_put(&o->ref);
		near_refcount_kill(&o->ref);
		if (i % 2 == 0)
			near_refcount_put(&o->ref);
		assert_int_equal(released, i + 1);
	}
}

/* ---- revive ---- */

static void a_killed_count_can_be_revived(void **state)
{
	for (unsigned round = 1; round <= 20; round++) {
		slots_enter(round % SLOTS_CPUS);
		get(1);
		slots_enter(round * 7 % SLOTS_CPUS);
		put(1);
		near_refcount_kill(&r);
		assert_int_equal(released, round);
		near_refcount_revive(&r);
		assert_false(near_refcount_is_zero(&r));
		assert_true(near_refcount_try_get_live(&r));
		assert_true(near_refcount_try_get(&r));
		put(2);
	}
	near_refcount_kill(&r);
}

static void reviving_with_references_held_keeps_them(void **state)
{
	slots_enter(1);
	get(2);
	near_refcount_kill(&r);
	get(1); /* counted exactly */
	near_refcount_revive(&r);
	assert_int_equal(released, 0);
	slots_enter(2);
	put(2); /* counted in a slot */
	near_refcount_kill(&r);
	put_last(1);
}

/* A slot that is used for the first time while the count is killed stays out of it. */
static void a_new_slot_after_kill_is_exact(void **state)
{
	get(1);
	near_refcount_kill(&r);
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		get(1);
		put(1);
		assert_true(near_refcount_try_get(&r));
		put(1);
	}
	put_last(1);
	near_refcount_revive(&r);
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		get(1);
	}
	near_refcount_kill(&r);
	put_last(SLOTS_CPUS);
}

/* A thread closes gates: concurrent operations of other counts are counted exactly. */
static void a_closer_elsewhere_does_not_block(void **state)
{
	slots_enter(9);
	near_lock_lock(&near__percpu.closers);
	get(2);
	put(1);
	assert_true(near_refcount_try_get(&r));
	put(1);
	near_lock_unlock(&near__percpu.closers);
	put(1);
	get(1);
	near_refcount_kill(&r);
	put_last(1);
}

/* ---- misuse ---- */

static void misuse_stops_the_program(void **state)
{
	static const char too_many[] = "near_refcount_put: more references put than were taken";

	slots_enter(11);
	DIES(too_many) {
		near_refcount_kill(&r);
		put(1);
	}
	DIES(too_many) {
		put(2);
		near_refcount_kill(&r);
	}
	DIES("near_refcount_get: the count has been zero (use near_refcount_try_get)") {
		near_refcount_kill(&r);
		get(1);
	}
	get(1);
	near_refcount_kill(&r);
	DIES("near_refcount_kill: already killed")
		near_refcount_kill(&r);
	near_refcount_revive(&r);
	DIES("near_refcount_revive: not killed")
		near_refcount_revive(&r);
	put(1);
	near_refcount_kill(&r);
}

UNIT_MAIN_EACH(make_refcount, destroy_refcount, kill_drops_the_first_reference,
	       the_last_put_releases, references_move_between_slots,
	       killing_interrupts_once_and_reviving_once, many_are_killed_by_one_interrupt,
	       without_a_callback_nothing_is_called, the_callback_may_free_the_object,
	       a_killed_count_can_be_revived, reviving_with_references_held_keeps_them,
	       a_new_slot_after_kill_is_exact, a_closer_elsewhere_does_not_block,
	       misuse_stops_the_program)
