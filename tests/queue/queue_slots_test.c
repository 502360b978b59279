/* SPDX-License-Identifier: MIT */
/* near_queue: rings, step by step, and when a sleeper makes a membarrier. The program is linked
 * with --wrap=near__topology_cpus and --wrap=near__fence. */
#include "slots.h"

#include "fences.h"
#include "kinds.h"
#include "live.h"
#include "queue/queue.h"
#include "waits.h"

static struct near_queue q; /* a new one in each test */

static int make_queue(void **state)
{
	assert_int_equal(near_queue_init(&q, 4), 0);
	fences_made();
	return 0;
}

static int destroy_queue(void **state)
{
	slots_leave();
	near_queue_destroy(&q);
	return 0;
}

static void put(unsigned slot, uintptr_t n)
{
	slots_enter(slot);
	assert_int_equal(near_queue_try_put(&q, element(n)), 0);
}

/* 0: none. */
static uintptr_t get(void)
{
	void *e;

	return near_queue_try_get(&q, &e) ? 0 : (uintptr_t)e;
}

static unsigned ring_number(unsigned slot)
{
	return near__process.usable ? slot : near__first_fallback() + slot;
}

static void each_slot_has_its_order_and_its_capacity(void **state)
{
	uintptr_t next[SLOTS_CPUS] = {0};

	for (unsigned i = 0; i < 4; i++)
		for (unsigned s = 0; s < SLOTS_CPUS; s++)
			put(s, 1000 * (s + 1) + i);
	for (unsigned s = 0; s < SLOTS_CPUS; s += 9) {
		slots_enter(s);
		assert_int_equal(near_queue_try_put(&q, NULL), -EAGAIN);
	}
	assert_int_equal(near_queue_count(&q), 4 * SLOTS_CPUS);
	slots_enter(77);
	for (unsigned i = 0; i < 4 * SLOTS_CPUS; i++) {
		uintptr_t e = get(), s = e / 1000 - 1;

		assert_true(s < SLOTS_CPUS);
		assert_int_equal(e % 1000, next[s]++);
	}
	assert_int_equal(get(), 0);
}

/* Of 32 gets one begins elsewhere: at the slots 5, 7 and 9 in turn. */
static void gets_prefer_their_own_slot_and_forget_none(void **state)
{
	unsigned others = 0;

	if (!is_live())
		skip();
	put(5, 5);
	put(9, 9);
	put(7, 7);
	for (unsigned i = 0; i < 96 * 32; i++) {
		uintptr_t e = get();

		others += e != 7;
		put((unsigned)e, e);
		slots_enter(7);
	}
	assert_in_range(others, 60, 68);
}

/* A thread that gets from two queues in turn. */
static void no_queue_is_forgotten(void **state)
{
	struct near_queue both[2];

	if (!is_live())
		skip();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(near_queue_init(&both[i], 4), 0);
		slots_enter(5);
		assert_int_equal(near_queue_try_put(&both[i], element(5)), 0);
	}
	slots_enter(7);
	for (unsigned i = 0, found = 0; found < 2; i++) {
		void *e;

		assert_true(i < 1000);
		assert_int_equal(near_queue_try_put(&both[i % 2], element(7)), 0);
		assert_int_equal(near_queue_try_get(&both[i % 2], &e), 0);
		found += e == element(5);
	}
	for (unsigned i = 0; i < 2; i++)
		near_queue_destroy(&both[i]);
}

static void a_limit_is_raised_as_the_head_moves(void **state)
{
	struct ring *r = ring_of(&q, ring_number(3));

	for (unsigned i = 1; i < 100; i++) {
		put(3, i);
		/* A thread that was preempted with an old limit stores it. */
		if (i % 7 == 0)
			r->limit = r->limit < 5 ? 0 : r->limit - 5;
		assert_int_equal(get(), i);
	}
	assert_int_equal(r->tail, 99);
	assert_int_equal(r->head, 99);
}

/* ---- waits ---- */

struct wait {
	bool puts;
	unsigned from, to; /* the slots before and after the sleep */
	int result;
	pthread_t thread;
};

static struct near_cancel token;

static void *run_wait(void *arg)
{
	struct wait *w = arg;
	void *e;

	slots_enter(w->from);
	w->result = w->puts ? near_queue_put_until(&q, element(1), 0, NULL, &token)
			    : near_queue_get_until(&q, &e, 0, NULL, &token);
	return NULL;
}

