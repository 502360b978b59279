/* SPDX-License-Identifier: MIT */
/* Threads on objects of many sizes: no update is lost, no value is torn, none goes back, whether
 * the objects share locks, overlap, or have nothing to do with each other. */
#include "unit.h"

#include "acts.h"

#define THREADS 6u
#define LARGEST 4096u
#define SEQ_CST __ATOMIC_SEQ_CST

static unsigned numbers[THREADS] = {0, 1, 2, 3, 4, 5};
static unsigned times;

static void pin(unsigned me)
{
	unit_pin(me % (unsigned)sysconf(_SC_NPROCESSORS_ONLN), NULL);
}

/* Words that all hold the count; a copy that does not is torn. */
static uint64_t count_in(const uint64_t *words, size_t size)
{
	CHECK(memcmp(words, words + 1, size - 8) == 0);
	return words[0];
}

static void set_all(uint64_t *words, size_t size, uint64_t count)
{
	for (size_t i = 0; i < size / 8; i++)
		words[i] = count;
}

/* Adds 1 by compare-exchanges. */
static void add_one(void *object, size_t size)
{
	uint64_t old[LARGEST / 8], new[LARGEST / 8];

	atomic_load_any(size, object, old, SEQ_CST);
	do
		set_all(new, size, count_in(old, size) + 1);
	while (!atomic_cas_any(size, object, old, new, SEQ_CST, SEQ_CST));
}

/* ---- one object ---- */

static unsigned char arena[1u << 17] __attribute__((aligned(4096)));
static size_t at, size;

static void *add_many(void *number)
{
	uint64_t seen[LARGEST / 8], before = 0, now;

	pin(*(unsigned *)number);
	for (unsigned i = 0; i < times; i++) {
		add_one(arena + at, size);
		atomic_load_any(size, arena + at, seen, SEQ_CST);
		now = count_in(seen, size);
		CHECK(now > before && now <= (uint64_t)THREADS * times);
		before = now;
	}
	return NULL;
}

static void no_update_is_lost(void **state)
{
	static const size_t sizes[] = {8, 16, 24, 64, 200, 4096};
	static const size_t places[] = {0, 8, 40, 64 * 255 + 48};

	for (unsigned i = 0; i < LENGTH(sizes) * LENGTH(places); i++) {
		size = sizes[i / LENGTH(places)];
		at = places[i % LENGTH(places)];
		times = unit_scale(size > 1000 ? 250 : 2500);
		memset(arena, 0, sizeof(arena));
		unit_run(add_many, numbers, sizeof(numbers[0]), THREADS);
		assert_int_equal(count_in((uint64_t *)(void *)(arena + at), size), THREADS * times);
	}
}

/* ---- many objects, more than there are locks ---- */

#define OBJECTS 1024u
#define SPACING (sizeof(arena) / OBJECTS)

/* Each thread adds to what it finds where it looks; some span lines, and all locks are shared. */
static size_t place_of(unsigned object, size_t *bytes)
{
	static const size_t sizes[] = {16, 24, 40, 64, 72, 96};

	*bytes = sizes[object % LENGTH(sizes)];
	return object * SPACING + object % 3 * 8;
}

static void *add_anywhere(void *number)
{
	uint64_t random = *(unsigned *)number;

	pin(*(unsigned *)number);
	for (unsigned i = 0; i < times; i++) {
		size_t bytes, place = place_of(unit_random(&random) % OBJECTS, &bytes);

		add_one(arena + place, bytes);
	}
	return NULL;
}

static void objects_share_locks(void **state)
{
	uint64_t sum = 0;

	memset(arena, 0, sizeof(arena));
	times = unit_scale(40000);
	unit_run(add_anywhere, numbers, sizeof(numbers[0]), THREADS);
	for (unsigned i = 0; i < OBJECTS; i++) {
		size_t bytes, place = place_of(i, &bytes);

		sum += count_in((uint64_t *)(void *)(arena + place), bytes);
	}
	assert_int_equal(sum, (uint64_t)THREADS * times);
}

/* ---- an object within another ---- */

/* Both hold the same bytes: the outer one also has the rest of a page. No word of an object that
 * needs locks is one that does without: the inner one is over the middle of 32 bytes. */
struct outer {
	uint64_t before[33];
	uint64_t inner[3];
	uint64_t behind[476];
} __attribute__((aligned(4096)));
_Static_assert(sizeof(struct outer) == LARGEST, "one page");

static struct outer page;

static void check_inner(const uint64_t *inner)
{
	CHECK(inner[1] == ~inner[0] && inner[2] == inner[0] * 3);
}

static void set_inner(uint64_t *inner, uint64_t value)
{
	inner[0] = value;
	inner[1] = ~value;
	inner[2] = value * 3;
}

static void check_page(const struct outer *p)
{
	check_inner(p->inner);
	count_in(p->before, sizeof(p->before));
	CHECK(count_in(p->behind, sizeof(p->behind)) == p->before[0]);
}

