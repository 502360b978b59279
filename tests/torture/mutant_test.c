/* SPDX-License-Identifier: MIT */
/* What abort_test would find: sequences with one fault each, and for each the check that catches
 * it. The same check passes the sound one. (One fence instead of two shows on weakly ordered CPUs
 * alone: the models and the emulator have that one.) */
#include <nearcpu/percpu.h>

#include "live.h"
#include "torture/trap.h"
#include "mutants.h"

/* ---- stopped at each instruction ---- */

static bool caught_by_stops(const struct mutant *m, enum interferer interferer)
{
	struct cross c = {.suite = mutant_suite(m), .interferer = interferer, .quiet = true};

	cross_run(&c);
	assert_true(c.runs > 0);
	return c.failures > 0;
}

static void stops(enum interferer interferer)
{
	assert_false(caught_by_stops(&mutant_sound, interferer));
	assert_true(caught_by_stops(&mutant_two_stores, interferer));
	assert_true(caught_by_stops(&mutant_commit_not_last, interferer));
	assert_true(caught_by_stops(&mutant_commit_outside, interferer));
}

static void handler_beside_each_instruction(void **state)
{
	stops(INTERFERER_HANDLER);
}

static void thread_beside_each_instruction(void **state)
{
	stops(INTERFERER_THREAD);
}

/* ---- migrated, closed, in the child of a vfork ---- */

static uint64_t count_of(const struct mutant_copy *p, unsigned slot)
{
	return ((const struct mutant_copy *)near_percpu_at(p, slot))->count;
}

static void add(void *mutant)
{
	((const struct mutant *)mutant)->add(mutant_current());
}

static void move_to_second_cpu(void *unused)
{
	unit_pin(1, NULL);
}

/* True if the add went to the slot of the CPU that the thread had left. */
static bool caught_by_migration(const struct mutant *m)
{
	struct trap_plan plan = {.point = 0, .on_stop = move_to_second_cpu};
	struct mutant_copy *p;
	unsigned left;

	for (plan.seq = 0; plan.seq < near__trap_count(); plan.seq++) {
		if (strcmp(near__trap_seq(plan.seq)->function, m->name) != 0)
			continue;
		unit_pin(0, NULL);
		near_slot();
		near__self.index_mode = 1; /* slots by cpu, in any process */
		left = near_slot();
		p = mutant_object();
		near__trap_run(&plan, add, (void *)(uintptr_t)m);
		assert_true(plan.reached);
		unit_pin(0, NULL);
		return count_of(p, left) != 0;
	}
	fail_msg("no sequence in %s", m->name);
	return false;
}

static void migration(void **state)
{
	if (!unit_pin(1, NULL))
		skip();
	assert_false(caught_by_migration(&mutant_sound));
	assert_true(caught_by_migration(&mutant_index_outside));
}

static bool caught_by_gate(const struct mutant *m)
{
	struct mutant_copy *p = mutant_object();
	unsigned slot = near_slot();

	((struct mutant_copy *)near_percpu_at(p, slot))->gate = 2;
	m->add(p);
	return count_of(p, slot) != 0;
}

static void closed_gate(void **state)
{
	assert_false(caught_by_gate(&mutant_sound));
	assert_true(caught_by_gate(&mutant_no_state_check));
}

__attribute__((noinline)) static pid_t in_vfork_child(const struct mutant *m)
{
	pid_t child = vfork();

	if (child == 0) {
		m->add(mutant_current());
		_exit(0);
	}
	return child;
}

static bool caught_by_vfork(const struct mutant *m)
{
	struct mutant_copy *p = mutant_object();
	unsigned slot = near_slot();

	assert_int_equal(unit_wait(in_vfork_child(m), NULL), 0);
	return count_of(p, slot) != 0;
}

static void child_of_vfork(void **state)
{
	assert_false(caught_by_vfork(&mutant_sound));
	assert_true(caught_by_vfork(&mutant_no_live_check));
}

int main(void)
{
	static const struct mutant *const all[] = {
		&mutant_sound,          &mutant_two_stores,    &mutant_commit_not_last,
		&mutant_commit_outside, &mutant_index_outside, &mutant_no_live_check,
		&mutant_no_state_check,
	};

	if (!is_live() || near__trap_open() <= 0 || !unit_pin(0, NULL)) {
		puts("skipped: no sequences here");
		return 77;
	}
	for (size_t i = 0; i < LENGTH(all); i++)
		cross_learn(mutant_suite(all[i]));
	return UNIT_TESTS(handler_beside_each_instruction, thread_beside_each_instruction,
			  migration, closed_gate, child_of_vfork);
}
