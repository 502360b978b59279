/* SPDX-License-Identifier: MIT */
/* near_stack, step by step: the order in a slot, lists taken from other slots, how often other CPUs
 * are interrupted. stack_threads_test.c has threads. The program is linked with --wrap=near__fence
 * and --wrap=clock_gettime. */
#include <nearcpu/stack.h>

#include "slots.h"

#include "clock.h"
#include "fences.h"
#include "live.h"

#define INTERVAL_NS 1000000

static uint64_t clock_ns;

static int64_t clock_of_test(clockid_t clock)
{
	return clock_ns && clock == CLOCK_MONOTONIC ? (int64_t)clock_ns : REAL_CLOCK;
}

/* ---- nodes by number ---- */

#define NODES 1000
static struct near_stack_node nodes[NODES];
static unsigned seen[NODES];

static struct near_stack s; /* a new one in each test */

static void forget_seen(void)
{
	memset(seen, 0, sizeof(seen));
}

static int make_stack(void **state)
{
	memset(&s, 0x5a, sizeof(s));
	KEEPS_ERRNO(assert_int_equal(near_stack_init(&s), 0));
	forget_seen();
	fences_made();
	return 0;
}

static int destroy_stack(void **state)
{
	slots_leave();
	near_stack_destroy(&s);
	assert_null(s.p);
	return 0;
}

static bool live(void)
{
	return near__process.usable;
}

static void push(unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++)
		near_stack_push(&s, &nodes[i]);
}

/* Counts the nodes of a list; each must be one that was not seen yet. */
static unsigned note_list(const struct near_stack_node *list)
{
	unsigned n = 0;

	for (; list; list = list->next, n++) {
		assert_true(list >= nodes && list < nodes + NODES);
		assert_int_equal(seen[list - nodes]++, 0);
	}
	return n;
}

static void note(struct near_stack_node *node)
{
	node->next = NULL;
	note_list(node);
}

static void expect_pops(unsigned from, int step, unsigned n)
{
	for (unsigned i = 0; i < n; i++, from += (unsigned)step)
		assert_ptr_equal(near_stack_pop(&s), &nodes[from]);
}

/* ---- one slot ---- */

static void the_last_pushed_is_popped_first(void **state)
{
	slots_enter(4);
	errno = UNIT_ERRNO;
	assert_null(near_stack_pop(&s));
	push(0, 100);
	expect_pops(99, -1, 50);
	push(50, 20);
	expect_pops(69, -1, 70);
	assert_null(near_stack_pop(&s));
	assert_null(near_stack_pop_all(&s));
	assert_null(near_stack_steal(&s));
	assert_null(near_stack_drain(&s));
	assert_null(near_stack_pop(&s));
	push(7, 1);
	expect_pops(7, 1, 1);
	assert_int_equal(errno, UNIT_ERRNO);
}

static void a_chain_is_pushed_in_its_order(void **state)
{
	slots_enter(0);
	push(100, 2);
	for (unsigned i = 0; i < 9; i++)
		nodes[i].next = &nodes[i + 1];
	nodes[9].next = &nodes[500]; /* must not matter */
	near_stack_push_chain(&s, &nodes[0], &nodes[9]);
	near_stack_push_chain(&s, &nodes[20], &nodes[20]);
	expect_pops(20, 1, 1);
	expect_pops(0, 1, 10);
	expect_pops(101, -1, 2);
	assert_null(near_stack_pop(&s));
}

static void pop_all_takes_the_local_list(void **state)
{
	struct near_stack_node *list;

	slots_enter(1);
	push(0, 10);
	slots_enter(2);
	push(10, 5);
	list = near_stack_pop_all(&s);
	assert_ptr_equal(list, live() ? &nodes[14] : &nodes[9]);
	assert_int_equal(note_list(list), live() ? 5 : 10);
	if (live()) {
		assert_null(near_stack_pop_all(&s)); /* nothing of other slots */
		slots_enter(1);
	}
	assert_int_equal(note_list(near_stack_pop_all(&s)), live() ? 10 : 5);
	assert_null(near_stack_pop_all(&s));
	assert_int_equal(fences_made(), 0);
}

