/* SPDX-License-Identifier: MIT */
/* Two faults of other libatomics: a load that writes to what cannot be written to, and operations
 * on large objects that wait for each other for ever. */
#include "arena.h"
#include "wide_modes.h"

/* ---- read-only memory ---- */

#define READ_SIZE 8192

/* Bytes that nobody may write to, at the end of a page behind which there is none. */
static const unsigned char *read_only(void)
{
	unsigned char *p = mmap(NULL, 2 * READ_SIZE, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	for (size_t i = 0; i < READ_SIZE; i++)
		p[i] = (unsigned char)(i * 31 + i / 256);
	assert_int_equal(mprotect(p, READ_SIZE, PROT_READ), 0);
	assert_int_equal(mprotect(p + READ_SIZE, READ_SIZE, PROT_NONE), 0);
	return p;
}

static void read_generic(const unsigned char *p, size_t n)
{
	unsigned char to[READ_SIZE] = {0};

	if (wide_load_writes(p, n))
		return;
	call_load(n, p, to, __ATOMIC_SEQ_CST);
	assert_memory_equal(to, p, n);
}

/* At this offset from the first byte and up to the last. */
static void read_at(const unsigned char *p, size_t at, size_t n)
{
	read_generic(p + at, n);
	read_generic(p + READ_SIZE - n - at, n);
}

static void test_generic_loads_of_constants(void **state)
{
	static const size_t larger[] = {100, 128, 255, 256, 1000, 4096, 8000};
	const unsigned char *p = read_only();

	for (size_t at = 0; at < ARENA_OFFSETS; at++)
		for (size_t n = 1; n <= 80; n++)
			read_at(p, at, n);
	for (size_t at = 0; at < ARENA_OFFSETS; at += 9)
		for (size_t i = 0; i < LENGTH(larger); i++)
			read_at(p, at, larger[i]);
	munmap((void *)p, 2 * READ_SIZE);
}

static void test_sized_loads_of_constants(void **state)
{
	const unsigned char *p = read_only();

	for (size_t i = 0; i < CALL_SIZES; i++) {
		const struct sized_calls *c = &sized_calls[i];

		for (size_t at = 0; at < READ_SIZE && !wide_load_writes(p, c->n); at += c->n) {
			call_value v = c->load(p + at, (int)(at % CALL_ORDERS));

			assert_true(v == call_get(c->n, p + at));
		}
	}
	munmap((void *)p, 2 * READ_SIZE);
}

static int run_loads(void)
{
	return UNIT_TESTS(test_generic_loads_of_constants, test_sized_loads_of_constants);
}

UNIT_TEST(test_loads_of_constants_each_way, wide_each(run_loads))

/* ---- large objects ---- */

#define PERIOD 65536 /* no less than what all locks stand for together */

/* What one of two threads does, over and over. The other one's object is elsewhere. */
struct part {
	unsigned char *memory; /* PERIOD of them, twice */
	unsigned rounds;
	size_t at, n; /* n = 0: any */
	bool stores;
};

static void *use(void *arg)
{
	static __thread unsigned char bytes[PERIOD];
	const struct part *p = arg;
	uint64_t random = p->at + 1;

	for (unsigned i = 0; i < p->rounds; i++) {
		size_t at = p->at, n = p->n;

		if (n == 0) {
			at = unit_random(&random) % PERIOD;
			n = unit_random(&random) % 700 + 60;
		}
		bytes[0] = (unsigned char)i;
		if (p->stores)
			call_store(n, p->memory + at, bytes, __ATOMIC_SEQ_CST);
		else
			call_load(n, p->memory + at, bytes, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

/* Two operations that wait for each other do not end. */
static void both(struct part *parts, unsigned rounds)
{
	void *memory[2] = {arena_memory(2 * PERIOD), arena_memory(2 * PERIOD)};

	for (int i = 0; i < 2; i++) {
		parts[i].memory = memset(memory[i], i, 2 * PERIOD);
		parts[i].rounds = unit_scale(rounds);
	}
	unit_run(use, parts, sizeof(*parts), 2);
	free(memory[0]);
	free(memory[1]);
}

/* One object begins with a table's last line, the other fills the table from its first, for tables
 * of 64 to 1,024 lines. */
static void wrap(bool first_stores, bool second_stores)
{
	for (size_t lines = 64; lines <= 1024; lines *= 2) {
		struct part parts[2] = {
			{.at = (lines - 1) * ARENA_LINE, .n = 128, .stores = first_stores},
			{.at = 0, .n = lines * ARENA_LINE, .stores = second_stores},
		};

		both(parts, (unsigned)(80000 * 64 / lines));
	}
}

UNIT_TEST(test_loads_that_wrap_around, wrap(false, false))
UNIT_TEST(test_stores_that_wrap_around, wrap(true, true))

static void test_a_load_and_a_store_that_wrap_around(void **state)
{
	wrap(false, true);
	wrap(true, false);
}

static void test_any_lines(void **state)
{
	struct part parts[2] = {{.at = 1, .stores = true}, {.at = 2, .stores = true}};

	both(parts, 150000);
	parts[0].stores = false;
	both(parts, 150000);
}

UNIT_MAIN(test_generic_loads_of_constants, test_sized_loads_of_constants,
	  test_loads_of_constants_each_way, test_loads_that_wrap_around,
	  test_stores_that_wrap_around, test_a_load_and_a_store_that_wrap_around, test_any_lines)
