/* SPDX-License-Identifier: MIT */
/* near_mutex: misuse stops the program; what a forked child inherits. */
#include "mutex_waiters.h"

/* ---- misuse ---- */

static struct near_mutex misused;

UNIT_CALLS(unlock_free, near_mutex_unlock(&misused))

static void *unlock_it(void *unused)
{
	near_mutex_unlock(&misused);
	return unused;
}

static void unlock_of_another(void *unused)
{
	near_mutex_lock(&misused);
	unit_join(unit_start(unlock_it, unused));
}

static void *lock_and_unlock(void *m)
{
	near_mutex_lock(m);
	near_mutex_unlock(m);
	return NULL;
}

static void unlock_of_another_that_locked_before(void *unused)
{
	unit_join(unit_start(lock_and_unlock, &misused));
	unlock_of_another(unused);
}

UNIT_CALLS(relock, near_mutex_lock(&misused), near_mutex_lock(&misused))

static void await_free(void *flag)
{
	near_mutex_await(&misused, is_set, flag);
}

UNIT_CALLS(destroy_held, near_mutex_lock(&misused), near_mutex_destroy(&misused))
UNIT_CALLS(use_destroyed, near_mutex_destroy(&misused), near_mutex_lock(&misused))
UNIT_CALLS(unlock_destroyed, near_mutex_destroy(&misused), near_mutex_unlock(&misused))

static void misuse_stops_with_one_line(void **state)
{
	unsigned flag = 0;

	unit_dies(unlock_free, NULL, "near_mutex_unlock: the mutex is not held");
	unit_dies(unlock_of_another, NULL, "near_mutex_unlock: another thread holds the mutex");
	unit_dies(unlock_of_another_that_locked_before, NULL,
		  "near_mutex_unlock: another thread holds the mutex");
	unit_dies(relock, NULL, "near_mutex_lock: this thread holds the mutex already");
	unit_dies(await_free, &flag, "near_mutex_await: this thread does not hold the mutex");
	unit_dies(destroy_held, NULL, "near_mutex_destroy: the mutex is held, or waited for");
	unit_dies(use_destroyed, NULL, "near_mutex: the mutex was destroyed");
	unit_dies(unlock_destroyed, NULL, "near_mutex: the mutex was destroyed");
}

/* ---- fork ---- */

static struct near_mutex forked, held_by_other = NEAR_MUTEX_INIT;

static void unlock_in_child(void *unused)
{
	struct waiter w[4];
	unsigned order = 0;

	CHECK(near_mutex_is_mine(&forked));
	near_mutex_unlock(&forked);
	CHECK(word_of(&forked) == 0);
	/* The parent's WAKING is cleared in the child: else these would sleep forever. */
	for (unsigned round = 0; round < 3; round++) {
		forked.word = round ? WAKING | PARKED : 0;
		near_mutex_lock(&forked);
		for (unsigned i = 0; i < 4; i++) {
			w[i] = (struct waiter){.m = &forked, .order = &order};
			start_waiter(&w[i]);
		}
		near_mutex_unlock(&forked);
		for (unsigned i = 0; i < 4; i++)
			unit_join(w[i].thread);
	}
	CHECK(order == 12);
	CHECK(word_of(&forked) == 0);
}

static void the_child_unlocks_what_its_thread_held(void **state)
{
	struct waiter w = {.m = &forked};

	if (UNIT_THREAD_SANITIZER)
		skip(); /* it lets no child have threads */
	near_mutex_lock(&forked);
	start_waiter(&w);
	unit_in_child(unlock_in_child, NULL);
	assert_int_equal(waiters_of(&forked), 1);
	near_mutex_unlock(&forked);
	unit_join(w.thread);
	assert_int_equal(w.result, 0);
}

static void fork_again(void *levels)
{
	unsigned *left = levels;

	CHECK(near_mutex_is_mine(&forked));
	if ((*left)--)
		CHECK(unit_wait(unit_fork(fork_again, left), NULL) == 0);
	near_mutex_unlock(&forked);
	near_mutex_lock(&forked);
	near_mutex_unlock(&forked);
}

/* The deepest child recognizes the owner number of the first process. */
static void children_of_children_unlock_it_too(void **state)
{
	unsigned levels = NEAR__OWNER_FORMER - 1;

	near_mutex_lock(&forked);
	unit_in_child(fork_again, &levels);
	near_mutex_unlock(&forked);
}

static void lock_in_child(void *m)
{
	near_mutex_lock(m);
}

static void a_child_does_not_wait_for_a_thread_of_the_parent(void **state)
{
	struct played p = {.m = NEAR_MUTEX_INIT};
	pthread_t t = start_holder(&p);

	unit_dies(lock_in_child, &p.m,
		  "near_mutex_lock: the holder is a thread of the parent process, "
		  "which the fork did not copy");
	end_holder(&p, t);
	near_mutex_lock(&held_by_other);
	unit_dies(relock, NULL, "near_mutex_lock: this thread holds the mutex already");
	near_mutex_unlock(&held_by_other);
}

static void wait_in_child(void *m)
{
	struct waiter w = {.m = m};

	start_waiter(&w);
	near_mutex_unlock(m);
	unit_join(w.thread);
	CHECK(w.result == 0);
}

/* The holder was copied by the fork, and has another number now. */
static void threads_of_the_child_wait_for_the_one_that_forked(void **state)
{
	struct near_mutex m = NEAR_MUTEX_INIT;

	if (UNIT_THREAD_SANITIZER)
		skip();
	near_mutex_lock(&m);
	unit_in_child(wait_in_child, &m);
	near_mutex_unlock(&m);
}

int main(void)
{
	return UNIT_GROUP(few_cpus, NULL, NULL, misuse_stops_with_one_line,
			  the_child_unlocks_what_its_thread_held,
			  a_child_does_not_wait_for_a_thread_of_the_parent,
			  children_of_children_unlock_it_too,
			  threads_of_the_child_wait_for_the_one_that_forked);
}
