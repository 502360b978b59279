/* SPDX-License-Identifier: MIT */
/* For helgrind and DRD, which are to report nothing; and with an argument one race, which they are
 * to report. Built with -DNEAR_VALGRIND=1. */
#include <nearcpu/barrier.h>
#include <nearcpu/cond.h>
#include <nearcpu/counter.h>
#include <nearcpu/lock.h>
#include <nearcpu/mutex.h>
#include <nearcpu/once.h>
#include <nearcpu/park.h>
#include <nearcpu/recursive_mutex.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>
#include <nearcpu/stack.h>
#include <pthread.h>
#include <stdlib.h>

#define THREADS 4
#define ROUNDS 100

static struct near_mutex mutex;
static struct near_recursive_mutex recursive;
static struct near_cond cond;
static struct near_rwlock with_slots, zero;
static struct near_lock lock;
static struct near_sem sem = NEAR_SEM_INIT(0);
static struct near_once once;
static struct near_barrier barrier = NEAR_BARRIER_INIT(THREADS);
static struct near_cancel cancel;
static struct near_counter counter;
static struct near_refcount refcount;
static struct near_stack stack;
static struct item {
	struct near_stack_node link;
	int payload;
} items[THREADS];

/* What each guards, in that order; none is atomic. */
static int by_mutex, by_recursive, by_slots, by_zero, by_lock, by_sem, by_once, by_barrier[THREADS],
	by_park, by_cancel, by_refcount[THREADS];
static int unguarded, door, is_due;

static void require(int holds)
{
	if (!holds)
		abort();
}

static int fill(void *unused)
{
	(void)unused;
	by_once = 7;
	return 0;
}

static bool is_closed(void *unused)
{
	(void)unused;
	return !__atomic_load_n(&door, __ATOMIC_RELAXED);
}

static bool is_there(void *unused)
{
	(void)unused;
	return is_due;
}

static void change_all(int round)
{
	near_mutex_lock(&mutex);
	by_mutex++;
	near_cond_signal(&cond);
	near_mutex_unlock(&mutex);
	near_recursive_mutex_lock(&recursive);
	near_recursive_mutex_lock(&recursive);
	by_recursive++;
	near_recursive_mutex_unlock(&recursive);
	near_recursive_mutex_unlock(&recursive);
	near_rwlock_read_lock(&with_slots);
	near_rwlock_read_lock(&zero);
	require(by_slots >= 0 && by_zero >= 0);
	near_rwlock_read_unlock(&zero);
	near_rwlock_read_unlock(&with_slots);
	if (round % 10 == 0) {
		near_rwlock_write_lock(&with_slots);
		by_slots++;
		near_rwlock_downgrade(&with_slots);
		near_rwlock_read_unlock(&with_slots);
		near_rwlock_write_lock(&zero);
		by_zero++;
		near_rwlock_write_unlock(&zero);
	}
	near_lock_lock(&lock);
	by_lock++;
	near_lock_unlock(&lock);
	if (near_lock_try_lock(&lock)) {
		by_lock++;
		near_lock_unlock(&lock);
	}
}

static void gone(struct near_refcount *r)
{
	(void)r;
	by_refcount[0] = by_refcount[1] + by_refcount[2] + by_refcount[3];
}

static void change_copies(long me)
{
	struct near_stack_node *node = near_stack_pop(&stack);

	near_counter_add(&counter, 1);
	require(near_counter_read(&counter) > 0);
	near_refcount_get(&refcount);
	if (me)
		by_refcount[me]++;
	near_refcount_put(&refcount);
	if (!node && !(node = near_stack_steal(&stack)))
		return;
	((struct item *)node)->payload++;
	near_stack_push(&stack, node);
}

static void meet(long me)
{
	int sum = 0;

	by_barrier[me] = 1;
	near_barrier_wait(&barrier);
	for (int i = 0; i < THREADS; i++)
		sum += by_barrier[i];
	require(sum == THREADS);
	near_barrier_wait(&barrier);
}

/* One prepares what each other one waits for in another way. */
static void prepare(void)
{
	by_sem = 5;
	near_sem_post(&sem);
	near_mutex_lock(&mutex);
	is_due = 1;
	near_mutex_unlock(&mutex);
	by_park = 9;
	near_lock_lock(&lock);
	near_lock_unlock(&lock);
	by_cancel = 3;
	near_cancel_set(&cancel);
	__atomic_store_n(&door, 1, __ATOMIC_RELEASE);
	near_unpark(&door, NEAR_UNPARK_ALL, 0);
}

/* validate reads the door under the lot's lock; a thread parks before it reads what is behind. */
static void pass_door(void)
{
	struct near_park p = {.validate = is_closed};

	do
		near_park(&door, &p);
	while (!__atomic_load_n(&door, __ATOMIC_ACQUIRE));
	near_park(&door, &p);
	require(by_park == 9);
}

static void *work(void *arg)
{
	long me = (long)arg;

	for (int i = 0; i < ROUNDS; i++)
		change_all(i);
	for (int i = 0; i < ROUNDS; i++)
		change_copies(me);
	near_once_call(&once, fill, NULL);
	require(near_once_is_done(&once) && by_once == 7);
	near_once_call(&once, fill, NULL);
	meet(me);
	if (me == 0) {
		prepare();
	} else if (me == 1) {
		near_sem_wait(&sem);
		require(by_sem == 5);
	} else if (me == 2) {
		near_mutex_lock(&mutex);
		near_mutex_await(&mutex, is_there, NULL);
		near_mutex_unlock(&mutex);
		while (!near_cancel_is_set(&cancel))
			;
		require(by_cancel == 3);
	} else {
		pass_door();
	}
	return NULL;
}

static struct near_barrier early = NEAR_BARRIER_INIT(2);

static void *wait_early(void *unused)
{
	near_barrier_wait(&early);
	return unused;
}

/* Runs before the constructors without a priority, also those of a static library. */
__attribute__((constructor(200))) static void use_early(void)
{
	pthread_t t;

	pthread_create(&t, NULL, wait_early, NULL);
	near_barrier_wait(&early);
	pthread_join(t, NULL);
}

static void *race(void *unused)
{
	unguarded++;
	return unused;
}

int main(int count, char **unused)
{
	pthread_t t[THREADS];

	(void)unused;
	require(near_rwlock_init(&with_slots, NULL) == 0 && near_counter_init(&counter) == 0);
	require(near_refcount_init(&refcount, gone) == 0 && near_stack_init(&stack) == 0);
	for (int i = 0; i < THREADS; i++)
		near_stack_push(&stack, &items[i].link);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, count > 1 ? race : work, (void *)i);
	near_mutex_lock(&mutex);
	while (count == 1 && by_mutex < ROUNDS)
		near_cond_wait(&cond, &mutex);
	near_mutex_unlock(&mutex);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	near_refcount_kill(&refcount);
	require(count > 1 || near_counter_read(&counter) == THREADS * ROUNDS);
	near_rwlock_destroy(&with_slots);
	return 0;
}
