/* SPDX-License-Identifier: MIT */
/* Threads on objects of many sizes: no update is lost, no value is torn, none goes back, whether
 * the objects share locks, overlap, or have nothing to do with each other. */
#include "team.h"
#include "words.h"

#define THREADS 6u

static unsigned times;

/* ---- one object ---- */

static unsigned char arena[1u << 17] __attribute__((aligned(4096)));
static void *object;
static size_t n; /* its words */

/* Zeroes the object of this size at this place. */
static void choose(size_t at, size_t size)
{
	memset(arena, 0, sizeof(arena));
	object = arena + at;
	n = size / 8;
}

static void add_many(unsigned me)
{
	uint64_t before = 0, now;

	pin(me);
	for (unsigned i = 0; i < times; i++, before = now) {
		words_add(object, n);
		now = words_load(object, n);
		CHECK(now > before && now <= (uint64_t)THREADS * times);
	}
}

static void no_update_is_lost(void **state)
{
	static const size_t sizes[] = {8, 16, 24, 64, 200, 4096};
	static const size_t places[] = {0, 8, 40, 64 * 255 + 48};

	for (unsigned i = 0; i < LENGTH(sizes) * LENGTH(places); i++) {
		choose(places[i % LENGTH(places)], sizes[i / LENGTH(places)]);
		times = unit_scale(n > 100 ? 250 : 2500);
		team_run(THREADS, add_many);
		assert_int_equal(words_get(object, n), THREADS * times);
	}
}

/* ---- many objects, more than there are locks ---- */

#define OBJECTS 1024u
#define SPACING (sizeof(arena) / OBJECTS)

/* Some of the objects cross lines, and all locks are shared. */
static void *object_of(unsigned number, size_t *words)
{
	static const size_t all[] = {2, 3, 5, 8, 9, 12};

	*words = all[number % LENGTH(all)];
	return arena + number * SPACING + number % 3 * 8;
}

static void add_anywhere(unsigned me)
{
	uint64_t random = me;

	pin(me);
	for (unsigned i = 0; i < times; i++) {
		size_t words;
		void *any = object_of(unit_random(&random) % OBJECTS, &words);

		words_add(any, words);
	}
}

static void objects_share_locks(void **state)
{
	uint64_t sum = 0;

	memset(arena, 0, sizeof(arena));
	times = unit_scale(40000);
	team_run(THREADS, add_anywhere);
	for (unsigned i = 0; i < OBJECTS; i++) {
		size_t words;
		const void *any = object_of(i, &words);

		sum += words_get(any, words);
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
_Static_assert(sizeof(struct outer) == 8 * WORDS_MAX, "one page");

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
	CHECK(words_get(p->before, LENGTH(p->before)) == words_get(p->behind, LENGTH(p->behind)));
}

/* Adds to both, by one compare-exchange of all; returns what the inner one held. */
static void add_to_page(void)
{
	struct outer old, new;

	call_load(sizeof(page), &page, &old, SEQ_CST);
	do {
		check_page(&old);
		words_set(new.before, LENGTH(new.before), old.before[0] + 1);
		words_set(new.behind, LENGTH(new.behind), old.before[0] + 1);
		set_inner(new.inner, old.inner[0] + 1);
	} while (!call_compare_exchange(sizeof(page), &page, &old, &new, SEQ_CST, SEQ_CST));
}

static void add_to_inner(void)
{
	uint64_t old[3], new[3];

	call_load(sizeof(old), page.inner, old, SEQ_CST);
	do {
		check_inner(old);
		set_inner(new, old[0] + 1);
	} while (!call_compare_exchange(sizeof(old), page.inner, old, new, SEQ_CST, SEQ_CST));
}

static void add_to_both(unsigned me)
{
	struct outer seen;
	uint64_t before = 0;

	pin(me);
	for (unsigned i = 0; i < times; i++) {
		if (me % 2 && i % 8 == 0)
			add_to_page();
		else
			add_to_inner();
		if (i % 8 == 1) {
			call_load(sizeof(page), &page, &seen, SEQ_CST);
			check_page(&seen);
			CHECK(seen.inner[0] > before);
			before = seen.inner[0];
		}
	}
}

static void objects_overlap(void **state)
{
	memset(&page, 0, sizeof(page));
	set_inner(page.inner, 0);
	times = unit_scale(4000);
	team_run(THREADS, add_to_both);
	assert_int_equal(page.inner[0], THREADS * times);
	assert_int_equal(page.before[0], THREADS / 2 * ((times + 7) / 8));
	check_page(&page);
}

/* ---- what is exchanged is neither lost nor doubled ---- */

static uint64_t given[THREADS], taken[THREADS];

static void exchange_tokens(unsigned me)
{

	pin(me);
	for (uint64_t i = 1; i <= times; i++) {
		given[me] += i * THREADS + me;
		taken[me] += words_exchange(object, n, i * THREADS + me);
	}
}

static void exchanges_conserve(void **state)
{
	static const size_t sizes[] = {16, 24, 96, 512};

	times = unit_scale(10000);
	for (unsigned i = 0; i < LENGTH(sizes); i++) {
		uint64_t sum;

		choose(i * 1000, sizes[i]);
		memset(given, 0, sizeof(given));
		memset(taken, 0, sizeof(taken));
		team_run(THREADS, exchange_tokens);
		sum = words_get(object, n);
		for (unsigned t = 0; t < THREADS; t++)
			sum += taken[t] - given[t];
		assert_int_equal(sum, 0);
	}
}

/* ---- one writer, many readers ---- */

static bool done;

/* Thread 0 writes. */
static void read_or_write(unsigned me)
{
	uint64_t before = 0, now;

	pin(me);
	for (uint64_t i = 1; me == 0 && i <= times; i++) {
		words_store(object, n, i);
		if (i % 64 == 0)
			sched_yield();
	}
	if (me == 0)
		__atomic_store_n(&done, true, __ATOMIC_RELEASE);
	for (; !__atomic_load_n(&done, __ATOMIC_ACQUIRE); before = now) {
		now = words_load(object, n);
		CHECK(now >= before);
	}
}

static void versions_only_grow(void **state)
{
	static const size_t sizes[] = {16, 24, 64, 200, 4096};

	times = unit_scale(10000);
	for (unsigned i = 0; i < 2 * LENGTH(sizes); i++) {
		choose(i % 2 * 24, sizes[i / 2]);
		done = false;
		team_run(4, read_or_write);
		assert_int_equal(words_get(object, n), times);
	}
}

UNIT_MAIN(no_update_is_lost, objects_share_locks, objects_overlap, exchanges_conserve,
	  versions_only_grow)
