/* SPDX-License-Identifier: MIT */
/* near_rcu's functions that contain sequences, aborted at each instruction while signal handlers
 * and other threads read, call and end grace periods: what read_lock remembers of a thread, too. */
#include "rcus.h"

#include "tortured.h"

static struct near_rcu d;
static struct near_rcu_head heads[64];
static unsigned called, ran;

static void count(struct near_rcu_head *head)
{
	ran++;
}

static void setup(void *unused)
{
	if (d.slots)
		near_rcu_destroy(&d);
	if (near_rcu_init(&d, NULL))
		abort();
	d.call_wakes = NEAR__RCU_NO_CALL; /* a test runs the callbacks */
	called = ran = 0;
}

/* Interferers run between any two instructions of a function that contains a sequence: what changes
 * the variables above must not be inlined there. */
#define OUT_OF_LINE __attribute__((noinline))

OUT_OF_LINE static void lock(void *unused)
{
	near_rcu_read_lock(&d);
	near_rcu_read_lock(&d);
	near_rcu_read_unlock(&d);
	near_rcu_read_unlock(&d);
}

OUT_OF_LINE static void enter(void *unused)
{
	near_rcu_token t = near_rcu_enter(&d);

	near_rcu_exit(&d, t);
}

OUT_OF_LINE static void enter_slow(void *unused)
{
	near__rcu_exit_slow(&d, near__rcu_enter_slow(&d));
}

OUT_OF_LINE static void call(void *unused)
{
	near_rcu_call(&d, &heads[__atomic_fetch_add(&called, 1, __ATOMIC_RELAXED)], count, 1);
}

static const char *check(void *unused)
{
	if (near_rcu_is_reading(&d))
		return "the thread is still in a section";
	if (rcu_now(&d).readers)
		return "a section was not counted out";
	near_rcu_synchronize(&d);
	near__rcu_work_here(&d);
	near__rcu_work_here(&d);
	return ran == called ? NULL : "a callback is lost, or was called twice";
}

static const struct near_torture_rival rivals[] = {
	{"lock", lock, NULL, 0},
	{"enter", enter, NULL, 0},
	{"call", call, NULL, 0},
};

static void torture(void (*run)(void *), unsigned sequences)
{
	const struct near_torture t = {
		.setup = setup,
		.run = run,
		.rivals = rivals,
		.n_rivals = LENGTH(rivals),
		.check = check,
	};

	if (!near__thread_live())
		skip();
	expect_tortured(&t, sequences);
}

UNIT_TEST(the_wrapper, torture(lock, 2))
UNIT_TEST(tokens, torture(enter, 2))
UNIT_TEST(tokens_out_of_line, torture(enter_slow, 2))
UNIT_TEST(calls, torture(call, 1))

UNIT_MAIN(the_wrapper, tokens, tokens_out_of_line, calls)
