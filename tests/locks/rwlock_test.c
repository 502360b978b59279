/* SPDX-License-Identifier: MIT */
/* near_rwlock: its word and its slots, step by step. */
#include "rwlocks.h"

#include "clock.h"
#include "fences.h"
#include "percpu/gate.h"
#include "slots.h"

/* If not 0, CLOCK_MONOTONIC advances by this at each reading. */
static long tick_ns;

static int64_t clock_of_test(clockid_t clock)
{
	static int64_t now = INT64_C(1000000000000);

	return tick_ns && clock == CLOCK_MONOTONIC ? now += tick_ns : REAL_CLOCK;
}

/* The lock of most tests, which end it. */
static struct near_rwlock l;
static bool is_made;

static void make_lock(void)
{
	assert_int_equal(near_rwlock_init(&l, NULL), 0);
	is_made = true;
	fences_made();
}

/* Readers count on slots, or there is nothing to test. */
static void make_lock_with_slots(void)
{
	if (!has_slots())
		skip();
	make_lock();
}

static int destroy_lock(void **state)
{
	if (is_made)
		near_rwlock_destroy(&l);
	is_made = false;
	return 0;
}

static int64_t count_in(unsigned slot)
{
	return *(int64_t *)near_percpu_at(l.copies, slot);
}

static uint32_t gate_in(unsigned slot)
{
	return near__gated_count(l.copies, slot)->gate;
}

/* ---- states ---- */

static void zero_is_a_free_lock(void **state)
{
	rwlock_init(&l, false);
	is_made = true;
	assert_int_equal(word_of(&l), 0);
	for (unsigned i = 0; i < 3; i++) {
		near_rwlock_read_lock(&l);
		assert_int_equal(word_of(&l), READER);
		assert_true(near_rwlock_try_read_lock(&l));
		assert_int_equal(word_of(&l), 2 * READER);
		assert_true(another_can(try_to_read, &l));
		assert_false(another_can(try_to_write, &l));
		assert_false(near_rwlock_try_write_lock(&l));
		near_rwlock_read_unlock(&l);
		near_rwlock_read_unlock(&l);
		assert_int_equal(word_of(&l), 0);
		near_rwlock_write_lock(&l);
		assert_int_equal(word_of(&l), WRITER);
		assert_true(near_rwlock_is_mine(&l));
		assert_false(near_rwlock_try_read_lock(&l));
		assert_false(near_rwlock_try_write_lock(&l));
		assert_false(another_can(try_to_read, &l));
		assert_false(another_can(try_to_write, &l));
		near_rwlock_write_unlock(&l);
		assert_int_equal(word_of(&l), 0);
		assert_false(near_rwlock_is_mine(&l));
		assert_true(another_can(try_to_write, &l));
	}
	assert_int_equal(fences_made(), 0);
}

static void readers_count_on_their_slots(void **state)
{
	make_lock_with_slots();
	slots_enter(3);
	near_rwlock_read_lock(&l);
	assert_int_equal(count_in(3), 1);
	near_rwlock_read_lock(&l);
	assert_true(near_rwlock_try_read_lock(&l));
	assert_int_equal(count_in(3), 3);
	/* Elsewhere it leaves there, even where nobody was before. */
	slots_enter(100);
	near_rwlock_read_unlock(&l);
	near_rwlock_read_unlock(&l);
	assert_int_equal(count_in(3), 3);
	assert_int_equal(count_in(100), -2);
	assert_int_equal(word_of(&l), BIASED);
	assert_false(another_can(try_to_write, &l));
	near_rwlock_read_unlock(&l);
	slots_leave();
	assert_int_equal(word_of(&l), BIASED);
	assert_int_equal(fences_made(), 0);
	assert_true(another_can(try_to_write, &l));
}

static void a_writer_adds_the_slots_up(void **state)
{
	make_lock_with_slots();
	for (unsigned s = 0; s < SLOTS_CPUS; s += 9) {
		slots_enter(s);
		near_rwlock_read_lock(&l);
	}
	slots_leave();
	/* As another thread would: this one may not. */
	near_mutex_lock(&l.writers);
	assert_int_equal(near__rwlock_claim(&l), WRITER | BIASED);
	near__rwlock_revoke(&l);
	assert_int_equal(word_of(&l), WRITER + 15 * READER);
	assert_int_equal(fences_made(), 1);
	for (unsigned s = 0; s < SLOTS_CPUS; s += 9) {
		assert_int_equal(count_in(s), 0);
		slots_enter(s);
		near_rwlock_read_unlock(&l);
		assert_int_equal(count_in(s), 0);
	}
	slots_leave();
	assert_int_equal(word_of(&l), WRITER);
	assert_false(another_can(try_to_read, &l));
	near_rwlock_write_unlock(&l);
	assert_int_equal(word_of(&l), 0);
}

