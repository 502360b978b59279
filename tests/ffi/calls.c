/* SPDX-License-Identifier: MIT */
/* A caller that knows names and sizes, but no header: threads count and lock by libnearcpu-ffi.
 * Prints what is wrong, if anything. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

extern size_t near_ffi_size(const char *type);
extern int near_counter_init(void *counter);
extern void near_counter_add(void *counter, int64_t n);
extern int64_t near_counter_read(const void *counter);
extern void near_counter_destroy(void *counter);
extern void near_mutex_lock(void *mutex);
extern void near_mutex_unlock(void *mutex);
extern void near_barrier_init(void *barrier, uint32_t threads);
extern int near_barrier_wait(void *barrier);
extern int near_stack_init(void *stack);
extern void near_stack_push(void *stack, void *node);
extern void *near_stack_pop(void *stack);
extern void near_stack_destroy(void *stack);

#define THREADS 4
#define ROUNDS 20000

static void *counter, *mutex, *barrier, *stack;
static long guarded;
static int last;

static void *make(const char *type)
{
	size_t size = near_ffi_size(type);
	void *p = size ? calloc(1, size) : NULL;

	if (!p) {
		fprintf(stderr, "%s has no size\n", type);
		exit(1);
	}
	return p;
}

static void *run(void *node)
{
	if (near_barrier_wait(barrier))
		__atomic_fetch_add(&last, 1, __ATOMIC_RELAXED);
	for (long i = 0; i < ROUNDS; i++) {
		near_counter_add(counter, 3);
		near_stack_push(stack, node);
		do
			node = near_stack_pop(stack);
		while (!node);
		near_mutex_lock(mutex);
		guarded++;
		near_mutex_unlock(mutex);
	}
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, make("stack_node")))
			exit(1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	long count;

	counter = make("counter");
	mutex = make("mutex");
	barrier = make("barrier");
	stack = make("stack");
	near_barrier_init(barrier, THREADS);
	if (near_counter_init(counter) || near_stack_init(stack))
		return 1;
	run_threads();
	count = (long)near_counter_read(counter);
	near_counter_destroy(counter);
	if (count == 3L * THREADS * ROUNDS && guarded == THREADS * ROUNDS && last == 1)
		return 0;
	fprintf(stderr, "counted %ld, locked %ld, %d last\n", count, guarded, last);
	return 1;
}
