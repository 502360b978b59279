/* SPDX-License-Identifier: MIT */
/* near_refcount, step by step: where references are counted, kill and revive, the release callback,
 * misuse. refcount_more_test.c has threads. */
#include "unit.h"

#include <nearcpu/refcount.h>

#include "fences.h"
#include "slots.h"

static unsigned released;
static struct near_refcount *released_ref;

static void note(struct near_refcount *r)
{
	released++;
	released_ref = r;
}

static struct near_refcount made(void)
{
	struct near_refcount r;

	memset(&r, 0x5a, sizeof(r));
	errno = UNIT_ERRNO;
	assert_int_equal(near_refcount_init(&r, note), 0);
	assert_int_equal(errno, UNIT_ERRNO);
	released = 0;
	released_ref = NULL;
	fences_made();
	return r;
}

static void destroy(struct near_refcount *r)
{
	slots_leave();
	near_refcount_destroy(r);
	assert_null(r->p);
}

/* ---- kill ---- */

static void kill_drops_the_first_reference(void **state)
{
	struct near_refcount r = made();

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
	destroy(&r);
}

static void the_last_put_releases(void **state)
{
	struct near_refcount r = made();

	near_refcount_get(&r);
	near_refcount_get(&r);
	near_refcount_put(&r);
	assert_int_equal(released, 0);
	near_refcount_kill(&r);
	assert_int_equal(released, 0);
	assert_false(near_refcount_is_zero(&r));
	assert_true(near_refcount_try_get(&r)); /* not zero yet */
	assert_false(near_refcount_try_get_live(&r));
	near_refcount_get(&r);
	near_refcount_put(&r);
	near_refcount_put(&r);
	assert_int_equal(released, 0);
	near_refcount_put(&r);
	assert_int_equal(released, 1);
	assert_true(near_refcount_is_zero(&r));
	assert_false(near_refcount_try_get(&r));
	destroy(&r);
}

static void references_move_between_slots(void **state)
{
	struct near_refcount r = made();
	struct near__thread self;

	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		for (unsigned i = 0; i < 5; i++)
			near_refcount_get(&r);
	}
	slots_enter(7);
	for (unsigned i = 0; i < 3 * SLOTS_CPUS; i++)
		near_refcount_put(&r); /* below zero in this slot */
	self = near__self;
	near__self.state = NEAR__DEAD; /* and on a fallback word */
	near__self.area = &near__dead;
	for (unsigned i = 0; i < 2 * SLOTS_CPUS - 1; i++)
		near_refcount_put(&r);
	near_refcount_get(&r);
	near_refcount_put(&r);
	near__self = self;
	assert_false(near_refcount_is_zero(&r));
	near_refcount_kill(&r);
	assert_int_equal(released, 0);
	near_refcount_put(&r);
	assert_int_equal(released, 1);
	destroy(&r);
}

static void killing_interrupts_once_and_reviving_once(void **state)
{
	struct near_refcount r = made();

	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		near_refcount_get(&r);
		near_refcount_put(&r);
	}
	assert_int_equal(fences_made(), 0);
	near_refcount_kill(&r);
	assert_int_equal(fences_made(), 1);
	near_refcount_revive(&r);
	assert_int_equal(fences_made(), 1);
	near_refcount_kill(&r);
	destroy(&r);
}

static void without_a_callback_nothing_is_called(void **state)
{
	struct near_refcount r;

	assert_int_equal(near_refcount_init(&r, NULL), 0);
	near_refcount_get(&r);
	near_refcount_kill(&r);
	near_refcount_put(&r);
	assert_true(near_refcount_is_zero(&r));
	destroy(&r);
}

struct object {
	struct near_refcount ref;
	char payload[40];
};

static void destroy_object(struct near_refcount *r)
{
	near_refcount_destroy(r);
	free(r);
	released++;
}

/* What the library touched after the callback would be found by AddressSanitizer and valgrind. */
static void the_callback_may_free_the_object(void **state)
{
	released = 0;
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
	struct near_refcount r = made();

	for (unsigned round = 1; round <= 20; round++) {
		slots_enter(round % SLOTS_CPUS);
		near_refcount_get(&r);
		slots_enter(round * 7 % SLOTS_CPUS);
		near_refcount_put(&r);
		near_refcount_kill(&r);
		assert_int_equal(released, round);
		near_refcount_revive(&r);
		assert_false(near_refcount_is_zero(&r));
		assert_true(near_refcount_try_get_live(&r));
		assert_true(near_refcount_try_get(&r));
		near_refcount_put(&r);
		near_refcount_put(&r);
	}
	near_refcount_kill(&r);
	destroy(&r);
}

