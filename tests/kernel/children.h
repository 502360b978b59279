/* SPDX-License-Identifier: MIT */
/* Children that run on their parent's thread-local storage, and what is true of them however they
 * are made: by vfork, or by clone with its flags. */
#ifndef NEARCPU_TESTS_CHILDREN_H
#define NEARCPU_TESTS_CHILDREN_H

#include <nearcpu/counter.h>

#include "live.h"

/* The exit status of such a child, which runs `run` and leaves immediately: sanitizers have work to
 * do in _exit. Each program has its own. */
static int in_child(int (*run)(void *), void *arg);

static struct near_counter counted;

static inline int write_to(void *arg)
{
	*(volatile int *)arg = 1;
	return 0;
}

static inline int return_arg(void *status)
{
	return (int)(uintptr_t)status;
}

/* Emulators make a fork of it, or refuse. */
static inline bool shares_memory(void)
{
	volatile int written = 0;

	return in_child(write_to, (void *)(uintptr_t)&written) == 0 && written;
}

static inline int check_child(void *parent_is_live)
{
	struct near_rseq_status st = status_now();

	if (st.live || near__self.state != NEAR__VFORKED || near__self.area != &near__dead)
		return 1;
	if (near_slot() >= near_slots() || near_cpu() >= near_cpus() || near_cid() >= near_cpus())
		return 2;
	if (*(bool *)parent_is_live && strcmp(st.why, "this is the child of a vfork") != 0)
		return 3;
	return 0;
}

static inline void *be_parent(void *unused)
{
	bool live = is_live();
	struct near__thread before = near__self;

	KEEPS_ERRNO(CHECK(in_child(check_child, &live) == 0));
	CHECK(before.area == near__self.area && before.state == near__self.state);
	CHECK(before.index_mode == near__self.index_mode);
	CHECK(is_live() == live);
	return unused;
}

static inline void a_child_is_never_live_and_its_parent_is_again(void **state)
{
	be_parent(NULL);
	unit_join(unit_start(be_parent, NULL));
	for (unsigned i = 0; i < unit_scale(200); i++)
		be_parent(NULL);
}

static inline int add_one(void *unused)
{
	near_counter_add(&counted, 1);
	return near__self.state == NEAR__VFORKED && near_slot() < near_slots() ? 0 : 1;
}

/* A thread that did nothing yet: its child decides nothing for it. */
static inline void *begin_with_child(void *live)
{
	CHECK(near__self.state == NEAR__NEW);
	CHECK(in_child(add_one, NULL) == 0);
	CHECK(near__self.state == NEAR__NEW);
	near_counter_add(&counted, 1);
	CHECK(is_live() == *(bool *)live);
	return NULL;
}

static inline void a_new_thread_may_begin_with_a_child(void **state)
{
	unsigned n = unit_scale(100);
	bool live = is_live();

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&counted), 0);
	for (unsigned i = 0; i < n; i++)
		unit_join(unit_start(begin_with_child, &live));
	assert_int_equal(near_counter_read(&counted), 2 * n);
	near_counter_destroy(&counted);
}

static inline int add_fifty(void *unused)
{
	for (int i = 0; i < 50; i++)
		near_counter_add(&counted, 1);
	return 0;
}

/* What is in slots, and what in fallback slots. */
static inline void sum_slots(int64_t sums[2])
{
	sums[0] = sums[1] = 0;
	for (unsigned s = 0; near_percpu_next(counted.p, &s); s++)
		sums[near_percpu_is_fallback(s)] += *(int64_t *)near_percpu_at(counted.p, s);
}

/* Slots are never written by a child: the sequences of the parent's threads own them. */
static inline void a_child_writes_fallback_slots_only(void **state)
{
	int64_t before[2], after[2];

	if (!shares_memory())
		skip();
	assert_int_equal(near_counter_init(&counted), 0);
	near_counter_add(&counted, 100);
	sum_slots(before);
	assert_int_equal(in_child(add_fifty, NULL), 0);
	sum_slots(after);
	assert_int_equal(after[0], before[0]);
	assert_int_equal(after[1], before[1] + 50);
	near_counter_destroy(&counted);
}

static inline int have_child_again(void *unused)
{
	if (in_child(check_child, &(bool){false}) != 0 || in_child(return_arg, (void *)5) != 5)
		return 1;
	return near__self.state == NEAR__VFORKED && near__self.area == &near__dead ? 6 : 2;
}

static inline void a_child_may_have_a_child(void **state)
{
	bool live = is_live();

	assert_int_equal(in_child(have_child_again, NULL), 6);
	assert_int_equal(is_live(), live);
}

#endif
