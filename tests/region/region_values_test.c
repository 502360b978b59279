/* SPDX-License-Identifier: MIT */
/* near_region: objects of values, and whether the owners of their places live. */
#include "regions.h"

#include <signal.h>
#include <sys/wait.h>

#include "region/region.h"

#define PLACES 4
#define BEGIN ((uint64_t)1 << 22) /* the lowest bit of when an owner began */
#define BEGIN_BITS ((uint64_t)1 << 20)

static struct near_region region_made(void)
{
	return opened_region(&(struct near_region_options){.size = 64});
}

/* Owners at the begin of the common area, values behind them. */
static struct near_region_object values_in(const struct near_region *r, bool is_gauge)
{
	struct near_region_object owners = {.name = "owners",
					    .kind = NEAR_REGION_BYTES,
					    .flags = NEAR_REGION_COMMON,
					    .size = PLACES * sizeof(uint64_t)};
	struct near_region_object o = {.name = "values",
				       .kind = NEAR_REGION_VALUES,
				       .flags = NEAR_REGION_COMMON,
				       .size = PLACES * sizeof(uint64_t),
				       .about = {is_gauge, 1}};

	assert_int_equal(near_region_open_object(r, &owners), 0);
	assert_int_equal(owners.offset, 0);
	assert_int_equal(near_region_open_object(r, &o), 0);
	assert_int_equal(near__region_values(&o), PLACES);
	return o;
}

static uint64_t *word_of(const struct near_region *r, uint64_t offset, unsigned n)
{
	return (uint64_t *)(void *)near_region_common(r, offset + n * sizeof(uint64_t));
}

static void this_process_lives(void **state)
{
	const uint64_t self = near__owner_self();

	assert_int_equal(near__owner_pid(self), getpid());
	assert_int_equal(near__owner_self(), self);
	assert_int_equal(near__owner_state(self, self), NEAR__OWNER_LIVES);
	assert_int_equal(near__owner_state(0, self), NEAR__OWNER_ENDED);
}

/* The process that has the number now is another one. */
static void a_number_that_is_used_again(void **state)
{
	const uint64_t self = near__owner_self();

	if (!(self >> 22 & (BEGIN_BITS - 1)))
		skip(); /* an emulator does not say */
	assert_int_equal(near__owner_state(self ^ BEGIN, self), NEAR__OWNER_ENDED);
	/* Of one that could not read when it began nothing better is known. */
	assert_int_equal(near__owner_state(self & (~(uint64_t)0 << 42 | (BEGIN - 1)), self),
			 NEAR__OWNER_LIVES);
}

static void another_namespace_is_unknown(void **state)
{
	const uint64_t self = near__owner_self();

	assert_int_equal(near__owner_state(self ^ 1, self), NEAR__OWNER_UNKNOWN);
}

static void report_self(void *arg)
{
	*(volatile uint64_t *)arg = near__owner_self();
	pause();
}

static void a_process_that_was_killed_has_ended(void **state)
{
	struct near_region r = region_made();
	uint64_t *shared = word_of(&r, 0, 0), owner, self = near__owner_self();
	pid_t child;

	if (unit_emulated()) /* it shows a process another begin than it has for others */
		skip();
	child = unit_fork(report_self, shared);
	while (!(owner = __atomic_load_n(shared, __ATOMIC_RELAXED)))
		sched_yield();
	assert_int_equal(near__owner_pid(owner), child);
	assert_int_equal(near__owner_state(owner, self), NEAR__OWNER_LIVES);
	kill(child, SIGKILL);
	assert_int_equal(unit_wait(child, NULL), -1);
	assert_int_equal(near__owner_state(owner, self), NEAR__OWNER_ENDED);
	near_region_close(&r);
}

static void gauges_end_with_their_owner(void **state)
{
	struct near_region r = region_made();
	struct near_region_object o = values_in(&r, true);
	const uint64_t self = near__owner_self();
	struct near__value v;

	*word_of(&r, o.offset, 2) = 5;
	assert_false(near__region_value(&r, &o, 2, self, &v));
	*word_of(&r, 0, 2) = self;
	assert_true(near__region_value(&r, &o, 2, self, &v));
	assert_int_equal(v.value, 5);
	assert_int_equal(v.pid, getpid());
	*word_of(&r, 0, 2) = self ^ 1;
	assert_true(near__region_value(&r, &o, 2, self, &v));
	near_region_close(&r);
}

static void counts_outlive_theirs(void **state)
{
	struct near_region r = region_made();
	struct near_region_object o = values_in(&r, false);
	struct near__value v;

	assert_false(near__region_value(&r, &o, 1, near__owner_self(), &v));
	*word_of(&r, o.offset, 1) = 7;
	assert_true(near__region_value(&r, &o, 1, near__owner_self(), &v));
	assert_int_equal(v.value, 7);
	assert_int_equal(v.pid, 0);
	near_region_close(&r);
}

static void damaged_owners_are_not_read(void **state)
{
	struct near_region r = region_made();
	struct near_region_object o = values_in(&r, true);
	const uint64_t wrong[] = {2, 1 + ((size_t)64 << 10) - PLACES * sizeof(uint64_t) + 8,
				  (uint64_t)1 << 63, UINT64_MAX};
	struct near__value v;

	for (size_t i = 0; i < LENGTH(wrong); i++) {
		o.about[NEAR_REGION_ABOUT_OWNERS] = wrong[i];
		assert_true(near__region_value(&r, &o, 0, near__owner_self(), &v));
		assert_int_equal(v.pid, 0);
	}
	near_region_close(&r);
}

REGION_MAIN(this_process_lives, a_number_that_is_used_again, another_namespace_is_unknown,
	    a_process_that_was_killed_has_ended, gauges_end_with_their_owner, counts_outlive_theirs,
	    damaged_owners_are_not_read)
