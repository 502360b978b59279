/* SPDX-License-Identifier: MIT */
/* Every sequence of this program, aborted by the kernel at each of its instructions while each
 * other operation runs on the same slot. cross.h does it; tests/operations has the operations. */
#include <nearcpu/percpu.h>

#include "abort.h"
#include "live.h"
#include "percpu/gate.h"
#include "operations/objects.h"
#include "operations/ops.h"
#include "torture/trap.h"
#include "cross.h"
#include "first.h"

/* A handler runs any operation, also one that allocates: what it interrupts is a sequence, not
 * malloc. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "report_signal_unsafe=0";
}

static enum mode mode;
static struct near_rseq_status status;

/* A process with NEAR_CONF=slot:cpu tests how a thread becomes live in it. */
bool choose_mode(int which)
{
	mode = (enum mode)which;
	return mode == BY_CPU || (status.has_cid && status.slot_kind != NEAR_SLOT_CPU);
}

static void enter_mode(void)
{
	near_slot(); /* live from here on */
	near__self.index_mode = mode == BY_CID ? 0 : mode == BY_CPU ? 1 : 1000;
}

void reset(enum ops_setup setup, enum ops_object object)
{
	enter_mode();
	ops_reset(setup, object);
}

static void enter(void)
{
	enter_mode();
	ops_enter();
}

static const struct suite *library(void)
{
	static struct suite s = {
		.ops = ops,
		.setups = OPS_SETUPS,
		.reset = reset,
		.enter = enter,
		.pair_is_valid = ops_pair_does_not_wait,
		.is_one_step = ops_is_one_step,
		.digest = ops_digest,
		.describe = ops_describe,
		.conserved = ops_conserved,
	};

	s.count = ops_count;
	return &s;
}

/* ---- the library's sequences ---- */

/* By cpu, two threads on one CPU certainly have the same slot. Operations on different objects
 * hardly interact: they are combined in one mode only. */
static void crossed(enum interferer interferer)
{
	for (int i = 0; i < MODES; i++) {
		struct cross c = {.suite = library(), .interferer = interferer};

		if (!choose_mode(i) || (i == BY_NODE && interferer == INTERFERER_THREAD))
			continue;
		c.all_pairs = i == BY_CPU && interferer == INTERFERER_HANDLER;
		cross_run(&c);
		print_message("%lu runs\n", c.runs);
		assert_true(c.runs > 0);
		assert_int_equal(c.failures, 0);
	}
}

static void handler_beside_each_instruction(void **state)
{
	crossed(INTERFERER_HANDLER);
}

static void thread_beside_each_instruction(void **state)
{
	crossed(INTERFERER_THREAD);
}

/* Copies of sequences in code of the test: what prepares the objects, threads that play dead, a put
 * that finds the gate closed. They never commit, or before there is a test. */
static bool is_of_the_test(const char *function)
{
	static const char *const begins[] = {"ops_", "fill", "refcount_kill_put"};

	for (size_t i = 0; i < LENGTH(begins); i++)
		if (strncmp(function, begins[i], strlen(begins[i])) == 0)
			return true;
	return strncmp(function, "near_", 5) != 0 && strstr(function, "_fallback");
}

static unsigned missing_points(const struct trap_seq *s)
{
	unsigned missing = 0;

	for (unsigned k = 0; k < s->points; k++) {
		if (s->trapped[k])
			continue;
		print_error("%s: never stopped at instruction %u of %u\n", s->function, k,
			    s->points - 1);
		missing++;
	}
	return missing;
}

/* Sequences for processes whose slots are numbered by the cid alone. */
static bool runs_elsewhere(const char *function)
{
	size_t length = strlen(function);

	return !choose_mode(BY_CID) && length > 7 && strcmp(function + length - 7, "_by_cid") == 0;
}

/* Where the length of an instruction can be decoded, its boundaries are known even on paths that
 * this process cannot take. */
static void no_sequence_was_forgotten(void **state)
{
	bool all_modes = NEAR__TRAP_STEPS || choose_mode(BY_NODE);
	unsigned forgotten = 0;

	for (unsigned i = 0; i < near__trap_count(); i++) {
		const struct trap_seq *s = near__trap_seq(i);

		if (is_of_the_test(s->function) || runs_elsewhere(s->function))
			continue;
		if (!s->points)
			print_error("%s: never seen to commit\n", s->function);
		forgotten += !s->points + (all_modes ? missing_points(s) : 0);
	}
	assert_int_equal(forgotten, 0);
}

