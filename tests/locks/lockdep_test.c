/* SPDX-License-Identifier: MIT */
/* The lock-order checker: what it reports, down to the functions that took the locks; what counts
 * as an order, of mutexes, waits, and reader-writer locks; what it forgets. */
#include "lockdep_scenarios.h"

#include <link.h>

#define MODULE_MAX 256

static struct near_cond more;

/* ---- functions that take locks: each has a page of its own ---- */

#define PAGE ((uintptr_t)4096)
#define ON_ITS_PAGE __attribute__((noinline, aligned(4096), section("order_pages")))

/* No tail call in it: that would leave no place here. */
#define TAKER(name)                                                                                \
	ON_ITS_PAGE static void name(struct near_mutex *m)                                         \
	{                                                                                          \
		near_mutex_lock(m);                                                                \
		__asm__ volatile("" ::: "memory");                                                 \
	}
TAKER(take_1)
TAKER(take_2)
TAKER(take_4)

ON_ITS_PAGE static void take_3(struct near_mutex *m)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 100000);

	CHECK(near_mutex_lock_until(m, CLOCK_MONOTONIC, &soon, NULL) == 0);
}

static void (*const takes[])(struct near_mutex *) = {NULL, take_1, take_2, take_3, take_4};

static int first_base(struct dl_phdr_info *info, size_t size, void *base)
{
	*(uintptr_t *)base = info->dlpi_addr;
	return 1;
}

/* The number of the function whose place the next "addr2line" names, which must be in this
 * program. */
static unsigned next_taker(const char **at)
{
	char program[MODULE_MAX], module[MODULE_MAX];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	unsigned long offset;
	uintptr_t base;

	*at = strstr(*at, "addr2line -e ");
	assert_non_null(*at);
	assert_true(n > 0);
	program[n] = '\0';
	assert_int_equal(sscanf(*at, "addr2line -e %255s 0x%lx", module, &offset), 2);
	assert_string_equal(module, program);
	dl_iterate_phdr(first_base, &base);
	*at += strlen("addr2line");
	for (unsigned i = 1; i < LENGTH(takes); i++)
		if (((base + offset) & ~(PAGE - 1)) == (uintptr_t)takes[i])
			return i;
	return 0;
}

/* ---- scenarios ---- */

static void *take_the_other_order(void *unused)
{
	take_3(&b);
	take_4(&a);
	near_mutex_unlock(&b);
	near_mutex_unlock(&a);
	return NULL;
}

static void a_cycle_of_two_is_reported_once_with_its_places(void **state)
{
	static const unsigned takers[] = {3, 4, 1, 2};
	char line[256];
	const char *at = reported;

	CHECKED() {
		take_1(&a);
		take_2(&b);
		near_mutex_unlock(&a);
		near_mutex_unlock(&b);
		unit_join(unit_start(take_the_other_order, NULL));
		by_thread(&b, &a);
		by_thread(&a, &b);
	}
	expect_cycles(1);
	assert_int_equal(count("nearcpu: lock order: 2 locks"), 1);
	snprintf(line, sizeof(line), "holds lock %p and wants %p\n", (void *)&b, (void *)&a);
	assert_int_equal(count(line), 1);
	snprintf(line, sizeof(line), "held lock %p and wanted %p\n", (void *)&a, (void *)&b);
	assert_int_equal(count(line), 1);
	for (unsigned i = 0; i < LENGTH(takers); i++)
		assert_int_equal(next_taker(&at), takers[i]);
	assert_null(strstr(at, "addr2line"));
}

static void cycles_of_three_threads(void **state)
{
	/* a, c, a is the shortest. */
	CHECKED() {
		by_thread(&a, &b);
		by_thread(&b, &c);
		by_thread(&a, &c);
		by_thread(&c, &a);
		by_thread(&c, &a);
	}
	expect_cycles(1);
	assert_int_equal(count("2 locks"), 1);
	/* One cycle is not reported again as a part of another one. */
	CHECKED() {
		by_thread(&a, &b);
		by_thread(&b, &a);
		by_thread(&a, &c);
		by_thread(&c, &b);
		by_thread(&b, &c);
	}
	expect_cycles(2);
}

static void hand_over_hand(void)
{
	near_mutex_lock(&a);
	near_mutex_lock(&b);
	near_mutex_unlock(&a);
	near_mutex_lock(&a);
	near_mutex_unlock(&a);
	near_mutex_unlock(&b);
}

static void one_thread_does_not_deadlock(void **state)
{
	struct pair others = {&b, &c};

	conf = "lock_check:2"; /* does not stop the program */
	CHECKED() {
		hand_over_hand();
		hand_over_hand();
	}
	expect_cycles(1);
	assert_int_equal(count(BY_ONE_THREAD), 1);
	conf = "lock_check:1";
	/* Another thread on any of the edges makes it a deadlock. */
	for (unsigned first = 0; first < 2; first++) {
		CHECKED() {
			hand_over_hand();
			by_thread(first ? &a : &b, first ? &b : &a);
			by_thread(first ? &b : &a, first ? &a : &b);
		}
		expect_cycles(2);
		assert_int_equal(count(BY_ONE_THREAD), 1);
		assert_int_equal(count(IN_DEADLOCK), 1);
	}
	/* Two cycles that share b. */
	CHECKED() {
		unit_join(unit_start(in_both_orders, &others));
		in_order(&b, &a);
		in_order(&a, &b);
	}
	expect_cycles(2);
	assert_int_equal(count(BY_ONE_THREAD), 2);
}