/* As a thread does that is not live, whatever this one is. */
static void push_to_fallback(unsigned first, unsigned n)
{
	struct near__thread self = play_dead();

	push(first, n);
	near__self = self;
}

static void fallback_lists_are_found(void **state)
{
	slots_enter(3);
	push(0, 2);
	slots_enter(90);
	push_to_fallback(10, 3);
	slots_enter(91);
	push_to_fallback(20, 2);
	slots_enter(3);
	if (live())
		expect_pops(1, -1, 2); /* the local slot first */
	for (unsigned i = live() ? 2 : 0; i < 7; i++) {
		struct near_stack_node *node = near_stack_pop(&s);

		assert_non_null(node);
		note(node);
	}
	assert_null(near_stack_pop(&s));
	assert_int_equal(fences_made(), 0);
	push_to_fallback(30, 4);
	forget_seen();
	assert_int_equal(note_list(near_stack_pop_all(&s)), 4);
	push_to_fallback(40, 4);
	assert_int_equal(note_list(near_stack_drain(&s)), 4);
}

/* ---- other slots ---- */

static void push_everywhere(void)
{
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
		slots_enter(slot);
		push(slot * 3, 3);
	}
}

static void drain_takes_all(void **state)
{
	push_everywhere();
	slots_enter(17);
	push_to_fallback(900, 5);
	assert_int_equal(fences_made(), 0);
	errno = UNIT_ERRNO;
	assert_int_equal(note_list(near_stack_drain(&s)), 3 * SLOTS_CPUS + 5);
	assert_int_equal(errno, UNIT_ERRNO);
	/* Two for each 256 slots, since slots are closed together. */
	assert_int_equal(fences_made(), live() ? 2 * ((SLOTS_CPUS + 255) / 256) : 0);
	assert_null(near_stack_drain(&s));
	/* The slots are open again. */
	fences_made();
	forget_seen();
	push_everywhere();
	slots_enter(60);
	expect_pops(182, -1, 3);
	assert_int_equal(fences_made(), 0);
	assert_int_equal(note_list(near_stack_drain(&s)), 3 * SLOTS_CPUS - 3);
}

static void steal_finds_every_node(void **state)
{
	struct near_stack_node *node;
	unsigned n = 0;

	push_everywhere();
	slots_enter(40);
	while ((node = near_stack_steal(&s))) {
		note(node);
		/* What was shared out is found by pops. */
		while ((node = near_stack_pop(&s)))
			note(node);
		assert_true(n++ < 2 * SLOTS_CPUS);
	}
	for (unsigned i = 0; i < 3 * SLOTS_CPUS; i++)
		assert_int_equal(seen[i], 1);
	assert_null(near_stack_drain(&s));
}

/* What the victim's threads may do until it is closed: pop their node, and push it elsewhere. */
static void move_the_node(void)
{
	struct near_stack_node **from = near_percpu_at(s.p, 5);
	struct near_stack_node **to = near_percpu_at(s.p, 6);

	*to = *from;
	*from = NULL;
}

static void steal_checks_all_when_its_victim_is_empty(void **state)
{

	if (!live())
		skip();
	slots_enter(6);
	push(1, 1);
	expect_pops(1, 1, 1);
	slots_enter(5);
	push(0, 1);
	slots_enter(100);
	fence_hook = move_the_node;
	assert_ptr_equal(near_stack_steal(&s), &nodes[0]);
	assert_int_equal(fences_made(), 4);
	assert_null(near_stack_drain(&s));
}

