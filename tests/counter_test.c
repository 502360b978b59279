/* SPDX-License-Identifier: MIT */
/* near_counter: sums, resets that lose nothing, the cache, signal handlers, children. The program
 * is linked with --wrap=clock_gettime: the cache's clock is the test's. */
#define _GNU_SOURCE
#include "unit.h"

#include <time.h>

#include <nearcpu/counter.h>

#include "slots.h"

/* ---- the clock ---- */

static struct {
	bool ours;
	uint64_t ns;
	unsigned asked;
	struct near_counter *added_to; /* by somebody else, between two readings of the clock */
} coarse;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!coarse.ours || clock != CLOCK_MONOTONIC_COARSE)
		return __real_clock_gettime(clock, t);
	coarse.asked++;
	t->tv_sec = (time_t)(coarse.ns / 1000000000);
	t->tv_nsec = (long)(coarse.ns % 1000000000);
	if (coarse.added_to && coarse.asked % 2 == 0)
		near_counter_add(coarse.added_to, 1);
	return 0;
}

/* ---- one thread ---- */

static struct near_counter made(void)
{
	struct near_counter c;

	memset(&c, 0x5a, sizeof(c));
	errno = UNIT_ERRNO;
	assert_int_equal(near_counter_init(&c), 0);
	assert_int_equal(near_counter_read(&c), 0);
	assert_int_equal(errno, UNIT_ERRNO);
	return c;
}

static void adds_are_summed(void **state)
{
	static const int64_t numbers[] = {0,  1,         -1,        5,         -7, INT32_MAX,
					  17, INT32_MIN, INT64_MAX, INT64_MIN, 1,  INT64_MAX};
	struct near_counter c = made();
	uint64_t sum = 0;

	(void)state;
	errno = UNIT_ERRNO;
	for (unsigned i = 0; i < LENGTH(numbers); i++) {
		near_counter_add(&c, numbers[i]);
		sum += (uint64_t)numbers[i];
		assert_int_equal(near_counter_read(&c), (int64_t)sum);
	}
	assert_int_equal(near_counter_reset(&c), (int64_t)sum);
	assert_int_equal(near_counter_read(&c), 0);
	assert_int_equal(near_counter_reset(&c), 0);
	assert_int_equal(errno, UNIT_ERRNO);
	near_counter_destroy(&c);
	assert_null(c.p);
}

static void sums_wrap(void **state)
{
	struct near_counter c = made();

	(void)state;
	near_counter_add(&c, INT64_MAX);
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read(&c), INT64_MIN);
	slots_enter(3);
	near_counter_add(&c, INT64_MIN);
	assert_int_equal(near_counter_read(&c), 0);
	near_counter_add(&c, INT64_MIN);
	slots_enter(4);
	near_counter_add(&c, -1);
	assert_int_equal(near_counter_reset(&c), INT64_MAX);
	near_counter_add(&c, -2);
	assert_int_equal(near_counter_read(&c), -2);
	assert_int_equal(near_counter_reset(&c), -2);
	slots_leave();
	near_counter_destroy(&c);
}

static void every_slot_counts(void **state)
{
	struct near_counter c = made();
	int64_t sum = 0;

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned slot = 0; slot < SLOTS_CPUS; slot++) {
			slots_enter(slot);
			near_counter_add(&c, slot * 3 - 50);
			sum += slot * 3 - 50;
		}
		assert_int_equal(near_counter_read(&c), sum);
	}
	assert_int_equal(near_counter_reset(&c), sum);
	assert_int_equal(near_counter_read(&c), 0);
	slots_leave();
	near_counter_destroy(&c);
	/* The next owner of the memory begins at 0. */
	c = made();
	near_counter_destroy(&c);
}

