/* SPDX-License-Identifier: MIT */
/* The operations of sequences, each against what C makes of the same numbers; the slot of a
 * sequence: its index, its address, and the slots that it must not use.
 *
 * Where the kernel has no rseq (qemu-user), the thread's words name an area of the test's own, so
 * that the code of every CPU is run; nothing interrupts a sequence there that could do harm. */
#include "unit.h"

#include <nearcpu/percpu.h>

#include "percpu/percpu.h"

#if NEAR__HAS_SEQ

static struct near__area pretended = {.cpu_id = 1, .mm_cid = 0};
static uint64_t *slotted; /* a percpu object whose own slot is open */

static int set_up(void **state)
{
	void *p;

	CHECK(near_percpu_alloc(64, 64, &p) == 0);
	slotted = p;
	if (!near__thread_live()) {
		near__self.area = &pretended;
		near__self.index_mode = 0;
	}
	return 0;
}

/* A sequence may be aborted at any time: it is tried again. */
#define UNTIL_DONE(call)                                                                           \
	for (int tries_ = 0; !(call); tries_++)                                                    \
	CHECK(tries_ < 10000)

enum { BRANCHED = 2 };

/* Returns whether the sequence ended; where it branched, *out is TAKEN. */
#define SEQUENCE(ops, ...)                                                                         \
	uint64_t at, v, w;                                                                         \
	int r = NEAR_SEQ(NEAR_INDEX(at) ops, NEAR_OUT(at, v, w), NEAR_IN(__VA_ARGS__), BRANCHED);  \
                                                                                                   \
	if (r == BRANCHED)                                                                         \
		*out = TAKEN;                                                                      \
	return r != NEAR_SEQ_FAILED
#define TAKEN UINT64_C(0x7461676e)

/* ---- two operands ---- */

/* name, operation on v, which is a at first, what C makes of it */
#define OPERATIONS(X)                                                                              \
	X(move, NEAR_MOVE(v, b), b)                                                                \
	X(add, NEAR_ADD(v, b), a + b)                                                              \
	X(sub, NEAR_SUB(v, b), a - b)                                                              \
	X(and, NEAR_AND(v, b), (a & b))                                                            \
	X(or, NEAR_OR(v, b), a | b)                                                                \
	X(xor, NEAR_XOR(v, b), a ^ b)                                                              \
	X(mul, NEAR_MUL(v, b), (a * b))                                                            \
	X(add_1, NEAR_ADD_CONST(v, 1), a + 1)                                                      \
	X(add_255, NEAR_ADD_CONST(v, 255), a + 255)                                                \
	X(add_minus_255, NEAR_ADD_CONST(v, -255), a - 255)                                         \
	X(left_1, NEAR_SHIFT_LEFT(v, 1), a << 1)                                                   \
	X(left_20, NEAR_SHIFT_LEFT(v, 20), a << 20)                                                \
	X(left_63, NEAR_SHIFT_LEFT(v, 63), a << 63)                                                \
	X(right_1, NEAR_SHIFT_RIGHT(v, 1), a >> 1)                                                 \
	X(right_20, NEAR_SHIFT_RIGHT(v, 20), a >> 20)                                              \
	X(right_63, NEAR_SHIFT_RIGHT(v, 63), a >> 63)                                              \
	X(eq, NEAR_BRANCH_EQ(a, b, BRANCHED), a == b ? TAKEN : a)                                  \
	X(ne, NEAR_BRANCH_NE(a, b, BRANCHED), a != b ? TAKEN : a)                                  \
	X(below, NEAR_BRANCH_BELOW(a, b, BRANCHED), a < b ? TAKEN : a)                             \
	X(not_below, NEAR_BRANCH_NOT_BELOW(a, b, BRANCHED), a >= b ? TAKEN : a)                    \
	X(zero, NEAR_BRANCH_ZERO(b, BRANCHED), b == 0 ? TAKEN : a)                                 \
	X(nonzero, NEAR_BRANCH_NONZERO(b, BRANCHED), b != 0 ? TAKEN : a)