/* ---- bias ---- */

static void read_n_times(struct near_rwlock *lock, unsigned n)
{
	while (n--) {
		near_rwlock_read_lock(lock);
		near_rwlock_read_unlock(lock);
	}
}

static void bias_returns_after_enough_reads(void **state)
{
	make_lock_with_slots();
	read_n_times(&l, 10);
	for (unsigned i = 0; i < 3; i++) {
		near_rwlock_write_lock(&l);
		assert_int_equal(fences_made(), 1);
		near_rwlock_write_unlock(&l);
		l.rebias_after = 50;
		read_n_times(&l, 30);
		assert_int_equal(word_of(&l), 30 * WORD_READ);
		/* Another writer: no fence, and the count begins again. */
		near_rwlock_write_lock(&l);
		assert_int_equal(word_of(&l), WRITER);
		near_rwlock_write_unlock(&l);
		assert_true(near_rwlock_try_write_lock(&l));
		near_rwlock_write_unlock(&l);
		read_n_times(&l, 49);
		assert_int_equal(word_of(&l), 49 * WORD_READ);
		assert_int_equal(fences_made(), 0);
		near_rwlock_read_lock(&l);
		assert_int_equal(fences_made(), 1);
		/* It counted itself in the word, and leaves by a slot. */
		assert_int_equal(word_of(&l), BIASED + READER);
		near_rwlock_read_unlock(&l);
		assert_int_equal(word_of(&l), BIASED + READER);
		read_n_times(&l, 10);
		assert_int_equal(word_of(&l), BIASED + READER);
		assert_true(another_can(try_to_read, &l));
	}
	assert_true(another_can(try_to_write, &l));
}

static void bias_does_not_return_next_to_a_writer(void **state)
{
	make_lock_with_slots();
	near_rwlock_write_lock(&l);
	near_rwlock_downgrade(&l);
	l.rebias_after = 2;
	near_mutex_lock(&l.writers);
	near__rwlock_claim(&l);
	fences_made();
	read_n_times(&l, 10); /* nested */
	assert_int_equal(state_of(&l), WRITER + READER);
	near__rwlock_restore_bias(&l);
	near_mutex_unlock(&l.writers);
	near__rwlock_leave(&l, 0);
	/* Nor while a thread changes gates; but right after. */
	near__gates_lock();
	read_n_times(&l, 10);
	assert_int_equal(fences_made(), 0);
	near__gates_unlock();
	read_n_times(&l, 1);
	assert_int_equal(fences_made(), 1);
	assert_true(word_of(&l) & BIASED);
	near_rwlock_read_unlock(&l);
}

static uint32_t threshold_after(long ns)
{
	make_lock();
	tick_ns = ns;
	near_rwlock_write_lock(&l);
	tick_ns = 0;
	near_rwlock_write_unlock(&l);
	destroy_lock(NULL);
	return l.rebias_after;
}

static void the_threshold_depends_on_the_time_of_a_revocation(void **state)
{
	if (!has_slots())
		skip();
	assert_int_equal(threshold_after(10000), 1000);
	assert_int_equal(threshold_after(20000), 2000);
	assert_int_equal(threshold_after(1), 250);
	assert_int_equal(threshold_after(900000000), WORD_READS_MAX);
}

static void bias_does_not_come_twice(void **state)
{
	struct near_rwlock other;

	make_lock_with_slots();
	near_rwlock_init(&other, NULL);
	slots_enter(20);
	read_n_times(&other, 1);
	slots_leave();
	near_rwlock_write_lock(&l);
	near_rwlock_downgrade(&l);
	fences_made();
	near__rwlock_restore_bias(&l);
	assert_int_equal(fences_made(), 1);
	near__rwlock_restore_bias(&l);
	assert_int_equal(fences_made(), 0);
	/* Gates that no thread used stay as they are. */
	assert_int_equal(gate_in(20), NEAR__UNOPENED);
	near_rwlock_read_unlock(&l);
	near_rwlock_destroy(&other);
}

static bool will_revoke; /* when a slot is opened next */
uint32_t __real_near__slot_open_own(const void *p);
uint32_t __wrap_near__slot_open_own(const void *p);

uint32_t __wrap_near__slot_open_own(const void *p)
{
	bool revoke = will_revoke;

	will_revoke = false;
	if (revoke) {
		near__rwlock_claim(&l);
		near__rwlock_revoke(&l);
	}
	return __real_near__slot_open_own(p);
}

