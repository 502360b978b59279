/* SPDX-License-Identifier: MIT */
/* Handlers of SIGABRT that fork, and use the structure whose misuse stopped the program: no lock of
 * the library is held. */
#include "unit.h"

#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <nearcpu/rcu.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rwlock.h>

#include "child.h"
#include "aborts.h"

static void (*use)(void);

static void run_misuse(void *misuse)
{
	abort_begin(use);
	((void (*)(void))misuse)();
}

static void stops(void (*misuse)(void), void (*afterwards)(void))
{
	char text[200];

	use = afterwards;
	assert_int_equal(unit_capture(run_misuse, (void *)misuse, text, sizeof(text), NULL),
			 ABORT_HANDLED);
}

/* ---- reference counts ---- */

static void use_refcount(void)
{
	struct near_refcount r;

	CHECK(near_refcount_init(&r, NULL) == 0);
	near_refcount_kill(&r);
	near_refcount_destroy(&r);
}

static void kill_twice(void)
{
	struct near_refcount r;

	CHECK(near_refcount_init(&r, NULL) == 0);
	near_refcount_kill(&r);
	near_refcount_kill(&r);
}

static void revive_at_once(void)
{
	struct near_refcount r;

	CHECK(near_refcount_init(&r, NULL) == 0);
	near_refcount_revive(&r);
}

UNIT_TEST(a_second_kill, stops(kill_twice, use_refcount))
UNIT_TEST(revival_of_what_lives, stops(revive_at_once, use_refcount))

/* ---- condition variables ---- */

static struct near_cond cond;
static struct near_mutex first, second;
static bool waits; /* under `first` */

static void *wait_with_first(void *unused)
{
	near_mutex_lock(&first);
	waits = true;
	near_cond_wait(&cond, &first);
	return unused;
}

static void signal_cond(void)
{
	near_cond_broadcast(&cond);
}

static void wait_with_second(void)
{
	bool ready = false;

	unit_start(wait_with_first, NULL);
	while (!ready) {
		near_mutex_lock(&first);
		ready = waits;
		near_mutex_unlock(&first);
	}
	near_mutex_lock(&second);
	near_cond_wait(&cond, &second);
}

UNIT_TEST(a_wait_with_another_mutex, stops(wait_with_second, signal_cond))

/* ---- RCU ---- */

static void use_rcu(void)
{
	struct near_rcu d;

	CHECK(near_rcu_init(&d, NULL) == 0);
	near_rcu_synchronize(&d);
	near_rcu_destroy(&d);
}

/* A copy: the library does not know it by its address. */
static void destroy_a_copy(void)
{
	static struct near_rcu d, copy;

	CHECK(near_rcu_init(&d, NULL) == 0);
	copy = d;
	near_rcu_destroy(&copy);
}

/* Of more than a thread can be in a section of. */
static void read_in_many_domains(void)
{
	static struct near_rcu domains[9];

	for (size_t i = 0; i < LENGTH(domains); i++) {
		CHECK(near_rcu_init(&domains[i], NULL) == 0);
		near_rcu_read_lock(&domains[i]);
	}
}

UNIT_TEST(destruction_of_no_domain, stops(destroy_a_copy, use_rcu))
UNIT_TEST(sections_of_too_many_domains, stops(read_in_many_domains, use_rcu))

/* ---- reader-writer locks ---- */

static void use_rwlock(void)
{
	struct near_rwlock l;

	CHECK(near_rwlock_init(&l, NULL) == 0);
	near_rwlock_write_lock(&l);
	near_rwlock_write_unlock(&l);
	near_rwlock_destroy(&l);
}

static struct near_rwlock rwlock;

static void *read_for_ever(void *reads)
{
	static bool never;

	near_rwlock_read_lock(&rwlock);
	__atomic_store_n((bool *)reads, true, __ATOMIC_SEQ_CST);
	unit_await(&never);
	return NULL;
}

/* In a child that lacks the reader: found where the writer would sleep. */
static void write_among_lost_readers(void)
{
	static bool reads;
	pid_t child;

	CHECK(near_rwlock_init(&rwlock, NULL) == 0);
	unit_start(read_for_ever, &reads);
	unit_await(&reads);
	child = fork();
	if (child == 0)
		near_rwlock_write_lock(&rwlock);
	_exit(unit_wait(child, NULL));
}

UNIT_TEST(a_write_among_lost_readers, stops(write_among_lost_readers, use_rwlock))

UNIT_MAIN(a_second_kill, revival_of_what_lives, a_wait_with_another_mutex, destruction_of_no_domain,
	  sections_of_too_many_domains, a_write_among_lost_readers)