#define DEFINE(name, operation, in_c)                                                              \
	static bool seq_##name(uint64_t *out, uint64_t a, uint64_t b)                              \
	{                                                                                          \
		SEQUENCE(NEAR_MOVE(v, a) operation NEAR_COMMIT8(v, out, 0), out, a, b);            \
	}                                                                                          \
	static uint64_t c_##name(uint64_t a, uint64_t b)                                           \
	{                                                                                          \
		return in_c;                                                                       \
	}
OPERATIONS(DEFINE)

static void operations_on_registers(void **state)
{
#define ROW(name, operation, in_c) {#name, seq_##name, c_##name},
	static const struct {
		const char *name;
		bool (*seq)(uint64_t *out, uint64_t a, uint64_t b);
		uint64_t (*in_c)(uint64_t a, uint64_t b);
	} rows[] = {OPERATIONS(ROW)};
	/* clang-format off */
	static const uint64_t values[] = {
		0, 1, 2, 255, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
		0x7fffffffffffffff, 0x8000000000000000, 0xfffffffffffffffe, 0xffffffffffffffff,
		0x0123456789abcdef, 0xfedc000000000001, 0x10101, 0x8000000000000100};
	/* clang-format on */

	for (unsigned o = 0; o < LENGTH(rows); o++) {
		for (unsigned i = 0; i < LENGTH(values) * LENGTH(values); i++) {
			uint64_t a = values[i / LENGTH(values)], b = values[i % LENGTH(values)];
			uint64_t out = 0;

			UNTIL_DONE(rows[o].seq(&out, a, b));
			if (out != rows[o].in_c(a, b))
				fail_msg("%s of %#jx and %#jx: %#jx", rows[o].name, (uintmax_t)a,
					 (uintmax_t)b, (uintmax_t)out);
		}
	}
}

/* ---- memory ---- */

#define DEFINE_LOAD(name, operation)                                                               \
	static bool name(uint64_t *out, const void *mem)                                           \
	{                                                                                          \
		SEQUENCE(operation NEAR_COMMIT8(v, out, 0), out, NEAR_OBJECT(mem));                \
	}
DEFINE_LOAD(mem4_ne_0, NEAR_MOVE(v, mem) NEAR_BRANCH_MEM4_NE(mem, 0, 1, BRANCHED))
DEFINE_LOAD(mem4_ne_252, NEAR_MOVE(v, mem) NEAR_BRANCH_MEM4_NE(mem, 252, 255, BRANCHED))

/* size, offset */
#define LOADS(X) X(1, 0) X(1, 255) X(2, 0) X(2, 254) X(4, 0) X(4, 252) X(8, 0) X(8, 8) X(8, 248)
#define LOAD_AT(size, offset) DEFINE_LOAD(load##size##_##offset, NEAR_LOAD##size(v, mem, offset))
LOADS(LOAD_AT)

static void loads_clear_the_rest(void **state)
{
#define LOAD_ROW(size, offset) {load##size##_##offset, offset, size},
	static const struct {
		bool (*load)(uint64_t *, const void *);
		unsigned offset, size;
	} loads[] = {LOADS(LOAD_ROW)};
	unsigned char memory[256] __attribute__((aligned(8)));

	for (unsigned i = 0; i < LENGTH(loads); i++) {
		uint64_t expected = 0, out = 1;

		for (unsigned k = 0; k < sizeof(memory); k++)
			memory[k] = (unsigned char)(0x80 + k * 7);
		memcpy(&expected, memory + loads[i].offset, loads[i].size);
		UNTIL_DONE(loads[i].load(&out, memory));
		assert_int_equal(out, expected);
	}
}