/* Adds to both, by one compare-exchange of all; returns what the inner one held. */
static void add_to_page(void)
{
	struct outer old, new;

	atomic_load_any(sizeof(page), &page, &old, SEQ_CST);
	do {
		check_page(&old);
		set_all(new.before, sizeof(new.before), old.before[0] + 1);
		set_all(new.behind, sizeof(new.behind), old.before[0] + 1);
		set_inner(new.inner, old.inner[0] + 1);
	} while (!atomic_cas_any(sizeof(page), &page, &old, &new, SEQ_CST, SEQ_CST));
}

static void add_to_inner(void)
{
	uint64_t old[3], new[3];

	atomic_load_any(sizeof(old), page.inner, old, SEQ_CST);
	do {
		check_inner(old);
		set_inner(new, old[0] + 1);
	} while (!atomic_cas_any(sizeof(old), page.inner, old, new, SEQ_CST, SEQ_CST));
}

static void *add_to_both(void *number)
{
	unsigned me = *(unsigned *)number;
	struct outer seen;
	uint64_t before = 0;

	pin(me);
	for (unsigned i = 0; i < times; i++) {
		if (me % 2 && i % 8 == 0)
			add_to_page();
		else
			add_to_inner();
		if (i % 8 == 1) {
			atomic_load_any(sizeof(page), &page, &seen, SEQ_CST);
			check_page(&seen);
			CHECK(seen.inner[0] > before);
			before = seen.inner[0];
		}
	}
	return NULL;
}

static void objects_overlap(void **state)
{
	memset(&page, 0, sizeof(page));
	set_inner(page.inner, 0);
	times = unit_scale(4000);
	unit_run(add_to_both, numbers, sizeof(numbers[0]), THREADS);
	assert_int_equal(page.inner[0], THREADS * times);
	assert_int_equal(page.before[0], THREADS / 2 * ((times + 7) / 8));
	check_page(&page);
}

/* ---- what is exchanged is neither lost nor doubled ---- */

static uint64_t given[THREADS], taken[THREADS];

static void *exchange_tokens(void *number)
{
	unsigned me = *(unsigned *)number;
	uint64_t in[LARGEST / 8], out[LARGEST / 8];

	pin(me);
	for (unsigned i = 1; i <= times; i++) {
		set_all(in, size, (uint64_t)i * THREADS + me);
		atomic_exchange_any(size, arena + at, in, out, SEQ_CST);
		given[me] += in[0];
		taken[me] += count_in(out, size);
	}
	return NULL;
}

static void exchanges_conserve(void **state)
{
	static const size_t sizes[] = {16, 24, 100 / 8 * 8, 512};

	for (unsigned i = 0; i < LENGTH(sizes); i++) {
		uint64_t sum;

		size = sizes[i];
		at = i * 1000;
		times = unit_scale(10000);
		memset(arena, 0, sizeof(arena));
		memset(given, 0, sizeof(given));
		memset(taken, 0, sizeof(taken));
		unit_run(exchange_tokens, numbers, sizeof(numbers[0]), THREADS);
		sum = count_in((uint64_t *)(void *)(arena + at), size);
		for (unsigned t = 0; t < THREADS; t++)
			sum += taken[t] - given[t];
		assert_int_equal(sum, 0);
	}
}

/* ---- one writer, many readers ---- */

static bool done;

static void *read_versions(void *number)
{
	uint64_t seen[LARGEST / 8], before = 0, now;

	pin(*(unsigned *)number);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		atomic_load_any(size, arena + at, seen, SEQ_CST);
		now = count_in(seen, size);
		CHECK(now >= before);
		before = now;
	}
	return NULL;
}

static void *write_versions(void *number)
{
	uint64_t value[LARGEST / 8];

	pin(*(unsigned *)number);
	for (unsigned i = 1; i <= times; i++) {
		set_all(value, size, i);
		atomic_store_any(size, arena + at, value, SEQ_CST);
		if (i % 64 == 0)
			sched_yield();
	}
	__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void *read_or_write(void *number)
{
	return *(unsigned *)number ? read_versions(number) : write_versions(number);
}

static void versions_only_grow(void **state)
{
	static const size_t sizes[] = {16, 24, 64, 200, 4096};

	for (unsigned i = 0; i < 2 * LENGTH(sizes); i++) {
		size = sizes[i / 2];
		at = i % 2 * 24;
		times = unit_scale(10000);
		done = false;
		memset(arena, 0, sizeof(arena));
		unit_run(read_or_write, numbers, sizeof(numbers[0]), 4);
		assert_int_equal(count_in((uint64_t *)(void *)(arena + at), size), times);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_update_is_lost),  cmocka_unit_test(objects_share_locks),
		cmocka_unit_test(objects_overlap),    cmocka_unit_test(exchanges_conserve),
		cmocka_unit_test(versions_only_grow),
	};

	/* It finds out which CPUs there are, before there are threads. */
	unit_pin(0, NULL);
	unit_unpin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
