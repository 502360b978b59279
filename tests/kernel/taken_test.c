/* SPDX-License-Identifier: MIT */
/* A thread whose registration another part of the program takes away: it is not live any more, for
 * good, and reports why. abort_test takes it away at each instruction of each sequence. */
#include <nearcpu/counter.h>

#include "kernel/hint.h"
#include "live.h"
#include "taken.h"
#include "team.h"

static struct near_counter count;

static void check_place(void)
{
	CHECK(near_cpu() < near_cpus());
	CHECK(near_cid() < near_cpus());
	CHECK(near_slot() < near_slots());
	CHECK(near_node() < status_now().nodes);
	CHECK(near__hint() < near_cpus());
}

static void check_dead(void)
{
	struct near_rseq_status st = status_now();

	CHECK(!st.live && !st.own_area && st.area_size == 0);
	CHECK(strstr(st.why, "another part of the program took this thread's registration away"));
	check_place();
}

/* Nothing of the library but near_cpu has run since. */
static void *cpu_at_once(void *unused)
{
	if (!is_live())
		return unused;
	taken_away();
	for (int i = 0; i < 100; i++)
		CHECK(near_cpu() < near_cpus());
	check_place();
	return unused;
}

static void near_cpu_never_names_none(void **state)
{
	unit_join(unit_start(cpu_at_once, NULL));
}

static void *add_without(void *unused)
{
	near_counter_add(&count, 1);
	if (!is_live())
		return unused;
	taken_away();
	for (int i = 1; i < 1000; i++)
		near_counter_add(&count, 1);
	CHECK(near__self.state == NEAR__DEAD);
	check_dead();
	return unused;
}

static void dead_and_says_why(void **state)
{
	bool live = is_live();

	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(add_without, NULL));
	assert_int_equal(near_counter_read(&count), live ? 1000 : 1);
	assert_int_equal(is_live(), live);
	near_counter_destroy(&count);
}

/* The other part registers an area of its own, and later gives all back. */
static void *other_owner(void *unused)
{
	static __thread struct near__area other __attribute__((aligned(32)));
	struct near__thread before;

	if (!is_live())
		return unused;
	before = taken_away();
	CHECK(near__syscall_rseq(&other, 32, 0) == 0);
	near_counter_add(&count, 1);
	check_dead();
	CHECK(near__syscall_rseq(&other, 32, 1) == 0);
	CHECK(taken_call(&before, 0) == 0);
	near_counter_add(&count, 1);
	check_dead();
	return unused;
}

static void stays_dead(void **state)
{
	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(other_owner, NULL));
	assert_int_equal(near_counter_read(&count), is_live() ? 2 : 0);
	near_counter_destroy(&count);
}

/* Before the thread used the library. */
static void *taken_first(void *libc_area)
{
	struct near__area *area = near__area_of_libc();

	CHECK(near__self.state == NEAR__NEW && area);
	CHECK(near__syscall_rseq(area, near__area_size_of_libc(), 1) == 0);
	near_counter_add(&count, 1);
	check_dead();
	return libc_area;
}

static void before_the_first_use(void **state)
{
	if (!is_live() || status_now().own_area)
		skip();
	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(taken_first, NULL));
	assert_int_equal(near_counter_read(&count), 1);
	near_counter_destroy(&count);
}

/* In a process that takes the portable path, the C library's area has the CPU. */
static void *portable(void *unused)
{
	const struct near__area *area;

	near_slot();
	area = near__self.libc_area;
	if (area && !is_live())
		CHECK(near__syscall_rseq((void *)(uintptr_t)area, near__area_size_of_libc(), 1) ==
		      0);
	near_counter_add(&count, 1);
	check_place();
	return unused;
}

static void portable_path_finds_the_cpu(void **state)
{
	assert_int_equal(near_counter_init(&count), 0);
	unit_join(unit_start(portable, NULL));
	assert_int_equal(near_counter_read(&count), 1);
	near_counter_destroy(&count);
}

#define ADDS 20000

static void add_half_without(unsigned number)
{
	for (int i = 0; i < ADDS; i++) {
		near_counter_add(&count, 1);
		if (i == 10 && number % 2 && is_live())
			taken_away();
	}
}

static void nothing_is_lost(void **state)
{
	assert_int_equal(near_counter_init(&count), 0);
	team_run(4, add_half_without);
	assert_int_equal(near_counter_read(&count), 4 * ADDS);
	near_counter_destroy(&count);
}

UNIT_MAIN(near_cpu_never_names_none, dead_and_says_why, stays_dead, before_the_first_use,
	  portable_path_finds_the_cpu, nothing_is_lost)
