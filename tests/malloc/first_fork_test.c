/* SPDX-License-Identifier: MIT */
/* A fork while another thread begins the heap by its first near_malloc; fork handlers of the
 * program that allocate. Linked with --wrap=near__central_init. */
#include "unit.h"

#include <nearcpu/malloc.h>

#include "child.h"
#include "sleeps.h"

bool __real_near__central_init(void);
bool __wrap_near__central_init(void);

static struct {
	bool begins, forked; /* atomic */
	pid_t forks;         /* atomic; 0: not yet */
} first;

/* With the lock of the beginning: until the fork waits for it, or is over. */
bool __wrap_near__central_init(void)
{
	__atomic_store_n(&first.begins, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&first.forks, __ATOMIC_ACQUIRE))
		sched_yield();
	while (!__atomic_load_n(&first.forked, __ATOMIC_ACQUIRE) && !sleeps(first.forks))
		sched_yield();
	return __real_near__central_init();
}

static void *allocate(void *unused)
{
	near_free(near_malloc(100));
	near_free(near_malloc(100000));
	return unused;
}

static void allocate_in_child(void *unused)
{
	alarm(20);
	allocate(unused);
}

static void fork_within(void *unused)
{
	pthread_t other = unit_start(allocate, NULL);
	pid_t child;

	unit_await(&first.begins);
	note_sleeper(&first.forks);
	child = unit_fork(allocate_in_child, NULL);
	__atomic_store_n(&first.forked, true, __ATOMIC_RELEASE);
	CHECK(unit_wait(child, NULL) == 0);
	unit_join(other);
	allocate(unused);
}

static void a_child_of_the_first_allocation_can_allocate(void **state)
{
	if (unit_emulated()) /* it shows threads and forks in its own way */
		skip();
	unit_in_child(fork_within, NULL);
}

/* ---- handlers of the program ---- */

static unsigned handled;

static void handle(void)
{
	static size_t size = 100;

	near_free(near_malloc(size += 1000)); /* of classes that were not used yet */
	near_free(near_malloc(100000));
	handled++;
}

static void check_handled(void *unused)
{
	CHECK(handled == 2);
}

static void fork_with_handlers(void *unused)
{
	bool end = false;
	pthread_t other = unit_start(unit_await_in_thread, &end);

	alarm(20);
	first.forked = true;
	first.forks = getpid();
	CHECK(pthread_atfork(handle, handle, handle) == 0);
	allocate(NULL);
	unit_in_child(check_handled, unused);
	CHECK(handled == 2);
	__atomic_store_n(&end, true, __ATOMIC_RELEASE);
	unit_join(other);
}

UNIT_TEST(handlers_of_the_program_may_allocate, unit_in_child(fork_with_handlers, NULL))

UNIT_MAIN(a_child_of_the_first_allocation_can_allocate, handlers_of_the_program_may_allocate)