/* Several sequences to an operation, each tried NEAR_SEQ_TRIES times. */
#define MOST_ABORTS (16 * NEAR_SEQ_TRIES)

/* An operation that is aborted at every attempt completes by the fallback. */
static void progress_without_any_sequence(void **state)
{
	choose_mode(BY_CPU);
	for (unsigned setup = 0; setup < OPS_SETUPS; setup++)
		for (unsigned i = 0; i < ops_count; i++) {
			struct trap_plan plan = {.seq = near__trap_count(),
						 .others = TRAP_ABORT_OTHERS};
			struct actor a = {.id = 0}, none = {.id = 1};

			if (!ops_pair_is_valid((enum ops_setup)setup, &ops[i], &ops[0]))
				continue;
			reset((enum ops_setup)setup, ops[i].object);
			near__trap_run(&plan, (void (*)(void *))ops[i].run, &a);
			assert_true(plan.aborts < MOST_ABORTS);
			if (ops_conserved(&a, &none))
				print_error("%s: %s\n", ops[i].name, ops_conserved(&a, &none));
			assert_null(ops_conserved(&a, &none));
		}
}

static bool is_for_handlers(const struct op *op)
{
	return (op->flags & OPS_SIGNAL_SAFE) && !(op->flags & (OPS_NOT_LIVE | OPS_LONG));
}

static void signal_beside_first_operation(void **state)
{
	unsigned long visits = 0;
	unsigned failures = 0;

	/* ThreadSanitizer holds locks in the middle of an instrumented load. */
	if (!NEAR__TRAP_STEPS || NEAR__TSAN)
		skip();
	choose_mode(status.slot_kind == NEAR_SLOT_CPU ? BY_CPU : BY_CID);
	for (unsigned i = 0; i < ops_count; i++)
		if (is_for_handlers(&ops[i]))
			failures += first_visit(&ops[i], is_for_handlers, &visits);
	print_message("%lu signals\n", visits);
	assert_true(visits > 0);
	assert_int_equal(failures, 0);
}

/* ---- the right slot, and only while it is open ---- */

/* What one slot holds. */
struct live {
	int64_t counter, shared, refs, recorded, regional;
	const void *head;
};

static struct live live_of(unsigned slot)
{
	const struct ops_objects *o = &ops_objects;
	struct live l = {
		.counter = *(int64_t *)near_percpu_at(o->counter.p, slot),
		.shared = *(int64_t *)near_region_at(&o->shared.region, slot, 8),
		.refs = *(int64_t *)near_percpu_at(o->refcount.p, slot),
		.recorded = ((int64_t *)near_percpu_at(o->histogram.p, slot))[OPS_VALUE],
		.regional = ((int64_t *)near_region_at(&o->region, slot, 0))[OPS_VALUE],
		.head = *(void **)near_percpu_at(o->stack.p, slot),
	};

	return l;
}