static void without_memory_init_fails(void **state)
{
	struct near_counter c;
	struct rlimit limit, none;

	(void)state;
	if (unit_emulated() || UNIT_SANITIZED)
		skip();
	assert_int_equal(getrlimit(RLIMIT_AS, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
	for (unsigned i = 0; i < 200000 && near_counter_init(&c) == 0; i++)
		;
	assert_int_equal(near_counter_init(&c), -ENOMEM);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	assert_int_equal(near_counter_init(&c), 0);
	near_counter_destroy(&c);
}

/* ---- the cache ---- */

static void a_cached_read_is_as_old_as_it_may_be(void **state)
{
	struct near_counter c = made();

	(void)state;
	coarse.ours = true;
	coarse.ns = 1000;
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read_cached(&c, 100), 1); /* fills the cache */
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read_cached(&c, 100), 1);
	coarse.ns += 100;
	assert_int_equal(near_counter_read_cached(&c, 100), 1);
	assert_int_equal(near_counter_read_cached(&c, 99), 2); /* too old: filled again */
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read_cached(&c, 0), 2); /* the same moment of the clock */
	coarse.ns += 1;
	assert_int_equal(near_counter_read_cached(&c, 0), 3);
	near_counter_add(&c, 1);
	coarse.ns += UINT64_C(1000000000000);
	assert_int_equal(near_counter_read_cached(&c, UINT64_MAX), 3);
	assert_int_equal(near_counter_read(&c), 4);
	/* Nothing from before a reset is served after it. */
	assert_int_equal(near_counter_reset(&c), 4);
	assert_int_equal(near_counter_read_cached(&c, UINT64_MAX), 0);
	coarse.ours = false;
	near_counter_destroy(&c);
}

/* The stamp is taken before the sum: what came in between may make the sum newer, never older. */
static void the_cache_is_not_older_than_its_stamp(void **state)
{
	struct near_counter c = made();
	int64_t seen;

	(void)state;
	coarse.ours = true;
	coarse.ns = 5000;
	coarse.asked = 0;
	coarse.added_to = &c;
	seen = near_counter_read_cached(&c, 10);
	coarse.added_to = NULL;
	assert_int_equal(seen, near_counter_read(&c));
	assert_true(seen >= 1);
	assert_int_equal(near_counter_read_cached(&c, 10), seen);
	coarse.ours = false;
	near_counter_destroy(&c);
}

static void the_clock_may_start_at_zero(void **state)
{
	struct near_counter c = made();

	(void)state;
	coarse.ours = true;
	coarse.ns = 0;
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read_cached(&c, 10), 1);
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read_cached(&c, 10), 1);
	coarse.ours = false;
	near_counter_destroy(&c);
}

/* A child of a process in which another thread was filling the cache. */
static void use_stale_writer(void *arg)
{
	struct near_counter *c = arg;

	coarse.ours = true;
	coarse.ns = 1000;
	near_counter_add(c, 1);
	CHECK(near_counter_read_cached(c, 100) == 1);
	near_counter_add(c, 1);
	CHECK(near_counter_read_cached(c, 100) == 1); /* it was filled all the same */
}

static void a_writer_lost_in_a_fork_does_not_keep_the_cache(void **state)
{
	struct near_counter c = made();

	(void)state;
	/* As if another thread of this process were just filling it. */
	c.writer = near__process.forks + 1;
	coarse.ours = true;
	coarse.ns = 1000;
	near_counter_add(&c, 0);
	assert_int_equal(near_counter_read_cached(&c, 100), 0);
	assert_int_equal(c.stamp, 0); /* left to the writer */
	coarse.ours = false;
	unit_in_child(use_stale_writer, &c);
	near_counter_destroy(&c);
}

/* ---- threads ---- */

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
		near_counter_read_cached(a->c, 1000);
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

	(void)state;
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

/* Nor, with resets beside it, below zero. */
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

	(void)state;
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
	(void)signal;
	near_counter_add(&shared, 3);
	near_counter_read(&shared);
	in_handler += 3;
}

static void handlers_may_add(void **state)
{
	unsigned n = unit_scale(3000000), raised = unit_scale(1000);

	(void)state;
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

	(void)state;
	near_counter_add(&c, 10);
	unit_in_child(count_in_child, &c);
	assert_int_equal(near_counter_read(&c), 10);
	near_counter_add(&c, 1);
	assert_int_equal(near_counter_read(&c), 11);
	near_counter_destroy(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adds_are_summed),
		cmocka_unit_test(sums_wrap),
		cmocka_unit_test(every_slot_counts),
		cmocka_unit_test(a_cached_read_is_as_old_as_it_may_be),
		cmocka_unit_test(the_cache_is_not_older_than_its_stamp),
		cmocka_unit_test(the_clock_may_start_at_zero),
		cmocka_unit_test(a_writer_lost_in_a_fork_does_not_keep_the_cache),
		cmocka_unit_test(resets_lose_no_add),
		cmocka_unit_test(reads_never_go_back),
		cmocka_unit_test(handlers_may_add),
		cmocka_unit_test(a_child_has_its_own_count),
		cmocka_unit_test(without_memory_init_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
