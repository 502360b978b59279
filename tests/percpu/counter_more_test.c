/* SPDX-License-Identifier: MIT */
/* near_counter among threads: resets that lose nothing, reads that never go back; signal handlers
 * and forked children. */
#include "unit.h"

#include <nearcpu/counter.h>

static struct near_counter made(void)
{
	struct near_counter c;

	assert_int_equal(near_counter_init(&c), 0);
	return c;
}

struct adder {
	struct near_counter *c;
	unsigned adds, number;
	int64_t sum;
};

static void *add_many(void *arg)
{
	struct adder *a = arg;
	uint64_t seed = a->number;

	for (unsigned i = 0; i < a->adds; i++) {
		int64_t n = (int64_t)(unit_random(&seed) % 1000) - 300;

		near_counter_add(a->c, n);
		a->sum += n;
		if (i % 1024 == 0)
			sched_yield();
	}
	return NULL;
}

#define ONLY_CACHED UINT32_MAX

static bool stop;

/* Takes away again and again; what it took is its sum. */
static void *reset_many(void *arg)
{
	struct adder *a = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		if (a->number != ONLY_CACHED)
			a->sum += near_counter_reset(a->c);
		near_counter_read_cached(a->c, 10000000); /* a tick or more */
		sched_yield();
	}
	return NULL;
}

static void resets_lose_no_add(void **state)
{
	struct near_counter c = made();
	struct adder adders[6], resetters[2] = {{.c = &c}, {.c = &c}};
	pthread_t threads[2];
	int64_t added = 0, taken = 0;

	for (unsigned i = 0; i < LENGTH(adders); i++)
		adders[i] = (struct adder){&c, unit_scale(200000), i, 0};
	for (unsigned i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(reset_many, &resetters[i]);
	unit_run(add_many, adders, sizeof(adders[0]), LENGTH(adders));
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
	for (unsigned i = 0; i < LENGTH(adders); i++)
		added += adders[i].sum;
	for (unsigned i = 0; i < LENGTH(resetters); i++)
		taken += resetters[i].sum;
	assert_int_equal(taken + near_counter_read(&c), added);
	assert_int_equal(taken + near_counter_reset(&c), added);
	assert_int_equal(near_counter_read(&c), 0);
	near_counter_destroy(&c);
}

struct watcher {
	struct near_counter *c;
	int64_t last;
	unsigned backwards;
};

/* Of adds that only grow, no thread sees the sum shrink. */
static void *watch(void *arg)
{
	struct watcher *w = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		int64_t now = near_counter_read(w->c);

		w->backwards += now < w->last;
		w->last = now;
	}
	return NULL;
}

/* Nor, with concurrent resets, below zero. */
static void *watch_for_less_than_nothing(void *arg)
{
	struct watcher *w = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE))
		w->backwards += near_counter_read(w->c) < 0;
	return NULL;
}

static void *add_ones(void *arg)
{
	struct adder *a = arg;

	for (unsigned i = 0; i < a->adds; i++)
		near_counter_add(a->c, 1);
	return NULL;
}

static void watch_adds(struct near_counter *c, void *(*watcher)(void *), bool resets)
{
	struct watcher watchers[2] = {{c, 0, 0}, {c, 0, 0}};
	struct adder adders[4], resetter = {.c = c, .number = resets ? 0 : ONLY_CACHED};
	pthread_t threads[3];

	stop = false;
	threads[2] = unit_start(reset_many, &resetter);
	for (unsigned i = 0; i < LENGTH(watchers); i++)
		threads[i] = unit_start(watcher, &watchers[i]);
	for (unsigned i = 0; i < LENGTH(adders); i++)
		adders[i] = (struct adder){c, unit_scale(300000), i, 0};
	unit_run(add_ones, adders, sizeof(adders[0]), LENGTH(adders));
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
	assert_int_equal(watchers[0].backwards + watchers[1].backwards, 0);
	assert_int_equal(resetter.sum + near_counter_read(c), LENGTH(adders) * adders[0].adds);
}

static void reads_never_go_back(void **state)
{
	struct near_counter c = made();

	watch_adds(&c, watch, false);
	near_counter_reset(&c);
	watch_adds(&c, watch_for_less_than_nothing, true);
	near_counter_destroy(&c);
}

/* ---- signal handlers and children ---- */

static struct near_counter shared;
static volatile int64_t in_handler;

static void add_in_handler(int signal)
{
	near_counter_add(&shared, 3);
	near_counter_read(&shared);
	in_handler += 3;
}

static void handlers_may_add(void **state)
{
	unsigned n = unit_scale(3000000), raised = unit_scale(1000);

	shared = made();
	unit_timer(100, add_in_handler);
	for (unsigned i = 0; i < n; i++)
		near_counter_add(&shared, 1);
	for (unsigned i = 0; i < raised; i++) {
		raise(SIGALRM);
		near_counter_add(&shared, 1);
	}
	unit_timer(0, NULL);
	assert_true(in_handler >= (int64_t)raised * 3);
	assert_int_equal(near_counter_read(&shared), (int64_t)n + raised + in_handler);
	near_counter_destroy(&shared);
}

static void count_in_child(void *arg)
{
	struct near_counter *c = arg;

	CHECK(near_counter_read(c) == 10);
	near_counter_add(c, 5);
	CHECK(near_counter_reset(c) == 15);
	near_counter_add(c, 1);
	CHECK(near_counter_read(c) == 1);
	CHECK(near_counter_read_cached(c, 0) == 1);
	near_counter_destroy(c);
	CHECK(near_counter_init(c) == 0);
	CHECK(near_counter_read(c) == 0);
}

static void a_child_has_its_own_count(void **state)
{
	struct near_counter c = made();

	near_counter_add(&c, 10);
	unit_in_child(count_in_child, &c);
	assert_int_equal(near_counter_read(&c), 10);
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read(&c), 11);
	near_counter_destroy(&c);
}

UNIT_MAIN(resets_lose_no_add, reads_never_go_back, handlers_may_add, a_child_has_its_own_count)