static bool is_same(struct live a, struct live b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

/* A sequence is entered at its start only; the fallback may pass the instruction behind it. */
static bool can_come_to(const struct trap_seq *s, unsigned point)
{
	return s->reached || point + 1 == s->points;
}

/* Stops each of these operations at each instruction of each sequence. `stop` returns 1 if the
 * operation reached the point, which it must do somewhere. */
static void stop_everywhere(bool (*is_wanted)(const struct op *op),
			    unsigned (*stop)(const struct op *op, unsigned seq, unsigned point))
{
	unsigned long runs = 0;

	for (unsigned i = 0; i < ops_count; i++) {
		if (!is_wanted(&ops[i]))
			continue;
		learn_reached(OPS_OPEN, OPS_OBJECTS, &ops[i]);
		for (unsigned q = 0; q < near__trap_count(); q++)
			for (unsigned k = 0; k < near__trap_seq(q)->points; k++)
				if (can_come_to(near__trap_seq(q), k))
					runs += stop(&ops[i], q, k);
	}
	assert_true(runs > 0);
}

static void move_to_second_cpu(void *moved)
{
	*(bool *)moved = unit_pin(1, NULL);
}

/* May run on the objects of OPS_OPEN. */
static bool is_alone(const struct op *op)
{
	return ops_pair_is_valid(OPS_OPEN, op, &ops[0]);
}

static unsigned migrated(const struct op *op, unsigned seq, unsigned point)
{
	struct actor a = {.id = 0}, none = {.id = 1};
	bool moved = false;
	struct trap_plan plan = {
		.seq = seq, .point = point, .on_stop = move_to_second_cpu, .arg = &moved};
	struct live before;
	unsigned slot;

	if (point + 1 == near__trap_seq(seq)->points)
		return 0; /* behind the commit */
	unit_pin(0, NULL);
	reset(OPS_OPEN, OPS_OBJECTS);
	slot = near_slot();
	before = live_of(slot);
	near__trap_run(&plan, (void (*)(void *))op->run, &a);
	if (!plan.reached || !plan.aborted)
		return 0;
	assert_true(moved);
	assert_null(ops_conserved(&a, &none));
	/* These take other slots' lists, and put them where they are now. */
	if (op->flags & OPS_SIGNAL_SAFE)
		assert_true(is_same(before, live_of(slot)));
	return 1;
}

/* An operation that was stopped on one CPU and goes on on another one leaves the first one's slot
 * alone. */
static void migration_at_each_instruction(void **state)
{
	if (!unit_pin(1, NULL))
		skip();
	choose_mode(BY_CPU);
	stop_everywhere(is_alone, migrated);
	unit_pin(0, NULL);
}

static uint32_t *gate_of(void *object, unsigned slot)
{
	return (uint32_t *)((char *)near_percpu_at(object, slot) + 8);
}

/* Operations that close gates themselves would wait for the other closer. */
static bool minds_gates(const struct op *op)
{
	return (op->object == OPS_STACK || op->object == OPS_REFCOUNT) &&
	       !(op->flags & OPS_FENCES) && is_alone(op);
}

struct closer {
	unsigned slot;
	struct live live;
};

static void close_and_record(void *closer)
{
	struct closer *c = closer;

	/* As a closer does between its two fences. */
	near__gate_close(gate_of(ops_objects.stack.p, c->slot));
	near__gate_close(gate_of(ops_objects.refcount.p, c->slot));
	c->live = live_of(c->slot);
}

/* A closer is between its fences from some instruction of the operation on, until its end. */
static unsigned closed(const struct op *op, unsigned seq, unsigned point)
{
	struct actor a = {.id = 0}, none = {.id = 1};
	struct closer closer;
	struct trap_plan plan = {
		.seq = seq, .point = point, .on_stop = close_and_record, .arg = &closer};

	reset(OPS_OPEN, OPS_OBJECTS);
	closer.slot = near_slot();
	near__trap_run(&plan, (void (*)(void *))op->run, &a);
	if (!plan.reached)
		return 0;
	assert_true(is_same(closer.live, live_of(closer.slot)));
	near__gate_open(gate_of(ops_objects.stack.p, closer.slot));
	near__gate_open(gate_of(ops_objects.refcount.p, closer.slot));
	assert_null(ops_conserved(&a, &none));
	return 1;
}

static void closed_gates_turn_sequences_away(void **state)
{
	choose_mode(BY_CPU);
	stop_everywhere(minds_gates, closed);
}

/* The child runs on this thread's memory, but nothing watches its sequences. */
__attribute__((noinline)) static pid_t in_vfork_child(const struct op *op, struct actor *a)
{
	pid_t child = vfork();

	if (child == 0) {
		op->run(a);
		_exit(0);
	}
	return child;
}

static void vfork_children_leave_slots_alone(void **state)
{
	choose_mode(BY_CPU);
	for (unsigned i = 0; i < ops_count; i++) {
		struct actor a = {.id = 0}, none = {.id = 1};
		struct live before;

		if (!is_alone(&ops[i]))
			continue;
		reset(OPS_OPEN, OPS_OBJECTS);
		before = live_of(near_slot());
		assert_int_equal(unit_wait(in_vfork_child(&ops[i], &a), NULL), 0);
		if (ops[i].flags & OPS_SIGNAL_SAFE)
			assert_true(is_same(before, live_of(near_slot())));
		assert_null(ops_conserved(&a, &none));
	}
}

int main(void)
{
	status = status_now();
	if (!status.live || near__trap_open() <= 0 || !unit_pin(0, NULL) ||
	    access("/dev/shm", W_OK)) { /* operations/trace.c */
		puts("skipped: no sequences here, or no /dev/shm");
		return 77;
	}
	for (int i = 0; i < MODES; i++) {
		if (!choose_mode(i))
			continue;
		near__trap_learn_again();
		cross_learn(library());
	}
	return UNIT_TESTS(signal_beside_first_operation, progress_without_any_sequence,
			  handler_beside_each_instruction, thread_beside_each_instruction,
			  migration_at_each_instruction, closed_gates_turn_sequences_away,
			  registration_taken_at_each_instruction, vfork_children_leave_slots_alone,
			  no_sequence_was_forgotten);
}
