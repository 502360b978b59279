/* SPDX-License-Identifier: MIT */
/* A signal handler that uses an atomic object while its thread is in the middle of another call of
 * libatomic: at every instruction of every operation, by single steps. Both operations happen, each
 * as a whole, in one order or the other; neither waits for ever; all locks are released. */
#include "steps.h"
#include "unit.h"

#include "atomic/table.h"
#include "atomic/wide.h"

/* The kind of an operation, and the value that a compare-exchange expects. */
enum variant {
	LOAD,
	STORE,
	EXCHANGE,
	CAS_NOW,   /* what is there before both */
	CAS_AFTER, /* what the other one leaves there */
	CAS_NEVER,
	GENERIC_VARIANTS,
	FETCH_ADD = GENERIC_VARIANTS,
	FETCH_NAND,
	VARIANTS
};

/* Instructions from one handler to the next. */
#define TWICE_WITHIN 15u

static const enum operation_kind kinds[VARIANTS] = {
	OP_LOAD, OP_STORE, OP_EXCHANGE, OP_CAS, OP_CAS, OP_CAS, OP_FETCH_ADD, OP_FETCH_NAND,
};

struct relation {
	struct place a, b;
};

/* All of them begin or end at no multiple of 16 that would let a part of them do without locks,
 * but those of 16 bytes and less that have an aligned place for both. */
static const struct relation relations[] = {
	{{0, 24, false}, {0, 24, false}},     /* the same object */
	{{0, 24, false}, {32, 24, false}},    /* another in its line */
	{{0, 24, false}, {512, 24, false}},   /* another far away */
	{{0, 24, false}, {0, 100, false}},    /* a wider one around it */
	{{64, 100, false}, {84, 24, false}},  /* a narrower one within it */
	{{40, 100, false}, {100, 60, false}}, /* they overlap */
	{{52, 24, false}, {60, 24, false}},   /* over two lines */
	{{24, 12, false}, {24, 12, false}},   /* over the middle of an aligned 32 */
	{{128, 64, false}, {64, 300, false}}, /* one line of five */
	{{0, 16, true}, {0, 16, true}},       {{0, 16, true}, {0, 16, false}},
	{{64, 12, false}, {64, 16, true}},    {{8, 8, true}, {8, 8, false}},
};

static struct {
	unsigned char before[STEPS_ARENA], memory[STEPS_ARENA] __attribute__((aligned(64)));
	struct steps steps;
	struct operation planned[STEPS_DEPTH];
	unsigned long runs, freed;
	int mode;     /* how 16 bytes are done */
	bool alone;   /* the process has one thread, which the library may know */
	bool crowded; /* the library believes that loads do better to take locks */
	struct steps_trace trace;
} * shared;

static void tell(const char *what)
{
	fprintf(stderr, "%s:", what);
	for (unsigned i = 0; i < shared->steps.depth; i++) {
		fputs(i ? " by " : " ", stderr);
		operation_print(stderr, &shared->steps.ops[i]);
		if (i + 1 < shared->steps.depth)
			fprintf(stderr, ", interrupted at instruction %u", shared->steps.at[i]);
	}
	fputs("\n", stderr);
}

static void fill(struct operation *op, const struct place *place, enum variant variant,
		 unsigned seed)
{
	*op = (struct operation){.kind = kinds[variant],
				 .sized = place->sized,
				 .at = place->at,
				 .size = place->size};
	for (unsigned i = 0; i < op->size; i++) {
		op->value[i] = (unsigned char)(seed * 41 + i * 3);
		op->expected[i] = 0xee;
	}
	if (variant == CAS_NOW)
		memcpy(op->expected, shared->before + op->at, op->size);
}

/* What a compare-exchange finds that comes after another. */
static void expect_after(struct operation *op, enum variant variant, const struct operation *first)
{
	unsigned char memory[STEPS_ARENA];
	struct operation model = *first;

	if (variant != CAS_AFTER)
		return;
	memcpy(memory, shared->before, sizeof(memory));
	operation_model(&model, memory);
	memcpy(op->expected, memory + op->at, op->size);
}

/* Restores the memory and the table to their state before an operation. */
static void reset(void)
{
	memcpy(shared->memory, shared->before, STEPS_ARENA);
	for (unsigned i = 0; i < NEAR__ATOMIC_LOCKS; i++)
		near__atomic_locks.locks[i].contended = shared->crowded ? 1000 : 0;
}