/* The thief keeps half of a list, at most 65 nodes; the others need no further interrupt. */
static void a_stolen_list_is_shared_out(void **state)
{
	static const unsigned sizes[] = {1, 2, 3, 4, 5, 64, 128, 129, 130, 500};

	if (!live())
		skip();
	for (unsigned i = 0; i < LENGTH(sizes); i++) {
		unsigned kept;

		forget_seen();
		slots_enter(8);
		push(0, sizes[i]);
		slots_enter(70);
		fences_made();
		assert_ptr_equal(near_stack_steal(&s), &nodes[sizes[i] - 1]);
		assert_int_equal(fences_made(), 2);
		kept = 1 + note_list(near_stack_pop_all(&s));
		assert_in_range(kept, (sizes[i] + 1) / 2 < 65 ? (sizes[i] + 1) / 2 : 65, 65);
		if (sizes[i] > kept) {
			slots_enter(8); /* the victim too */
			assert_int_equal(note_list(near_stack_pop_all(&s)), sizes[i] - kept);
		}
		assert_null(near_stack_drain(&s));
	}
}

static void a_pop_steals_once_a_millisecond(void **state)
{

	if (!live())
		skip();
	clock_ns = 5000000000;
	slots_enter(5);
	push(0, 5);
	slots_enter(6);
	expect_pops(4, -1, 1);
	assert_int_equal(fences_made(), 2);
	for (unsigned i = 0; i < 4; i++)
		assert_non_null(near_stack_pop(&s)); /* no need to steal */
	for (unsigned i = 0; i < 100; i++)
		assert_null(near_stack_pop(&s));
	slots_enter(5);
	push(0, 5);
	slots_enter(6);
	for (unsigned i = 0; i < 100; i++) {
		clock_ns = 5000000000 + i * (INTERVAL_NS / 100);
		assert_null(near_stack_pop(&s)); /* not due */
	}
	assert_int_equal(fences_made(), 0);
	clock_ns = 5000000000 + INTERVAL_NS;
	expect_pops(4, -1, 1);
	assert_int_equal(fences_made(), 2);
	/* An explicit steal does not wait, nor does it put off the next. */
	slots_enter(5);
	assert_non_null(near_stack_drain(&s));
	push(0, 5);
	slots_enter(6);
	fences_made();
	assert_ptr_equal(near_stack_steal(&s), &nodes[4]);
	assert_int_equal(fences_made(), 2);
	assert_non_null(near_stack_drain(&s));
	clock_ns = 0;
}

/* A pop that finds another thread at the gates does not wait for it. */
static void a_pop_does_not_wait_for_a_closer(void **state)
{
	slots_enter(5);
	push(0, 5);
	slots_enter(6);
	near_lock_lock(&near__percpu.closers);
	if (live())
		assert_null(near_stack_pop(&s));
	else
		assert_non_null(near_stack_pop(&s));
	near_lock_unlock(&near__percpu.closers);
	assert_int_equal(note_list(near_stack_drain(&s)), live() ? 5 : 4);
}

/* While a slot is closed its threads use the fallback lists. */
static void a_closed_slot_is_bypassed(void **state)
{
	uint32_t *gate;

	if (!live())
		skip();
	slots_enter(5);
	push(0, 2);
	gate = (uint32_t *)((char *)near_percpu_at(s.p, 5) + 8);
	assert_int_equal(*gate, NEAR__OPEN);
	*gate = NEAR__CLOSED;
	push(10, 2);
	expect_pops(11, -1, 2);
	*gate = NEAR__OPEN;
	expect_pops(1, -1, 2);
	assert_null(near_stack_pop(&s));
}

static void ordinary_use_interrupts_nobody(void **state)
{
	slots_enter(0);
	for (unsigned i = 0; i < 1000; i++) {
		push(0, 10);
		expect_pops(9, -1, 10);
	}
	assert_int_equal(fences_made(), 0);
}

UNIT_MAIN_EACH(make_stack, destroy_stack, the_last_pushed_is_popped_first,
	       a_chain_is_pushed_in_its_order, pop_all_takes_the_local_list,
	       fallback_lists_are_found, drain_takes_all, steal_finds_every_node,
	       steal_checks_all_when_its_victim_is_empty, a_stolen_list_is_shared_out,
	       a_pop_steals_once_a_millisecond, a_pop_does_not_wait_for_a_closer,
	       a_closed_slot_is_bypassed, ordinary_use_interrupts_nobody)
