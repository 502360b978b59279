/* SPDX-License-Identifier: MIT */
/* Step 3 of the tutorial: two threads log requests that were slow; then they are listed. */
#include "slow.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 2
#define REQUESTS 100000

static struct slow_log *slow;

/* Request ids are odd in one thread and even in the other; every 10,000th is slow. */
static void *serve(void *arg)
{
	uint64_t self = (uint64_t)(uintptr_t)arg;

	for (uint64_t i = 1; i <= REQUESTS; i++)
		if (i % 10000 == 0 && !slow_append(slow, i * THREADS + self))
			fprintf(stderr, "the log is full\n");
	return NULL;
}

static void count(uint64_t id, void *arg)
{
	uint64_t *sum = (uint64_t *)arg;

	sum[0]++;
	sum[1] += id;
}

int main(void)
{
	pthread_t threads[THREADS];
	uint64_t sum[2] = {0, 0};
	void *p;
	int r = near_percpu_alloc(sizeof(struct slow_log), 8, &p);

	if (r) {
		fprintf(stderr, "near_percpu_alloc: %s\n", strerror(-r));
		return 1;
	}
	slow = (struct slow_log *)p;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, serve, (void *)i))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	slow_read(slow, count, sum);
	printf("%llu slow requests, their ids add up to %llu\n", (unsigned long long)sum[0],
	       (unsigned long long)sum[1]);
	near_percpu_free(slow);
	return 0;
}