static unsigned asleep_for(const struct ring *r)
{
	return waits_on(r ? &r->putters : &q.state, NEAR__SPACE_QUEUE);
}

static void start_wait(struct wait *w)
{
	const struct ring *r = w->puts ? ring_of(&q, ring_number(w->from)) : NULL;
	unsigned before = asleep_for(r);

	w->thread = unit_start(run_wait, w);
	UNTIL(asleep_for(r) == before + 1);
}

static void end_wait(struct wait *w, int result)
{
	unit_join(w->thread);
	assert_int_equal(w->result, result);
}

static void room_wakes_those_that_wait_for_it_alone(void **state)
{
	struct wait three = {.puts = true, .from = 3}, four = {.puts = true, .from = 4};
	bool took_three = false;
	void *e[4];

	near_cancel_reset(&token);
	for (unsigned i = 0; i < 4; i++)
		put(3, 3);
	for (unsigned i = 0; i < 4; i++)
		put(4, 4);
	start_wait(&three);
	start_wait(&four);
	slots_enter(4);
	while (get() != 4)
		took_three = true;
	end_wait(&four, 0);
	assert_true(took_three || asleep_for(ring_of(&q, ring_number(3))) == 1);
	near_cancel_set(&token);
	end_wait(&three, took_three ? 0 : -ECANCELED);
	while (near_queue_try_get_many(&q, e, 4) > 0)
		;
}

/* A putter that is woken runs on another slot by then: it wakes the next one. The first putter's
 * words are changed while it sleeps. */
static struct near__thread *volatile sleeper;
static struct near__area *volatile sleeper_area;

static void *run_moved(void *arg)
{
	struct wait *w = arg;

	slots_enter(w->from);
	sleeper = &near__self;
	sleeper_area = &slots_area;
	w->result = near_queue_put_until(&q, element(1), 0, NULL, NULL);
	return NULL;
}

static void a_putter_that_moved_passes_the_wake_up_on(void **state)
{
	struct ring *r = ring_of(&q, ring_number(3));
	struct wait moved = {.puts = true, .from = 3}, stays = {.puts = true, .from = 3};

	near_cancel_reset(&token);
	for (unsigned i = 0; i < 4; i++)
		put(3, 3);
	moved.thread = unit_start(run_moved, &moved);
	UNTIL(asleep_for(r) == 1);
	start_wait(&stays);
	sleeper_area->cpu_id = sleeper_area->mm_cid = 8;
	assert_int_equal(get(), 3);
	end_wait(&moved, 0);
	end_wait(&stays, 0);
	assert_int_equal(r->tail - r->head, 4);
	assert_int_equal(near_queue_count(&q), 5);
}

static void sleep_and_wake(void)
{
	struct wait w = {.from = 2};

	near_cancel_reset(&token);
	start_wait(&w);
	put(1, 1);
	end_wait(&w, 0);
}

static void put_and_get(unsigned n)
{
	slots_enter(1);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(near_queue_try_put(&q, element(1)), 0);
		assert_int_equal(get(), 1);
	}
}

/* The first sleep makes puts fence, since none came before; from then on sleeps are cheap. */
static void puts_fence_while_sleeps_are_frequent(void **state)
{
	unsigned expected = near__process.usable;

	sleep_and_wake();
	assert_int_equal(fences_made(), expected);
	assert_int_equal(q.state, FENCES | FENCED);
	for (unsigned i = 0; i < 20; i++)
		sleep_and_wake();
	assert_int_equal(fences_made(), 0);
}

static void puts_do_not_fence_while_sleeps_are_rare(void **state)
{
	if (!near__process.usable)
		skip();
	sleep_and_wake();
	q.fence_puts = 300;
	put_and_get(700);
	assert_int_equal(q.state, 0);
	fences_made();
	for (unsigned i = 0; i < 3; i++) {
		sleep_and_wake();
		assert_int_equal(fences_made(), 1);
		assert_int_equal(q.state, 0);
		q.fence_puts = 300;
		put_and_get(300);
	}
	sleep_and_wake();
	sleep_and_wake();
	assert_int_equal(q.state, FENCES | FENCED);
}

/* ---- close ---- */

static void put_now(void)
{
	assert_int_equal(near_queue_try_put(&q, NULL), -EPIPE);
}

static void get_now(void)
{
	assert_int_equal(get(), 1);
	assert_int_equal(near_queue_try_get(&q, (void *[1]){NULL}), -EPIPE);
}