/* name, how it writes b to memory (what it commits to *out does not matter), offset, size, adds */
#define STORES(X)                                                                                  \
	X(store1_0, NEAR_STORE1(b, mem, 0) NEAR_COMMIT8(b, out, 0), 0, 1, false)                   \
	X(store1_255, NEAR_STORE1(b, mem, 255) NEAR_COMMIT8(b, out, 0), 255, 1, false)             \
	X(store2_254, NEAR_STORE2(b, mem, 254) NEAR_COMMIT8(b, out, 0), 254, 2, false)             \
	X(store4_252, NEAR_STORE4(b, mem, 252) NEAR_COMMIT8(b, out, 0), 252, 4, false)             \
	X(store8_248, NEAR_STORE8(b, mem, 248) NEAR_COMMIT8(b, out, 0), 248, 8, false)             \
	X(commit4_0, NEAR_COMMIT4(b, mem, 0), 0, 4, false)                                         \
	X(commit4_252, NEAR_COMMIT4(b, mem, 252), 252, 4, false)                                   \
	X(commit8_248, NEAR_COMMIT8(b, mem, 248), 248, 8, false)                                   \
	X(commit4_release, NEAR_COMMIT4_RELEASE(b, mem), 0, 4, false)                              \
	X(commit8_release, NEAR_COMMIT8_RELEASE(b, mem), 0, 8, false)                              \
	X(commit4_shared, NEAR_COMMIT4_SHARED_RELEASE(b, mem), 0, 4, false)                        \
	X(commit_add_0, NEAR_COMMIT_ADD8(b, mem, 0), 0, 8, true)                                   \
	X(commit_add_248, NEAR_COMMIT_ADD8(b, mem, 248), 248, 8, true)

#define STORE(name, operation, ...)                                                                \
	static bool name(uint64_t *out, void *mem, uint64_t b)                                     \
	{                                                                                          \
		SEQUENCE(operation, out, mem, b);                                                  \
	}
STORES(STORE)

static void stores_and_commits_write_what_they_should(void **state)
{
#define STORE_ROW(name, operation, offset, size, adds) {name, offset, size, adds},
	static const struct {
		bool (*store)(uint64_t *, void *, uint64_t);
		unsigned offset, size;
		bool adds;
	} stores[] = {STORES(STORE_ROW)};
	unsigned char memory[256] __attribute__((aligned(8))), expected[256];

	for (unsigned i = 0; i < LENGTH(stores); i++) {
		uint64_t value = UINT64_C(0xfedcba9876543210), word = value, out;

		for (unsigned k = 0; k < sizeof(memory); k++)
			memory[k] = expected[k] = (unsigned char)(k * 5 + 1);
		if (stores[i].adds) {
			memcpy(&word, memory + stores[i].offset, 8);
			word += value;
		}
		memcpy(expected + stores[i].offset, &word, stores[i].size);
		UNTIL_DONE(stores[i].store(&out, memory, value));
		assert_memory_equal(memory, expected, sizeof(memory));
	}
}

STORE(mem1_255, NEAR__BRANCH_NOT_BELOW_MEM1(b, mem, 255, BRANCHED) NEAR_COMMIT8(b, out, 0))

static void a_word_in_memory_is_compared(void **state)
{
	static const uint32_t words[] = {0,   1,          2,          254,        255,
					 256, 0x101,      0x80000001, 0xffffffff, 0xffffff01,
					 511, 0x7fffffff, 0x800000ff};
	uint32_t memory[64] __attribute__((aligned(8)));

	for (unsigned i = 0; i < LENGTH(words); i++) {
		uint64_t out = 0;

		memset(memory, 0xff, sizeof(memory));
		memory[0] = memory[63] = words[i];
		UNTIL_DONE(mem4_ne_0(&out, memory));
		assert_int_equal(out, words[i] == 1 ? (uintptr_t)memory : TAKEN);
		UNTIL_DONE(mem4_ne_252(&out, memory));
		assert_int_equal(out, words[i] == 255 ? (uintptr_t)memory : TAKEN);
		for (uint64_t a = 0; a < 256; a++) {
			UNTIL_DONE(mem1_255(&out, memory, a));
			assert_int_equal(out, a >= words[i] >> 24 ? TAKEN : a);
		}
	}
}

