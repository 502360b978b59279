/* SPDX-License-Identifier: MIT */
/* A program with ThreadSanitizer in it, for a library that was built without: it must not take for
 * races what the locks order. With an argument it has a race, and it must say so. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <nearcpu/barrier.h>
#include <nearcpu/cond.h>
#include <nearcpu/lock.h>
#include <nearcpu/mutex.h>
#include <nearcpu/once.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>

#define THREADS 4
#define TIMES 2000
#define WRITES 20000

static struct {
	struct near_mutex mutex, until, fair, turns, tried;
	struct near_cond turned;
	struct near_sem sem;
	struct near_lock lock;
	struct near_once once, never;
	struct near_rwlock rw;
	struct near_barrier barrier;
} by = {.barrier = NEAR_BARRIER_INIT(THREADS), .sem = NEAR_SEM_INIT(1)};

/* Each guarded by the one of that name. */
static long mutex, until, fair, turn, tried, sem, lock, once, failed, rw, barrier[THREADS];

static void by_mutexes(void)
{
	struct timespec never = {1L << 40, 0};

	near_mutex_lock(&by.mutex);
	mutex++;
	near_mutex_unlock(&by.mutex);
	if (near_mutex_lock_until(&by.until, CLOCK_MONOTONIC, &never, NULL) == 0) {
		until++;
		near_mutex_unlock(&by.until);
	}
	near_mutex_lock(&by.fair);
	fair++;
	near_mutex_unlock_fair(&by.fair);
	if (near_mutex_try_lock(&by.tried)) {
		tried++;
		near_mutex_unlock(&by.tried);
	}
}

static void by_others(void)
{
	near_sem_wait(&by.sem);
	sem++;
	near_sem_post(&by.sem);
	near_lock_lock(&by.lock);
	lock++;
	if (lock % 256 == 0)
		usleep(200); /* so that another thread sleeps */
	near_lock_unlock(&by.lock);
}

/* A reader does not write: else it would know of others' changes by its own. */
static void by_rwlock(long me)
{
	if (me == 0) {
		near_rwlock_write_lock(&by.rw);
		rw++;
		near_rwlock_write_unlock(&by.rw);
	} else if (me == 1) {
		while (!near_rwlock_try_write_lock(&by.rw))
			sched_yield();
		rw++;
		near_rwlock_write_unlock(&by.rw);
	} else {
		near_rwlock_read_lock(&by.rw);
		if (rw < 0)
			abort();
		near_rwlock_read_unlock(&by.rw);
	}
}

static bool is_even(void *unused)
{
	(void)unused;
	return turn % 2 == 0;
}

/* Some wait for odd numbers by the condition variable, others for even ones by await. */
static void by_turns(long me)
{
	near_mutex_lock(&by.turns);
	if (me % 2)
		while (turn % 2 == 0)
			near_cond_wait(&by.turned, &by.turns);
	else
		near_mutex_await(&by.turns, is_even, NULL);
	turn++;
	near_cond_broadcast(&by.turned);
	near_mutex_unlock(&by.turns);
}

static int call_once(void *unused)
{
	(void)unused;
	once++;
	return 0;
}

static int fail(void *unused)
{
	(void)unused;
	failed++;
	return 1;
}

/* Threads that come later call again what is done; each thread does again what fails. */
static void by_once(void)
{
	int result;

	near_once_call_until(&by.once, call_once, NULL, &result, CLOCK_MONOTONIC, NULL, NULL);
	if (once != 1)
		abort();
	near_once_call(&by.never, fail, NULL);
}

static void by_barrier(long me)
{
	barrier[me]++;
	near_barrier_wait(&by.barrier);
	for (int i = 0; i < THREADS; i++)
		if (barrier[i] != barrier[me])
			abort();
	near_barrier_wait(&by.barrier);
}

static void *run(void *arg)
{
	long me = (long)arg;

	for (int i = 0; i < TIMES; i++) {
		by_mutexes();
		by_once();
		by_others();
		by_turns(me);
		by_barrier(me);
	}
	/* Without other locks between, which would order it, too. */
	for (int i = 0; i < WRITES; i++)
		by_rwlock(me);
	return NULL;
}

static long unguarded;

static void *race(void *unused)
{
	unguarded++;
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	(void)argv;
	if (near_rwlock_init(&by.rw, NULL))
		return 1;
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, argc > 1 ? race : run, (void *)i))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (argc == 1 && (mutex != THREADS * TIMES || until != mutex || fair != mutex ||
			  sem != mutex || lock != mutex || rw != 2 * WRITES || turn != mutex))
		return 1;
	return tried > THREADS * TIMES;
}
