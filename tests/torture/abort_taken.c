/* SPDX-License-Identifier: MIT */
/* Every sequence of abort_test, on a thread whose registration is taken away. */
#include "abort.h"
#include "live.h"
#include "taken.h"
#include "torture/trap.h"

static bool is_taken;
static struct near__thread taken_from;

static void take(void *unused)
{
	is_taken = near__self.state == NEAR__THREAD_LIVE;
	if (is_taken)
		taken_from = taken_away();
}

static unsigned taken_at(enum ops_setup setup, const struct op *op, unsigned seq, unsigned point)
{
	struct actor a = {.id = 0}, none = {.id = 1};
	struct trap_plan plan = {.seq = seq, .point = point, .on_stop = take, .unregisters = true};
	const char *lost;

	is_taken = false;
	reset(setup, op->object);
	near__trap_run(&plan, (void (*)(void *))op->run, &a);
	if (!is_taken)
		return 0;
	assert_false(near__thread_live());
	lost = ops_conserved(&a, &none);
	taken_give_back(taken_from);
	if (plan.unprotected || lost)
		print_error("%s, taken at instruction %u of %s: %s\n", op->name, point,
			    seq == near__trap_count() ? "none" : near__trap_seq(seq)->function,
			    lost ? lost : "commits unprotected");
	assert_true(!plan.unprotected && !lost);
	return 1;
}

void learn_reached(enum ops_setup setup, enum ops_object object, const struct op *op)
{
	struct actor a = {.id = 0};

	reset(setup, object);
	near__trap_forget_reached();
	near__trap_learn(TRAP_LET_OTHERS, (void (*)(void *))op->run, &a);
}

/* Before it begins, and in the sequences that it runs, at each of their instructions. */
static unsigned long taken_from_op(enum ops_setup setup, const struct op *op)
{
	unsigned long runs = taken_at(setup, op, near__trap_count(), 0);

	learn_reached(setup, op->object, op);
	for (unsigned q = 0; q < near__trap_count(); q++)
		for (unsigned k = 0; near__trap_seq(q)->reached && k < near__trap_seq(q)->points;
		     k++)
			runs += taken_at(setup, op, q, k);
	return runs;
}

/* From then on no sequence of the thread comes to its commit, and nothing is lost. */
void registration_taken_at_each_instruction(void **state)
{
	unsigned long runs = 0;

	for (int m = 0; m < MODES; m++) {
		if (!choose_mode(m))
			continue;
		for (unsigned i = 0; i < ops_count; i++)
			for (unsigned setup = 0; setup < OPS_SETUPS; setup++)
				if (ops_pair_is_valid((enum ops_setup)setup, &ops[i], &ops[0]))
					runs += taken_from_op((enum ops_setup)setup, &ops[i]);
	}
	print_message("%lu runs\n", runs);
	assert_true(runs > 0);
}