/* Any distance, on either side, and the base and the index of a word are alike. */
STORE(load_x, NEAR_LOAD8X(v, mem, b) NEAR_COMMIT8(v, out, 0))
STORE(load_x_swapped, NEAR_LOAD8X(v, b, mem) NEAR_COMMIT8(v, out, 0))
STORE(load1_x, NEAR__LOAD1X(v, mem, b) NEAR_COMMIT8(v, out, 0))
static void a_word_is_loaded_from_an_index(void **state)
{
	static const int64_t indexes[] = {0, 8, 16, 2040, -8, -2040, 1, 13};
	unsigned char memory[4096] __attribute__((aligned(8)));
	unsigned char *base = memory + 2048;

	for (unsigned i = 0; i < sizeof(memory); i++)
		memory[i] = (unsigned char)(i * 7 + i / 256);
	for (unsigned i = 0; i < LENGTH(indexes); i++) {
		uint64_t out = 0, expected;

		memcpy(&expected, base + indexes[i], 8);
		UNTIL_DONE(load_x(&out, base, (uint64_t)indexes[i]));
		assert_int_equal(out, expected);
		UNTIL_DONE(load_x_swapped(&out, base, (uint64_t)indexes[i]));
		assert_int_equal(out, expected);
		UNTIL_DONE(load1_x(&out, base, (uint64_t)indexes[i]));
		assert_int_equal(out, base[indexes[i]]);
	}
}

STORE(copy2, NEAR_COPY2(out, 8, mem, 16, v) NEAR_COMMIT8(b, out, 0))
STORE(copy4, NEAR_COPY4(out, 16, mem, 0, v) NEAR_COMMIT8(b, out, 8))

static void words_are_copied(void **state)
{
	uint64_t from[6] = {11, 12, 13, 14, 15, 16}, to[8] = {0};
	static const uint64_t two[8] = {9, 13, 14}, four[8] = {9, 7, 11, 12, 13, 14};

	UNTIL_DONE(copy2(to, from, 9));
	assert_memory_equal(to, two, sizeof(to));
	UNTIL_DONE(copy4(to, from, 7));
	assert_memory_equal(to, four, sizeof(to));
}

/* ---- slots ---- */

/* Opens the slot that sequences use now, by hand. */
static void open_own_slot(void)
{
	char *arena = (char *)((uintptr_t)slotted & ~NEAR__ARENA_MASK);
	size_t stride = (size_t)1 << NEAR_STRIDE_SHIFT;

	if (near__thread_live()) {
		assert_true(near_slot_open(slotted));
		return;
	}
	assert_false(near_slot_open(slotted));
	arena += near__index_now() * stride;
	assert_int_equal(mprotect(arena, stride, PROT_READ | PROT_WRITE), 0);
	*(uint32_t *)arena = NEAR__OPEN;
}

DEFINE_LOAD(slot_index, NEAR_INDEX(v))
DEFINE_LOAD(slot_index_cpu, NEAR_INDEX_CPU(v))
DEFINE_LOAD(slot_index_cid, NEAR_INDEX_CID(v))
DEFINE_LOAD(slot_checked, NEAR_SLOT(v, mem))
DEFINE_LOAD(slot_unchecked, NEAR_SLOT_UNCHECKED(v, mem))
DEFINE_LOAD(slot_offset, NEAR_OFFSET(v, mem))

