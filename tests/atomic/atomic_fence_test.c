/* SPDX-License-Identifier: MIT */
/* Waiters execute a barrier for all threads before they sleep; where they cannot, unlockers do; and
 * where they cannot any more, waiters poll. */
#include "filter.h"
#include "forks.h"

#define MEMBARRIER_QUERY 0
#define MEMBARRIER_EXPEDITED (1 << 3)

static unsigned long seen;

/* In a child, as a filter is for good. */
static pthread_t begin(void)
{
	seen = take(lock_of_object());
	return unit_start(add_one, NULL);
}

static void end(pthread_t thread)
{
	unit_join(thread);
	CHECK(words_load(object, 3) == 1);
}

/* The unlocker has not seen the waiter. */
UNIT_CHILD(a_waiter_without_a_barrier_polls, unit_emulated() || !near__waiters_fence())
{
	pthread_t thread;

	if (!filter_out(NEAR__SYS_MEMBARRIER, EPERM))
		_exit(77);
	thread = begin();
	wait_for_sleepers(1);
	__atomic_store_n(&lock_of_object()->word, seen + 2, SEQ_CST);
	end(thread);
}

UNIT_CHILD(a_waiter_is_woken, !near__waiters_fence())
{
	pthread_t thread = begin();

	wait_for_sleepers(1);
	release(lock_of_object(), seen);
	end(thread);
}

UNIT_CHILD(a_waiter_is_woken_by_an_unlocker_with_a_barrier, false)
{
	pthread_t thread;

	near__atomic_locks.waiters_fence = 0;
	thread = begin();
	wait_for_sleepers(1);
	release(lock_of_object(), seen);
	end(thread);
}

static bool kernel_can(void)
{
	long commands = syscall(NEAR__SYS_MEMBARRIER, MEMBARRIER_QUERY, 0, 0);

	return commands > 0 && (commands & MEMBARRIER_EXPEDITED);
}

/* main returns whether waiters fence. */
static void run_with(void *setting)
{
	char *const args[] = {(char *)"atomic_fence_test", (char *)"waiters_fence", NULL};
	char *const environment[] = {setting, NULL};

	execve("/proc/self/exe", args, environment);
	_exit(99);
}

static void the_setting_decides(void **state)
{
	if (unit_emulated())
		skip();
	assert_int_equal(unit_wait(unit_fork(run_with, (void *)"NEAR_CONF=fence:off"), NULL), 0);
	assert_int_equal(unit_wait(unit_fork(run_with, (void *)"NEAR_CONF=calls:few"), NULL), 0);
	assert_int_equal(unit_wait(unit_fork(run_with, (void *)"NEAR_CONF=fence:on"), NULL),
			 kernel_can());
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return near__waiters_fence();
	if (UNIT_THREAD_SANITIZER) {
		puts("skipped: ThreadSanitizer allows a child no threads");
		return 77;
	}
	find_object();
	return UNIT_TESTS(a_waiter_without_a_barrier_polls, a_waiter_is_woken,
			  a_waiter_is_woken_by_an_unlocker_with_a_barrier, the_setting_decides);
}
