/* SPDX-License-Identifier: MIT */
/* Step 1 of the tutorial: a hit counter of two threads, by one atomic word and by near_counter. The
 * times go to standard error, as they are never the same. */
#include <nearcpu/counter.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS 2
#define REQUESTS 1000000 /* of each thread */

/* [naive] */
static long naive_hits;

static void *serve_naive(void *unused)
{
	for (int i = 0; i < REQUESTS; i++)
		__atomic_fetch_add(&naive_hits, 1, __ATOMIC_RELAXED);
	return unused;
}
/* [/naive] */

/* [near] */
static struct near_counter hits;

static void *serve(void *unused)
{
	for (int i = 0; i < REQUESTS; i++)
		near_counter_add(&hits, 1);
	return unused;
}
/* [/near] */

/* [measure] */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Prints the nanoseconds that a thread takes for a request. */
static void run(const char *name, void *(*function)(void *))
{
	pthread_t threads[THREADS];
	double begin = now();

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, function, NULL))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fprintf(stderr, "%-12s %6.2f ns\n", name, (now() - begin) / REQUESTS);
}
/* [/measure] */

/* [main] */
int main(void)
{
	int r = near_counter_init(&hits);

	if (r) {
		fprintf(stderr, "near_counter_init: %s\n", strerror(-r));
		return 1;
	}
	run("one atomic", serve_naive);
	run("near_counter", serve);
	printf("%ld hits, %lld hits\n", naive_hits, (long long)near_counter_read(&hits));
	near_counter_destroy(&hits);
	return 0;
}
/* [/main] */