static void reviving_with_references_held_keeps_them(void **state)
{
	struct near_refcount r = made();

	slots_enter(1);
	near_refcount_get(&r);
	near_refcount_get(&r);
	near_refcount_kill(&r);
	near_refcount_get(&r); /* counted exactly */
	near_refcount_revive(&r);
	assert_int_equal(released, 0);
	slots_enter(2);
	near_refcount_put(&r); /* counted in a slot */
	near_refcount_put(&r);
	near_refcount_kill(&r);
	assert_int_equal(released, 0);
	near_refcount_put(&r);
	assert_int_equal(released, 1);
	destroy(&r);
}

/* A slot that is used for the first time while the count is killed stays out of it. */
static void a_new_slot_after_kill_is_exact(void **state)
{
	struct near_refcount r = made();

	near_refcount_get(&r);
	near_refcount_kill(&r);
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		near_refcount_get(&r);
		near_refcount_put(&r);
		assert_true(near_refcount_try_get(&r));
		near_refcount_put(&r);
	}
	assert_int_equal(released, 0);
	near_refcount_put(&r);
	assert_int_equal(released, 1);
	near_refcount_revive(&r);
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		near_refcount_get(&r);
	}
	near_refcount_kill(&r);
	for (unsigned i = 0; i < SLOTS_CPUS; i++) {
		assert_int_equal(released, 1);
		near_refcount_put(&r);
	}
	assert_int_equal(released, 2);
	destroy(&r);
}

/* A thread closes gates: concurrent operations of other counts are counted exactly. */
static void a_closer_elsewhere_does_not_block(void **state)
{
	struct near_refcount r = made();

	slots_enter(9);
	near_lock_lock(&near__percpu.closers);
	near_refcount_get(&r);
	near_refcount_get(&r);
	near_refcount_put(&r);
	assert_true(near_refcount_try_get(&r));
	near_refcount_put(&r);
	near_lock_unlock(&near__percpu.closers);
	near_refcount_put(&r);
	near_refcount_get(&r);
	near_refcount_kill(&r);
	assert_int_equal(released, 0);
	near_refcount_put(&r);
	assert_int_equal(released, 1);
	destroy(&r);
}

/* ---- misuse ---- */

static void put_below_zero(void *r)
{
	near_refcount_kill(r);
	near_refcount_put(r);
}

static void put_too_many_in_service(void *r)
{
	near_refcount_put(r);
	near_refcount_put(r);
	near_refcount_kill(r);
}

static void get_from_zero(void *r)
{
	near_refcount_kill(r);
	near_refcount_get(r);
}

static void kill_twice(void *r)
{
	near_refcount_get(r);
	near_refcount_kill(r);
	near_refcount_kill(r);
}

static void revive_alone(void *r)
{
	near_refcount_revive(r);
}

static void misuse_stops_the_program(void **state)
{
	struct near_refcount r = made();

	slots_enter(11);
	unit_dies(put_below_zero, &r, "near_refcount_put: more references put than were taken");
	unit_dies(put_too_many_in_service, &r,
		  "near_refcount_put: more references put than were taken");
	unit_dies(get_from_zero, &r,
		  "near_refcount_get: the count has been zero (use near_refcount_try_get)");
	unit_dies(kill_twice, &r, "near_refcount_kill: already killed");
	unit_dies(revive_alone, &r, "near_refcount_revive: not killed");
	near_refcount_kill(&r);
	destroy(&r);
}

UNIT_MAIN(kill_drops_the_first_reference, the_last_put_releases, references_move_between_slots,
	  killing_interrupts_once_and_reviving_once, without_a_callback_nothing_is_called,
	  the_callback_may_free_the_object, a_killed_count_can_be_revived,
	  reviving_with_references_held_keeps_them, a_new_slot_after_kill_is_exact,
	  a_closer_elsewhere_does_not_block, misuse_stops_the_program)