static void a_longer_cycle_of_several_threads_is_found(void **state)
{
	CHECKED() {
		in_order(&b, &a);
		by_thread(&b, &c);
		by_thread(&c, &a);
		in_order(&a, &b); /* the shorter one is by one thread */
	}
	expect_cycles(1);
	assert_int_equal(count("3" IN_DEADLOCK), 1);
}

/* What one wants the next one holds. */
static void check_chain(unsigned steps)
{
	const char *at = strstr(reported, " wants ");
	void *wanted, *held;

	assert_non_null(at);
	assert_int_equal(sscanf(at, " wants %p", &wanted), 1);
	while (--steps) {
		at = strstr(at, " held lock ");
		assert_non_null(at);
		assert_int_equal(sscanf(at, " held lock %p", &held), 1);
		assert_ptr_equal(held, wanted);
		at = strstr(at, " and wanted ");
		assert_non_null(at);
		assert_int_equal(sscanf(at, " and wanted %p", &wanted), 1);
	}
}

static void of_a_long_cycle_the_first_steps_are_reported(void **state)
{
	static struct near_mutex ring[NEAR__LOCKDEP_STEPS + 4];
	char line[64];

	CHECKED() {
		for (unsigned i = 0; i < LENGTH(ring); i++)
			in_order(&ring[i], &ring[(i + 1) % LENGTH(ring)]);
	}
	expect_cycles(1);
	snprintf(line, sizeof(line), "%u locks", NEAR__LOCKDEP_STEPS + 4);
	assert_int_equal(count(line), 1);
	assert_int_equal(count("nearcpu:   thread "), NEAR__LOCKDEP_STEPS);
	assert_int_equal(count("nearcpu:   and so on\n"), 1);
	check_chain(NEAR__LOCKDEP_STEPS);
}

static void *in_one_order(void *unused)
{
	unsigned n = unit_scale(2000);

	while (n--) {
		near_mutex_lock(&a);
		in_order(&b, &c);
		near_mutex_unlock(&a);
		in_order(&a, &c);
		in_order(&b, &c);
		near_mutex_lock(&c);
		near_mutex_unlock_fair(&c);
	}
	return NULL;
}

static void what_counts_as_an_order(void **state)
{
	char none[4];

	CHECKED()
		unit_run(in_one_order, none, 1, 4);
	expect_cycles(0);
	CHECKED() {
		near_mutex_lock(&a);
		CHECK(near_mutex_try_lock(&b));
		near_mutex_unlock(&b);
		near_mutex_unlock(&a);
		in_order(&b, &a);
	}
	expect_cycles(0);
	CHECKED() {
		CHECK(near_mutex_try_lock(&a));
		near_mutex_lock(&b);
		near_mutex_unlock(&a);
		near_mutex_unlock(&b);
		in_order(&b, &a);
	}
	expect_cycles(1);
	/* c is held in either case, so that nobody waits for ever: reported nevertheless. */
	CHECKED()
		for (int i = 0; i < 2; i++) {
			near_mutex_lock(&c);
			in_order(i ? &b : &a, i ? &a : &b);
			near_mutex_unlock(&c);
		}
	expect_cycles(1);
}

static bool is_set(void *flag)
{
	return *(bool *)flag;
}

static void *set_and_signal(void *flag)
{
	near_mutex_lock(&a);
	*(bool *)flag = true;
	near_cond_broadcast(&more);
	near_mutex_unlock(&a);
	return NULL;
}

static void await_flag(bool *flag)
{
	near_mutex_await(&a, is_set, flag);
}

static void wait_for_flag(bool *flag)
{
	while (!*flag)
		near_cond_wait(&more, &a);
}

/* b is taken after a, and a after b when the wait is over. */
static void wait_holding_b(void (*wait)(bool *flag))
{
	bool flag = false;
	pthread_t t;

	near_mutex_lock(&b);
	t = unit_start(set_and_signal, &flag);
	wait(&flag);
	near_mutex_unlock(&b);
	near_mutex_lock(&c);
	near_mutex_unlock(&c);
	near_mutex_unlock(&a);
	unit_join(t);
	/* a was held when c was wanted. */
	in_order(&c, &a);
}

static void a_wait_takes_the_mutex_again(void **state)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 10);

	CHECKED() {
		near_mutex_lock(&a);
		wait_holding_b(await_flag);
	}
	expect_cycles(2);
	CHECKED() {
		near_mutex_lock(&a);
		/* A wait does not hold what it has released: nothing to report. */
		CHECK(near_cond_wait_until(&more, &a, CLOCK_MONOTONIC, &soon, NULL) == -ETIMEDOUT);
		wait_holding_b(wait_for_flag);
	}
	expect_cycles(2);
}