/* Finds the instructions of the first operation. A run before resolves its calls. */
static void trace(void)
{
	struct operation warm = shared->planned[0];

	operation_run(&warm, shared->memory);
	reset();
	shared->steps.ops[0] = shared->planned[0];
	steps_record(&shared->steps, shared->memory, &shared->trace);
	shared->steps.trace = &shared->trace;
	CHECK(shared->trace.n > 20 && shared->trace.n < STEPS_TRACE);
}

/* Runs the plan; returns false if the first operation has no such instruction. */
static bool run(void)
{
	const struct operation *planned[STEPS_DEPTH], *done[STEPS_DEPTH];
	unsigned n = shared->steps.depth, met;

	reset();
	memcpy(shared->steps.ops, shared->planned, sizeof(shared->planned));
	memset(shared->steps.met, 0, sizeof(shared->steps.met));
	steps_run(&shared->steps, shared->memory);
	shared->runs++;
	for (unsigned i = 0; i < n; i++) {
		planned[i] = &shared->planned[i];
		done[i] = &shared->steps.ops[i];
	}
	for (met = 1; met < n && shared->steps.met[met - 1]; met++)
		;
	if (!steps_in_any_order(planned, done, met, shared->before, shared->memory)) {
		tell("in no order");
		_exit(1);
	}
	if (!steps_locks_are_free()) {
		tell("a lock stays behind");
		_exit(1);
	}
	return met > 1;
}

static unsigned variants_of(const struct place *place)
{
	return place->sized ? VARIANTS : GENERIC_VARIANTS;
}