static void the_index_is_the_slot(void **state)
{
	uint64_t out, before;

	assert_true(unit_pin(0, NULL));
	do {
		before = near__index_now();
		UNTIL_DONE(slot_index(&out, slotted));
	} while (before != near__index_now());
	assert_int_equal(out, before);
	UNTIL_DONE(slot_index_cpu(&out, slotted));
	assert_int_equal(out, near__self.area->cpu_id);
	open_own_slot();
	UNTIL_DONE(slot_offset(&out, slotted));
	assert_int_equal(out, (uint64_t)near__index_now() << NEAR_STRIDE_SHIFT);
	UNTIL_DONE(slot_checked(&out, slotted));
	assert_ptr_equal((void *)(uintptr_t)out, near_percpu_at(slotted, near__index_now()));
	UNTIL_DONE(slot_unchecked(&out, slotted));
	assert_ptr_equal((void *)(uintptr_t)out, near_percpu_at(slotted, near__index_now()));
	unit_unpin();
}

/* With (node, cid) and with cpus the index is made in another way than with cids. */
static void the_index_may_be_made_of_node_and_cid(void **state)
{
	struct near__thread self = near__self;
	struct near__area area = {.cpu_id = 5, .node_id = 3, .mm_cid = 7};
	uint64_t out;

	near__self.area = &area;
	near__self.index_mode = 100;
	UNTIL_DONE(slot_index(&out, slotted));
	assert_int_equal(near__index_now(), 307);
	near__self.index_mode = 1;
	assert_int_equal(out, 307);
	UNTIL_DONE(slot_index(&out, slotted));
	near__self.index_mode = 0;
	assert_int_equal(out, 5);
	UNTIL_DONE(slot_index(&out, slotted));
	assert_int_equal(out, 7);
	/* The others are what they are, however slots are made. */
	for (near__self.index_mode = 0; near__self.index_mode < 3; near__self.index_mode++) {
		UNTIL_DONE(slot_index_cid(&out, slotted));
		assert_int_equal(out, 7);
		UNTIL_DONE(slot_index_cpu(&out, slotted));
		assert_int_equal(out, 5);
	}
	near__self = self;
}

static void a_slot_that_is_not_open_turns_sequences_away(void **state)
{
	static const uint32_t states[] = {NEAR__UNOPENED,      NEAR__CLOSED, 3,
					  NEAR__OPEN_FALLBACK, 257,          UINT32_MAX};
	uint64_t out = 9;
	uint32_t *word;

	assert_true(unit_pin(0, NULL));
	open_own_slot();
	word = near_percpu_at((void *)((uintptr_t)slotted & ~NEAR__ARENA_MASK), near__index_now());
	for (unsigned i = 0; i < LENGTH(states); i++) {
		*word = states[i];
		for (int k = 0; k < 100; k++) {
			assert_false(slot_checked(&out, slotted));
			assert_false(slot_offset(&out, slotted));
		}
		assert_int_equal(out, 9);
	}
	*word = NEAR__OPEN;
	UNTIL_DONE(slot_checked(&out, slotted));
	unit_unpin();
}

static void *find_no_slot(void *arg)
{
	uint64_t out = 9;

	CHECK(near__self.state == NEAR__NEW);
	for (int i = 0; i < 100; i++)
		CHECK(!slot_checked(&out, arg));
	CHECK(near__self.state == NEAR__NEW);
	UNTIL_DONE(slot_index(&out, arg));
	CHECK(out == near_slots());
	UNTIL_DONE(slot_index_cpu(&out, arg));
	CHECK(out == near_cpus());
	UNTIL_DONE(slot_index_cid(&out, arg));
	CHECK(out == near_slots());
	return NULL;
}

static void a_new_thread_has_the_slot_that_is_never_open(void **state)
{
	unit_join(unit_start(find_no_slot, slotted));
}

int main(void)
{
	return UNIT_GROUP(set_up, NULL, NULL, operations_on_registers, loads_clear_the_rest,
			  a_word_in_memory_is_compared, stores_and_commits_write_what_they_should,
			  a_word_is_loaded_from_an_index, words_are_copied, the_index_is_the_slot,
			  the_index_may_be_made_of_node_and_cid,
			  a_slot_that_is_not_open_turns_sequences_away,
			  a_new_thread_has_the_slot_that_is_never_open);
}

#else

int main(void)
{
	puts("this CPU has no sequences");
	return 77;
}

#endif
