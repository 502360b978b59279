/* SPDX-License-Identifier: MIT */
/* The operations of sequences, each against what C makes of the same numbers. */
#include "sequences.h"

#if NEAR__HAS_SEQ

/* ---- two operands ---- */

#define BINARY(name, operation)                                                                    \
	static bool name(uint64_t *out, uint64_t a, uint64_t b)                                    \
	{                                                                                          \
		SEQUENCE(NEAR_MOVE(v, a) operation NEAR_COMMIT8(v, out, 0), out, a, b);            \
	}
BINARY(seq_move, NEAR_MOVE(v, b))
BINARY(seq_add, NEAR_ADD(v, b))
BINARY(seq_sub, NEAR_SUB(v, b))
BINARY(seq_and, NEAR_AND(v, b))
BINARY(seq_or, NEAR_OR(v, b))
BINARY(seq_xor, NEAR_XOR(v, b))
BINARY(seq_mul, NEAR_MUL(v, b))
BINARY(seq_add_1, NEAR_ADD_CONST(v, 1))
BINARY(seq_add_255, NEAR_ADD_CONST(v, 255))
BINARY(seq_add_minus_255, NEAR_ADD_CONST(v, -255))
BINARY(seq_left_1, NEAR_SHIFT_LEFT(v, 1))
BINARY(seq_left_20, NEAR_SHIFT_LEFT(v, 20))
BINARY(seq_left_63, NEAR_SHIFT_LEFT(v, 63))
BINARY(seq_right_1, NEAR_SHIFT_RIGHT(v, 1))
BINARY(seq_right_20, NEAR_SHIFT_RIGHT(v, 20))
BINARY(seq_right_63, NEAR_SHIFT_RIGHT(v, 63))
BINARY(seq_eq, NEAR_BRANCH_EQ(a, b, BRANCHED))
BINARY(seq_ne, NEAR_BRANCH_NE(a, b, BRANCHED))
BINARY(seq_below, NEAR_BRANCH_BELOW(a, b, BRANCHED))
BINARY(seq_not_below, NEAR_BRANCH_NOT_BELOW(a, b, BRANCHED))
BINARY(seq_zero, NEAR_BRANCH_ZERO(b, BRANCHED))
BINARY(seq_nonzero, NEAR_BRANCH_NONZERO(b, BRANCHED))

static uint64_t in_c(unsigned which, uint64_t a, uint64_t b)
{
	const uint64_t results[] = {
		b,
		a + b,
		a - b,
		a & b,
		a | b,
		a ^ b,
		a * b,
		a + 1,
		a + 255,
		a - 255,
		a << 1,
		a << 20,
		a << 63,
		a >> 1,
		a >> 20,
		a >> 63,
		a == b ? TAKEN : a,
		a != b ? TAKEN : a,
		a < b ? TAKEN : a,
		a >= b ? TAKEN : a,
		b == 0 ? TAKEN : a,
		b != 0 ? TAKEN : a,
	};

	return results[which];
}

static void operations_on_registers(void **state)
{
	static bool (*const operations[])(uint64_t *, uint64_t, uint64_t) = {
		seq_move,     seq_add,     seq_sub,     seq_and,     seq_or,
		seq_xor,      seq_mul,     seq_add_1,   seq_add_255, seq_add_minus_255,
		seq_left_1,   seq_left_20, seq_left_63, seq_right_1, seq_right_20,
		seq_right_63, seq_eq,      seq_ne,      seq_below,   seq_not_below,
		seq_zero,     seq_nonzero};
	static const uint64_t values[] = {0,
					  1,
					  2,
					  255,
					  0x7fffffff,
					  0x80000000,
					  0xffffffff,
					  0x100000000,
					  INT64_MAX,
					  (uint64_t)INT64_MIN,
					  UINT64_MAX - 1,
					  UINT64_MAX,
					  UINT64_C(0x0123456789abcdef)};

	for (unsigned o = 0; o < LENGTH(operations); o++) {
		for (unsigned i = 0; i < LENGTH(values) * LENGTH(values); i++) {
			uint64_t a = values[i / LENGTH(values)], b = values[i % LENGTH(values)];
			uint64_t out = 0;

			UNTIL_DONE(operations[o](&out, a, b));
			if (out != in_c(o, a, b))
				fail_msg("operation %u of %#jx and %#jx: %#jx", o, (uintmax_t)a,
					 (uintmax_t)b, (uintmax_t)out);
		}
	}
}

/* ---- memory ---- */

#define LOAD(name, operation)                                                                      \
	static bool name(uint64_t *out, const void *mem)                                           \
	{                                                                                          \
		SEQUENCE(operation NEAR_COMMIT8(v, out, 0), out, mem);                             \
	}