static void close_refuses_before_it_fences_and_says_so_after(void **state)
{
	void *e;

	put(1, 1);
	fence_hook = put_now;
	near_queue_close(&q);
	assert_int_equal(fences_made(), 1);
	assert_int_equal(get(), 1);
	assert_int_equal(near_queue_get(&q, &e), -EPIPE);
	near_queue_destroy(&q);
	assert_int_equal(near_queue_init(&q, 4), 0);
	put(1, 1);
	fence_hook = get_now;
	near_queue_close(&q);
	assert_int_equal(near_queue_try_get(&q, &e), -EPIPE);
}

/* As a child finds it whose parent forked in the middle of a close. */
static void a_getter_completes_a_close(void **state)
{
	void *e;

	put(1, 1);
	q.open = NEAR__CLOSED;
	assert_int_equal(near_queue_get(&q, &e), 0);
	assert_int_equal(near_queue_try_get(&q, &e), -EPIPE);
	assert_true(q.state & CLOSED);
}

static void begin_close(void)
{
	q.open = NEAR__CLOSED;
}

/* It closes the queue itself, and wakes itself. */
static void a_getter_that_goes_to_sleep_completes_a_close(void **state)
{
	void *e;

	if (!near__process.usable)
		skip();
	fence_hook = begin_close;
	assert_int_equal(near_queue_get(&q, &e), -EPIPE);
	assert_int_equal(q.state & (CLOSED | GETTERS), CLOSED);
}

static void a_thread_that_is_not_live_takes_the_fallback(void **state)
{
	struct near__thread before = play_dead();

	assert_int_equal(near_queue_try_put(&q, element(5)), 0);
	near__self = before;
	slots_enter(6);
	assert_int_equal(get(), 5);
}

static void misuse_stops_the_program(void **state)
{
	static const char *const lines[] = {"near_queue: the queue was destroyed, or never made",
					    "near_fifo: the fifo was destroyed, or never made"};
	union any_queue any;
	void *e;

	for (size_t i = 0; i < LENGTH(queue_kinds); i++) {
		const struct queue_kind *k = queue_kinds[i];

		memset(&any, 0, sizeof(any));
		DIES(lines[i])
			k->try_put(&any, NULL);
		DIES(lines[i])
			k->get(&any, &e);
		assert_int_equal(k->init(&any, 1), 0);
		k->destroy(&any);
		DIES(lines[i])
			k->try_get(&any, &e);
		DIES(lines[i])
			k->close(&any);
		DIES(lines[i])
			k->destroy(&any);
	}
	DIES("near_queue_destroy: threads wait, or a watch is armed") {
		start_wait(&(struct wait){.from = 1});
		near_queue_destroy(&q);
	}
}

/* It loads the tails alone. */
static void a_poll_finds_what_comes(void **state)
{
	for (unsigned slot = 0; slot < SLOTS_CPUS; slot += 7) {
		slots_enter(3);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(get(), 0);
		put(slot, slot + 1);
		put(slot, slot + 2);
		slots_enter(3);
		assert_int_equal(get(), slot + 1);
		assert_int_equal(get(), slot + 2);
	}
	assert_int_equal(get(), 0);
}

/* As many elements came to it as to the one that was found empty. */
static void a_new_queue_is_not_taken_for_an_old_one(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		put(3, 1);
		slots_enter(i);
		assert_int_equal(get(), 1);
		assert_int_equal(get(), 0);
		assert_int_equal(get(), 0);
		slots_leave();
		near_queue_destroy(&q);
		assert_int_equal(near_queue_init(&q, 4), 0);
	}
}

UNIT_MAIN_EACH(make_queue, destroy_queue, each_slot_has_its_order_and_its_capacity,
	       gets_prefer_their_own_slot_and_forget_none, no_queue_is_forgotten,
	       a_limit_is_raised_as_the_head_moves, room_wakes_those_that_wait_for_it_alone,
	       a_putter_that_moved_passes_the_wake_up_on, puts_fence_while_sleeps_are_frequent,
	       puts_do_not_fence_while_sleeps_are_rare,
	       close_refuses_before_it_fences_and_says_so_after, a_getter_completes_a_close,
	       a_getter_that_goes_to_sleep_completes_a_close,
	       a_thread_that_is_not_live_takes_the_fallback, a_poll_finds_what_comes,
	       a_new_queue_is_not_taken_for_an_old_one, misuse_stops_the_program)
