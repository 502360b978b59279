/* SPDX-License-Identifier: MIT */
/* fork with fork handlers and with threads that sleep, one case at a time, with checks of the
 * library's locks. */
#include "forks.h"
#include "team.h"

/* ---- fork handlers: one is registered before the library's, one after them ---- */

static void nothing(void)
{
}

static void (*in_child_first)(void) = nothing;
static void (*prepare_first)(void) = nothing, (*afterwards)(void) = nothing;

static void child_early(void)
{
	in_child_first();
}

static void prepare_late(void)
{
	prepare_first();
}

static void after_late(void)
{
	afterwards();
}

__attribute__((constructor(101))) static void come_first(void)
{
	pthread_atfork(NULL, NULL, child_early);
}

/* As programs do. */
__attribute__((constructor)) static void come_later(void)
{
	pthread_atfork(prepare_late, after_late, after_late);
}

/* ---- a mutex that a fork handler locks ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool owned, wanted;

static void lock_mutex(void)
{
	__atomic_store_n(&wanted, true, SEQ_CST);
	pthread_mutex_lock(&mutex);
}

static void unlock_mutex(void)
{
	pthread_mutex_unlock(&mutex);
}

static void *add_under_mutex(void *unused)
{
	pthread_mutex_lock(&mutex);
	__atomic_store_n(&owned, true, SEQ_CST);
	unit_await(&wanted);
	add_one(NULL);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void lock_while_forking(void *unused)
{
	pthread_t thread = unit_start(add_under_mutex, unused);

	unit_await(&owned);
	prepare_first = lock_mutex;
	afterwards = unlock_mutex;
	fork_once();
	unit_join(thread);
}

UNIT_TEST(handlers_may_lock_mutexes, unit_in_child(lock_while_forking, NULL))

/* ---- waiters ---- */

static pthread_t early;

static void start_early(void)
{
	early = unit_start(add_one, NULL);
	wait_for_sleepers(1);
}

/* The library's handler releases the locks, and must wake the thread. */
static void have_early_thread(void *unused)
{
	in_child_first = start_early;
	if (fork() == 0) {
		unit_join(early);
		CHECK(object[0] == 1);
		_exit(0);
	}
	CHECK(unit_wait(-1, NULL) == 0);
}

UNIT_TEST(threads_of_a_child_handler_go_on, unit_in_child(have_early_thread, NULL))

static void add_often(unsigned number)
{
	for (unsigned i = 0; i < unit_scale(10000); i++)
		add_one(NULL);
}

/* Its thread is counted in the child, where it is not. */
static void have_waiter(void *unused)
{
	struct near__atomic_lock *l = lock_of_object();
	unsigned long seen = take(l);
	pthread_t waits = unit_start(add_one, unused);
	pid_t child;

	wait_for_sleepers(1);
	child = fork();
	release(l, seen);
	if (child == 0) {
		team_run(3, add_often);
		CHECK(l->waiters == 1 && object[0] == 3 * unit_scale(10000));
		_exit(0);
	}
	unit_join(waits);
	CHECK(unit_wait(child, NULL) == 0);
	CHECK(l->waiters == 0 && object[0] == 1);
}

static pid_t forked = -1;

static void fork_here(int signal)
{
	forked = fork();
}

static void *add_after_fork(void *unused)
{
	add_one(NULL);
	CHECK(lock_of_object()->waiters == 0 && object[0] == 1);
	if (forked == 0)
		_exit(0);
	CHECK(unit_wait(forked, NULL) == 0);
	return unused;
}

static void fork_in_sleep(void *unused)
{
	unsigned long seen = take(lock_of_object());
	pthread_t thread = unit_start(add_after_fork, unused);

	signal(SIGUSR1, fork_here);
	wait_for_sleepers(1);
	pthread_kill(thread, SIGUSR1);
	wait_for_fork(lock_of_object(), 1);
	release(lock_of_object(), seen);
	unit_join(thread);
}

static void waiters_of_the_parent_do_no_harm(void **state)
{
	unit_in_child(have_waiter, NULL);
	unit_in_child(fork_in_sleep, NULL);
}

int main(void)
{
	if (UNIT_THREAD_SANITIZER) {
		puts("skipped: ThreadSanitizer allows a child no threads");
		return 77;
	}
	find_object();
	return UNIT_TESTS(handlers_may_lock_mutexes, threads_of_a_child_handler_go_on,
			  waiters_of_the_parent_do_no_harm);
}