static void *idle(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/* A handler's compare-exchange that fails does as a load does. */
static bool is_new(unsigned a, unsigned b)
{
	return b != CAS_NEVER && (b != LOAD || (a != LOAD && a != CAS_AFTER));
}

static void interrupt_everywhere(const struct relation *relation, unsigned a, unsigned b)
{
	unsigned unmet = 0;

	fill(&shared->planned[0], &relation->a, a, 1);
	fill(&shared->planned[1], &relation->b, b, 2);
	expect_after(&shared->planned[0], a, &shared->planned[1]);
	expect_after(&shared->planned[1], b, &shared->planned[0]);
	/* What the handler does later does not change the way till there. */
	if (b <= STORE || a == CAS_AFTER || a == LOAD)
		trace();
	for (unsigned i = 1; i <= shared->trace.n; i++) {
		shared->steps.at[0] = i;
		unmet += !run();
	}
	/* Some are before and after the operation. */
	CHECK(unmet < 12);
}

static void begin(unsigned depth)
{
	alarm(100);
	steps_open();
	near__atomic_force_wide(shared->mode);
	if (!shared->alone)
		unit_start(idle, NULL);
	shared->steps.depth = depth;
	shared->steps.again = 0;
}

static void interrupt_each(void *arg)
{
	const struct relation *relation = arg;

	begin(2);
	for (unsigned a = 0; a < variants_of(&relation->a); a++)
		for (unsigned b = 0; b < variants_of(&relation->b); b++) {
			if (!is_new(a, b))
				continue;
			shared->crowded = false;
			interrupt_everywhere(relation, a, b);
			shared->crowded = true;
			if (a == LOAD)
				interrupt_everywhere(relation, a, b);
		}
}

/* Runs it in a child; prints its state if it did not end. */
static void in_child(void (*how)(void *), void *arg)
{
	pid_t child = unit_fork(how, arg);
	int signal = 0, status = unit_wait(child, &signal);

	if (status < 0)
		tell(signal == SIGALRM ? "hangs" : "killed");
	assert_int_equal(status, 0);
}

static void at_each_instruction(void **state)
{
	for (size_t i = 0; i < LENGTH(relations); i++) {
		const struct place *a = &relations[i].a, *b = &relations[i].b;

		shared->runs = 0;
		for (int alone = i % 4 == 0; alone >= 0; alone--) {
			shared->alone = alone;
			shared->mode = near__wide_best();
			do
				in_child(interrupt_each, (void *)(uintptr_t)&relations[i]);
			while (b->size == 16 && b->sized && shared->mode-- > NEAR__WIDE_LOCKS);
		}
		printf("%u@%u, %u@%u: %lu runs\n", a->size, a->at, b->size, b->at, shared->runs);
	}
}

/* Handlers interrupted by handlers, at instructions chosen at random. */
static void interrupt_handlers(void *arg)
{
	uint64_t random = shared->alone ? 6 : 5;

	begin(3);
	for (unsigned round = 0; round < unit_scale(200); round++) {
		const struct relation *relation = &relations[round % LENGTH(relations)];
		const struct place *places[] = {&relation->a, &relation->b, &relation->a};

		for (unsigned i = 0; i < STEPS_DEPTH; i++) {
			enum variant variant = unit_random(&random) % variants_of(places[i]);

			fill(&shared->planned[i], places[i], variant, i + 1);
			if (i)
				expect_after(&shared->planned[i], variant, &shared->planned[i - 1]);
			shared->steps.at[i] = 1 + unit_random(&random) % 160;
		}
		shared->crowded = round % 3 == 0;
		trace();
		shared->steps.at[0] = 1 + unit_random(&random) % shared->trace.n;
		run();
	}
}

static void handlers_in_handlers(void **state)
{
	for (int alone = 0; alone < 2; alone++) {
		shared->mode = near__wide_best();
		shared->alone = alone;
		in_child(interrupt_handlers, NULL);
	}
}

/* Two handlers, one after the other, both within the operation or its repetition. */
static void interrupt_twice(void *unused)
{
	static const struct place place = {0, 24, false};

	begin(3);
	shared->crowded = false;
	for (unsigned a = STORE; a <= EXCHANGE; a++) {
		fill(&shared->planned[0], &place, a, 1);
		fill(&shared->planned[1], &place, EXCHANGE, 2);
		fill(&shared->planned[2], &place, EXCHANGE, 3);
		shared->steps.again = 0;
		trace();
		for (unsigned i = 0; i < shared->trace.n * TWICE_WITHIN; i++) {
			shared->steps.at[0] = 1 + i / TWICE_WITHIN;
			shared->steps.again = 1 + i % TWICE_WITHIN;
			run();
		}
	}
}

static void handlers_after_handlers(void **state)
{
	for (int alone = 0; alone < 2; alone++) {
		shared->mode = near__wide_best();
		shared->alone = alone;
		shared->runs = 0;
		in_child(interrupt_twice, NULL);
		printf("twice: %lu runs\n", shared->runs);
	}
}

/* ---- what is left alone ---- */

#define GONE 0x5a

/* A handler that sees the effect of a change may free the memory that was passed to it. */
static void free_if_seen(struct steps *steps)
{
	struct operation *first = &steps->ops[0];

	if (memcmp(steps->ops[1].result, first->value, first->size) != 0)
		return;
	memset(shared->memory + first->at, GONE, first->size);
	memset(first->expected, GONE, first->size);
	shared->freed++;
}

static bool is_gone(const unsigned char *p, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (p[i] != GONE)
			return false;
	return true;
}

static void free_everywhere(const struct place *place, enum variant variant)
{
	const struct operation *done = &shared->steps.ops[0];

	fill(&shared->planned[0], place, variant, 1);
	fill(&shared->planned[1], place, LOAD, 2);
	trace();
	for (unsigned i = 1; i <= shared->trace.n; i++) {
		unsigned long before = shared->freed;

		reset();
		shared->steps.at[0] = i;
		memcpy(shared->steps.ops, shared->planned, sizeof(shared->planned));
		steps_run(&shared->steps, shared->memory);
		if (shared->freed == before)
			continue;
		CHECK(is_gone(shared->memory + place->at, place->size));
		CHECK(variant != CAS_NOW || is_gone(done->expected, place->size));
	}
	CHECK(shared->freed > 0);
}

static void free_each(void *unused)
{
	/* A store to more than 64 bytes is the exception, see near_atomic(7). */
	static const struct place small[] = {{0, 24, false}, {8, 64, false}, {32, 21, false}};
	static const struct place large = {40, 100, false};

	begin(2);
	shared->steps.behind = free_if_seen;
	for (unsigned i = 0; i < LENGTH(small); i++)
		for (unsigned variant = STORE; variant <= CAS_NOW; variant++)
			free_everywhere(&small[i], variant);
	free_everywhere(&large, EXCHANGE);
	free_everywhere(&large, CAS_NOW);
}

static void nothing_is_written_late(void **state)
{
	for (int alone = 0; alone < 2; alone++) {
		shared->mode = near__wide_best();
		shared->alone = alone;
		shared->freed = 0;
		in_child(free_each, NULL);
	}
}

int main(void)
{
	shared = steps_share(sizeof(*shared));
	return UNIT_TESTS(at_each_instruction, handlers_in_handlers, handlers_after_handlers,
			  nothing_is_written_late);
}