LOAD(load1_0, NEAR_LOAD1(v, mem, 0))
LOAD(load1_255, NEAR_LOAD1(v, mem, 255))
LOAD(load2_0, NEAR_LOAD2(v, mem, 0))
LOAD(load2_254, NEAR_LOAD2(v, mem, 254))
LOAD(load4_0, NEAR_LOAD4(v, mem, 0))
LOAD(load4_252, NEAR_LOAD4(v, mem, 252))
LOAD(load8_0, NEAR_LOAD8(v, mem, 0))
LOAD(load8_8, NEAR_LOAD8(v, mem, 8))
LOAD(load8_248, NEAR_LOAD8(v, mem, 248))
LOAD(mem4_ne_0, NEAR_MOVE(v, mem) NEAR_BRANCH_MEM4_NE(mem, 0, 1, BRANCHED))
LOAD(mem4_ne_252, NEAR_MOVE(v, mem) NEAR_BRANCH_MEM4_NE(mem, 252, 255, BRANCHED))

static void loads_clear_the_rest(void **state)
{
	static const struct {
		bool (*load)(uint64_t *, const void *);
		unsigned offset, size;
	} loads[] = {{load1_0, 0, 1},     {load1_255, 255, 1}, {load2_0, 0, 2},
		     {load2_254, 254, 2}, {load4_0, 0, 4},     {load4_252, 252, 4},
		     {load8_0, 0, 8},     {load8_8, 8, 8},     {load8_248, 248, 8}};
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
	}
}

/* Writes `b` to memory; what is committed to *out does not matter. */
#define STORE(name, operation)                                                                     \
	static bool name(uint64_t *out, void *mem, uint64_t b)                                     \
	{                                                                                          \
		SEQUENCE(operation, out, mem, b);                                                  \
	}
STORE(store1_0, NEAR_STORE1(b, mem, 0) NEAR_COMMIT8(b, out, 0))
STORE(store1_255, NEAR_STORE1(b, mem, 255) NEAR_COMMIT8(b, out, 0))
STORE(store2_254, NEAR_STORE2(b, mem, 254) NEAR_COMMIT8(b, out, 0))
STORE(store4_252, NEAR_STORE4(b, mem, 252) NEAR_COMMIT8(b, out, 0))
STORE(store8_248, NEAR_STORE8(b, mem, 248) NEAR_COMMIT8(b, out, 0))
STORE(commit4_0, NEAR_COMMIT4(b, mem, 0))
STORE(commit4_252, NEAR_COMMIT4(b, mem, 252))
STORE(commit8_248, NEAR_COMMIT8(b, mem, 248))
STORE(commit4_release, NEAR_COMMIT4_RELEASE(b, mem))
STORE(commit8_release, NEAR_COMMIT8_RELEASE(b, mem))
STORE(commit4_shared, NEAR_COMMIT4_SHARED_RELEASE(b, mem))
STORE(commit_add_0, NEAR_COMMIT_ADD8(b, mem, 0))
STORE(commit_add_248, NEAR_COMMIT_ADD8(b, mem, 248))
STORE(commit_add_x,
      NEAR_MOVE(v, mem) NEAR_SUB(v, mem) NEAR_ADD_CONST(v, 64) NEAR_COMMIT_ADD8X(b, mem, v))
STORE(add_mem_0, NEAR_ADD_MEM8(b, mem, 0) NEAR_COMMIT8(b, out, 0))
STORE(add_mem_248, NEAR_ADD_MEM8(b, mem, 248) NEAR_COMMIT8(b, out, 0))

static void stores_and_commits_write_what_they_should(void **state)
{
	static const struct {
		bool (*store)(uint64_t *, void *, uint64_t);
		unsigned offset, size;
		bool adds;
	} stores[] = {{store1_0, 0, 1, false},        {store1_255, 255, 1, false},
		      {store2_254, 254, 2, false},    {store4_252, 252, 4, false},
		      {store8_248, 248, 8, false},    {commit4_0, 0, 4, false},
		      {commit4_252, 252, 4, false},   {commit8_248, 248, 8, false},
		      {commit4_release, 0, 4, false}, {commit8_release, 0, 8, false},
		      {commit4_shared, 0, 4, false},  {commit_add_0, 0, 8, true},
		      {commit_add_248, 248, 8, true}, {commit_add_x, 64, 8, true},
		      {add_mem_0, 0, 8, true},        {add_mem_248, 248, 8, true}};
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

/* Any distance, on either side, and base and index are alike. */
STORE(load_x, NEAR_LOAD8X(v, mem, b) NEAR_COMMIT8(v, out, 0))
STORE(load_x_swapped, NEAR_LOAD8X(v, b, mem) NEAR_COMMIT8(v, out, 0))
STORE(load_xor, NEAR_MOVE(v, b) NEAR_XOR_LOAD8X(v, mem, b) NEAR_COMMIT8(v, out, 0))
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
		UNTIL_DONE(load_xor(&out, base, (uint64_t)indexes[i]));
		assert_int_equal(out, (uint64_t)indexes[i] ^ expected);
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

int main(void)
{
	return UNIT_GROUP(set_up, NULL, NULL, operations_on_registers, loads_clear_the_rest,
			  a_word_in_memory_is_compared, stores_and_commits_write_what_they_should,
			  a_word_is_loaded_from_an_index, words_are_copied);
}

#else

int main(void)
{
	puts("this CPU has no sequences");
	return 77;
}

#endif