static void a_gate_stays_shut_if_a_writer_was_faster(void **state)
{
	make_lock_with_slots();
	slots_enter(50);
	will_revoke = true;
	assert_false(near_rwlock_try_read_lock(&l));
	assert_int_equal(gate_in(50), NEAR__UNOPENED);
	slots_leave();
	assert_int_equal(word_of(&l), WRITER);
	near__rwlock_leave(&l, 0);
}

/* A slot that nobody used, while its gate must not be opened: the word takes the count. */
static void a_reader_that_cannot_open_a_gate_uses_the_word(void **state)
{
	make_lock_with_slots();
	l.rebias_after = 50;
	near__gates_lock();
	near_rwlock_read_lock(&l);
	assert_int_equal(word_of(&l), BIASED + READER);
	near__gates_unlock();
	near_rwlock_read_unlock(&l);
	assert_int_equal(near__rwlock_sum(&l, false), -1);
	assert_true(another_can(try_to_write, &l));
	/* Fresh gates stay closed while there is no bias. */
	slots_enter(77);
	near_rwlock_read_lock(&l);
	assert_int_equal(gate_in(77), NEAR__UNOPENED);
	near_rwlock_read_unlock(&l);
	slots_leave();
	assert_int_equal(state_of(&l), 0);
}

static void try_write_fences_only_if_it_may_succeed(void **state)
{
	make_lock();
	near_rwlock_read_lock(&l);
	for (unsigned i = 0; i < 5; i++)
		assert_false(another_can(try_to_write, &l));
	assert_int_equal(fences_made(), 0);
	near_rwlock_read_unlock(&l);
	assert_true(near_rwlock_try_write_lock(&l));
	assert_int_equal(fences_made(), has_slots());
	near_rwlock_write_unlock(&l);
	assert_int_equal(word_of(&l), 0);
}

static void read_by_surprise(void)
{
	near_rwlock_read_lock(&l);
}

/* In addition to this thread's lock: it reads as another thread would. */
static void try_write_gives_up_if_a_reader_arrived(void **state)
{
	make_lock_with_slots();
	slots_enter(1);
	read_n_times(&l, 1);
	near_rwlock_read_lock(&l); /* nested ones pass the claim */
	near_rwlock_read_unlock(&l);
	near__held_add(&l);
	fence_hook = read_by_surprise;
	assert_false(near_rwlock_try_write_lock(&l));
	assert_int_equal(state_of(&l), READER);
	assert_false(near_mutex_is_mine(&l.writers));
	near_rwlock_read_unlock(&l);
	near__held_remove(&l);
	slots_leave();
	assert_true(near_rwlock_try_write_lock(&l));
	near_rwlock_write_unlock(&l);
}

/* A writer that has claimed and closed a gate, and does not run: a reader that may be nested does
 * not wait for it to continue. */
static void a_nested_reader_does_not_wait_for_the_revocation(void **state)
{
	struct near_rwlock many[NEAR__HOLDS + 1], *last = &many[NEAR__HOLDS];

	if (!has_slots())
		skip();
	slots_enter(9);
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_init(&many[i], NULL);
		near_rwlock_read_lock(&many[i]);
	}
	fences_made();
	near_mutex_lock(&last->writers);
	near__rwlock_claim(last);
	near__gated_count(last->copies, 9)->gate = NEAR__CLOSED;
	near_rwlock_read_lock(last);
	assert_int_equal(fences_made(), 0);
	assert_int_equal(word_of(last), WRITER + READER + BIASED);
	near__rwlock_revoke(last);
	assert_int_equal(word_of(last), WRITER + 2 * READER);
	near_rwlock_write_unlock(last);
	near_rwlock_read_unlock(last);
	slots_leave();
	for (unsigned i = 0; i <= NEAR__HOLDS; i++) {
		near_rwlock_read_unlock(&many[i]);
		near_rwlock_destroy(&many[i]);
	}
}

UNIT_MAIN_EACH(NULL, destroy_lock, zero_is_a_free_lock, readers_count_on_their_slots,
	       a_writer_adds_the_slots_up, bias_returns_after_enough_reads,
	       bias_does_not_return_next_to_a_writer, bias_does_not_come_twice,
	       a_gate_stays_shut_if_a_writer_was_faster,
	       the_threshold_depends_on_the_time_of_a_revocation,
	       a_reader_that_cannot_open_a_gate_uses_the_word,
	       try_write_fences_only_if_it_may_succeed, try_write_gives_up_if_a_reader_arrived,
	       a_nested_reader_does_not_wait_for_the_revocation)