static void destroy_both(void)
{
	near_mutex_destroy(&a);
	near_mutex_destroy(&b);
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
}

/* More locks come and go than there is room for; what is there is not forgotten with them. */
static void reuse(void)
{
	unsigned n = unit_scale(3 * NEAR__LOCKDEP_NODES);
	struct near_mutex stays[2] = {{0}, {0}};

	in_order(&a, &b);
	destroy_both();
	in_order(&stays[0], &stays[1]);
	while (n--) {
		in_order(n % 2 ? &a : &b, n % 2 ? &b : &a);
		destroy_both();
	}
	in_order(&stays[1], &stays[0]);
}

static void destroyed_mutexes_are_forgotten(void **state)
{
	/* a came before b by way of c alone. */
	CHECKED() {
		in_order(&a, &c);
		in_order(&c, &b);
		near_mutex_destroy(&c);
		in_order(&b, &a);
	}
	expect_cycles(0);
	CHECKED()
		reuse();
	expect_cycles(1);
}

static struct near_mutex lost;

static void *end_with_lock(void *unused)
{
	memset(&lost, 0, sizeof(lost));
	near_mutex_lock(&lost);
	return unused;
}

/* No thread holds what they held, even if a new one has their address and their number. */
static void a_thread_that_ends_holds_nothing(void **state)
{
	CHECKED() {
		in_order(&a, &b);
		for (unsigned i = 0; i < 100; i++)
			unit_join(unit_start(end_with_lock, NULL));
		for (unsigned i = 0; i < 100; i++)
			by_thread(&a, &b);
		memset(&lost, 0, sizeof(lost));
		in_order(&a, &lost);
	}
	expect_cycles(0);
}

/* ---- reader-writer locks ---- */

static struct near_rwlock table, other_table;

static void *read_table_then_lock(void *unused)
{
	near_rwlock_read_lock(&table);
	near_rwlock_read_lock(&table);
	in_order(&a, &b);
	near_rwlock_read_unlock(&table);
	near_rwlock_read_unlock(&table);
	return unused;
}

static void read_in_order(void)
{
	struct timespec soon = wait_in_ms(CLOCK_MONOTONIC, 100000);

	CHECK(near_rwlock_init(&table, NULL) == 0);
	for (unsigned i = 0; i < 100; i++)
		read_table_then_lock(NULL);
	unit_join(unit_start(read_table_then_lock, NULL));
	near_rwlock_write_lock(&table);
	in_order(&a, &b);
	near_rwlock_downgrade(&table);
	in_order(&a, &b);
	near_rwlock_read_unlock(&table);
	in_order(&a, &b);
	CHECK(near_rwlock_read_lock_until(&table, CLOCK_MONOTONIC, &soon, NULL) == 0);
	near_rwlock_read_unlock(&table);
	/* Tried: no order. */
	near_mutex_lock(&a);
	CHECK(near_rwlock_try_read_lock(&table));
	near_rwlock_read_unlock(&table);
	CHECK(near_rwlock_try_write_lock(&table));
	near_rwlock_write_unlock(&table);
	near_mutex_unlock(&a);
}

static void lock_then_read(void)
{
	near_mutex_lock(&b);
	near_rwlock_read_lock(&table);
	near_rwlock_read_unlock(&table);
	near_mutex_unlock(&b);
}

static void readers_and_writers_are_checked(void **state)
{
	CHECKED()
		read_in_order();
	expect_cycles(0);
	CHECKED() {
		read_in_order();
		lock_then_read();
	}
	expect_cycles(1);
	CHECKED() {
		read_in_order();
		near_mutex_lock(&b);
		near_rwlock_write_lock(&table);
		near_rwlock_write_unlock(&table);
		near_mutex_unlock(&b);
	}
	expect_cycles(1);
	CHECKED() {
		read_in_order();
		near_rwlock_destroy(&table);
		memset(&table, 0, sizeof(table));
		lock_then_read();
	}
	expect_cycles(0);
}

/* Readers of both, and a writer of each that waits: nobody goes on. */
static void two_tables_are_read_in_one_order(void **state)
{
	CHECKED()
		for (unsigned i = 0; i < 2; i++) {
			near_rwlock_read_lock(i ? &table : &other_table);
			near_rwlock_read_lock(i ? &other_table : &table);
			near_rwlock_read_unlock(&table);
			near_rwlock_read_unlock(&other_table);
		}
	expect_cycles(1);
}

UNIT_MAIN(a_cycle_of_two_is_reported_once_with_its_places, cycles_of_three_threads,
	  one_thread_does_not_deadlock, a_longer_cycle_of_several_threads_is_found,
	  of_a_long_cycle_the_first_steps_are_reported, what_counts_as_an_order,
	  a_wait_takes_the_mutex_again, destroyed_mutexes_are_forgotten,
	  a_thread_that_ends_holds_nothing, readers_and_writers_are_checked,
	  two_tables_are_read_in_one_order)
