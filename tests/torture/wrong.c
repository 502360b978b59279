/* SPDX-License-Identifier: MIT */
/* near_torture finds what is wrong, and names it. */
#include "cases.h"

#include <nearcpu/percpu.h>

#include "mutants.h"

static struct {
	const struct mutant *mutant;
	const char *words;
	unsigned reported; /* failures with these words */
	uint64_t added, seen;
} world;

/* By cpu, a migration certainly leads to another slot. */
static void mutant_setup(void *arg)
{
	near_slot();
	near__self.index_mode = 1;
	mutant_object();
	world.added = world.seen = 0;
}

static void mutant_run(void *arg)
{
	world.added++;
	world.mutant->add(mutant_current());
}

static const char *mutant_check(void *arg)
{
	uint64_t count, total;

	mutant_sums(&count, &total);
	if (world.mutant == &mutant_two_stores && total != world.added)
		return "miscounted";
	return count == world.added ? NULL : "miscounted";
}

static void read_total(void *arg)
{
	uint64_t count, total;

	mutant_sums(&count, &total);
	world.seen = 1 + count + (total << 32);
}

static uint64_t mutant_digest(void *arg)
{
	uint64_t count, total;

	mutant_sums(&count, &total);
	return world.seen * 1000 + count;
}

static void close_gate(void *arg)
{
	struct mutant_copy *own = near_percpu_at(mutant_current(), near_slot());

	own->gate = NEAR__CLOSED;
}

static const void *mutant_slot(void *arg, size_t *size)
{
	*size = sizeof(struct mutant_copy);
	return near_percpu_at(mutant_current(), near_slot());
}

static void listen(void *arg, const char *failure)
{
	world.reported += world.words && strstr(failure, world.words) != NULL;
}

static int torture_mutant(const struct mutant *m, const struct near_torture_rival *rivals,
			  unsigned n, bool with_digest, struct near_torture_result *r)
{
	struct near_torture t = {
		.setup = mutant_setup,
		.run = mutant_run,
		.rivals = rivals,
		.n_rivals = n,
		.check = mutant_check,
		.digest = with_digest ? mutant_digest : NULL,
		.slot = mutant_slot,
		.report = listen,
		.max_aborts = 200,
	};

	world.mutant = m;
	world.reported = 0;
	return prove(&t, r);
}

static const struct near_torture_rival adds[] = {{"add", mutant_run, NULL, 0}};
static const struct near_torture_rival readers[] = {{"read", read_total, NULL, 0}};
static const struct near_torture_rival closers[] = {
	{"close", close_gate, NULL, NEAR_TORTURE_CLOSES}};

void faults_are_named(void **state)
{
	static const struct {
		const struct mutant *mutant;
		const struct near_torture_rival *other;
		const char *words;
	} faults[] = {
		{&mutant_two_stores, adds, "miscounted"},
		{&mutant_commit_not_last, adds, "miscounted"},
		{&mutant_commit_outside, adds, "miscounted"},
		{&mutant_early_store, readers, "neither order"},
		{&mutant_no_state_check, closers, "changed a slot that was closed"},
		{&mutant_index_outside, adds, "changed the slot that the thread had left"},
		{&mutant_value_outside, adds, "stopped before its start"},
		{&mutant_address_outside, adds, "changed the slot that the thread had left"},
		{&mutant_unarmed, adds, "was not aborted, and went on to its commit"},
		{&mutant_unbounded, NULL, "tried without end"},
		{&mutant_fallback_in_slot, NULL, "the fallback changed the slot"},
	};
	struct near_torture_result r;

	need_live();
	for (size_t i = 0; i < LENGTH(faults); i++) {
		if ((faults[i].mutant == &mutant_index_outside ||
		     faults[i].mutant == &mutant_address_outside) &&
		    !has_two_cpus())
			continue;
		world.words = faults[i].words;
		assert_true(torture_mutant(faults[i].mutant, faults[i].other,
					   faults[i].other != NULL, faults[i].other == readers,
					   &r) > 0);
		if (!world.reported)
			print_error("%s: not found, but: %s\n", faults[i].words, r.text);
		assert_true(world.reported > 0);
		assert_true(strncmp(r.text, "the sequence in ", 16) == 0 ||
			    strncmp(r.text, "all sequences aborted", 21) == 0);
	}
}

static void add_by_cpu(void *arg)
{
	near_slot();
	near__self.index_mode = 1;
	mutant_run(arg);
}

/* Slot 0 is open, and this thread is on its CPU. */
void registration_that_is_taken_away(void **state)
{
	struct near_torture t = {.setup = mutant_setup, .run = add_by_cpu, .check = mutant_check};
	struct near_torture_result r;

	need_live();
	if (status_now().own_area || !unit_pin(0, NULL))
		skip();
	world.mutant = &mutant_sound;
	assert_int_equal(prove(&t, &r), 0);
	assert_true(r.taken > 0);
	world.mutant = &mutant_unregistered;
	world.words = "taken away before: a sequence went on to its commit unprotected";
	world.reported = 0;
	t.report = listen;
	assert_true(prove(&t, &r) > 0);
	assert_true(world.reported > 0);
	unit_unpin();
}

/* The same fault as above, with a competing operation that consists of sequences. */
void operation_that_stays_in_sequences(void **state)
{
	static const struct near_torture_rival adds_inside[] = {
		{"add", mutant_run, NULL, NEAR_TORTURE_NOT_BEFORE}};
	struct near_torture_result r;

	need_live();
	assert_int_equal(torture_mutant(&mutant_value_outside, adds_inside, 1, false, &r), 0);
	assert_true(r.before > 0);
	assert_true(torture_mutant(&mutant_value_outside, adds, 1, false, &r) > 0);
}

void sound_one_passes_the_same(void **state)
{
	static const struct near_torture_rival all[] = {
		{"add", mutant_run, NULL, 0},
		{"close", close_gate, NULL, NEAR_TORTURE_CLOSES},
		{"add on a thread", mutant_run, NULL, NEAR_TORTURE_NOT_IN_HANDLER}};
	struct near_torture_result r;

	need_live();
	assert_int_equal(torture_mutant(&mutant_sound, all, LENGTH(all), false, &r), 0);
	assert_true(r.before > 0);
	assert_int_equal(torture_mutant(&mutant_value_compared, all, LENGTH(all), false, &r), 0);
	assert_true(r.before > 0);
	assert_int_equal(torture_mutant(&mutant_sound, readers, 1, true, &r), 0);
	assert_true(r.aborts > 0);
}
