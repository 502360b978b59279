/* SPDX-License-Identifier: MIT */
/* Per-CPU memory: threads that allocate and free each other's objects, forked children, a million
 * objects. */
#include "objects.h"
#include "team.h"

/* ---- a million ---- */

static size_t reserved(void)
{
	return (size_t)near__process.reserved;
}

static void shuffle(void **p, unsigned n)
{
	uint64_t seed = 5;

	for (unsigned i = n - 1; i; i--) {
		unsigned k = unit_random(&seed) % (i + 1);
		void *swapped = p[i];

		p[i] = p[k];
		p[k] = swapped;
	}
}

/* Eight bytes each per slot in use, and a bit. */
static void a_million_small_objects(void **state)
{
	unsigned n = unit_emulated() ? 150000 : 1000000, pages = 0;
	void **p = calloc(n, sizeof(*p));
	size_t before = reserved();

	assert_non_null(p);
	slots_enter(9);
	for (unsigned i = 0; i < n; i++) {
		p[i] = allocate(8, 8);
		add(p[i], i + 1);
	}
	assert_true(reserved() >= before + (n / 131072) * (near_slots() * MIB));
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(sum(p[i]), i + 1);
	for (unsigned i = 0; i < n; i += 131072)
		pages += resident(p[i], near__thread_live() ? 9 : near_slots() + 1 + 9);
	assert_in_range(pages, n * 8 / page_size(), (n / 131072 + 2) * MIB / page_size());
	shuffle(p, n);
	for (unsigned i = 0; i < n; i++)
		release(p[i]);
	/* The same memory again. */
	before = reserved();
	for (unsigned i = 0; i < n; i++) {
		p[i] = allocate(8, 8);
		assert_int_equal(sum(p[i]), 0);
	}
	assert_int_equal(reserved(), before);
	for (unsigned i = 0; i < n; i++)
		release(p[i]);
	free(p);
}

/* ---- threads ---- */

#define HELD 64

static void *exchange[16]; /* objects in transfer from one thread to another */

/* Each object carries the number of the thread that made it, until another thread frees it. */
static void allocate_and_free(unsigned number)
{
	static const size_t sizes[] = {8, 8, 8, 16, 24, 40, 64, 200, 3000, 70000};
	unsigned rounds = unit_scale(20000);
	int64_t mark = number * 100 + 1;
	void *held[HELD] = {NULL};
	uint64_t seed = number;

	for (unsigned i = 0; i < rounds; i++) {
		unsigned k = unit_random(&seed) % HELD;
		unsigned place = unit_random(&seed) % LENGTH(exchange);

		if (!held[k]) {
			held[k] = allocate(sizes[unit_random(&seed) % LENGTH(sizes)], 8);
			CHECK(sum(held[k]) == 0);
			add(held[k], mark);
		} else if (i % 4) {
			check_and_free(held[k], mark);
			held[k] = NULL;
		} else {
			/* Becomes common: 1 from each that had it. */
			add(held[k], 1 - mark);
			held[k] = __atomic_exchange_n(&exchange[place], held[k], __ATOMIC_ACQ_REL);
			if (held[k])
				check_and_free(held[k], 1);
			held[k] = NULL;
		}
	}
	for (unsigned k = 0; k < HELD; k++)
		if (held[k])
			check_and_free(held[k], mark);
}

static void threads_allocate_and_free_each_others(void **state)
{
	team_run(8, allocate_and_free);
	for (unsigned i = 0; i < LENGTH(exchange); i++)
		if (exchange[i])
			check_and_free(exchange[i], 1);
}

/* ---- fork ---- */

static void keep_allocating(unsigned number)
{
	uint64_t seed = number + 1;
	void *p[64];

	while (team_continues()) {

		/* A class in which an arena holds three: it is always being enlarged. */
		for (unsigned i = 0; i < LENGTH(p); i++)
			p[i] = allocate(unit_random(&seed) % 8 ? 8 : 200000, 8);
		for (unsigned i = 0; i < LENGTH(p); i++) {
			add(p[i], 1);
			release(p[i]);
		}
	}
}

static void use_in_child(void *inherited, void *freed)
{
	void *p[200];

	CHECK(sum(inherited) == 5);
	add(inherited, 2);
	CHECK(sum(inherited) == 7);
	release(freed);
	for (unsigned i = 0; i < LENGTH(p); i++) {
		p[i] = allocate(i % 50 ? 8 : 200000, 8);
		CHECK(sum(p[i]) == 0);
		add(p[i], i);
	}
	for (unsigned i = 0; i < LENGTH(p); i++)
		check_and_free(p[i], i);
}

static void children_have_memory_of_their_own(void **state)
{
	void *inherited, *freed;
	struct team team;

	/* A child without room for an arena (allocate) would leave this test, and its threads. */
	if (sizeof(inherited) == 4)
		skip();
	inherited = allocate(8, 8);
	freed = allocate(8, 8);
	add(inherited, 5);
	add(freed, 6);
	/* ThreadSanitizer does not like children of many threads. */
	team_start(&team, UNIT_THREAD_SANITIZER ? 0 : 3, keep_allocating);
	for (unsigned i = 0; i < unit_scale(60); i++)
		IN_CHILD()
			use_in_child(inherited, freed);
	team_stop(&team);
	/* What the children did is not seen here. */
	check_and_free(inherited, 5);
	check_and_free(freed, 6);
}

UNIT_MAIN_EACH(NULL, leave_slot, threads_allocate_and_free_each_others,
	       children_have_memory_of_their_own, a_million_small_objects)
