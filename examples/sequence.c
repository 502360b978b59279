/* SPDX-License-Identifier: MIT */
/* Four threads report response times; then the longest is read. */
#include "sequence.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define REPORTS 100000

static uint64_t *longest;

/* Each number below REPORTS * THREADS is reported once by one thread, in no order. */
static void *report(void *arg)
{
	uint64_t self = (uint64_t)(uintptr_t)arg;

	for (uint64_t i = 0; i < REPORTS; i++)
		peak_raise(longest, i * 7919 % REPORTS * THREADS + self);
	return NULL;
}

/* The highest of all copies in use, those of the fallback too. */
static uint64_t peak_read(const uint64_t *p)
{
	uint64_t highest = 0, v;

	for (unsigned s = 0; near_percpu_next(p, &s); s++) {
		v = __atomic_load_n((uint64_t *)near_percpu_at(p, s), __ATOMIC_RELAXED);
		highest = v > highest ? v : highest;
	}
	return highest;
}

int main(void)
{
	pthread_t threads[THREADS];
	void *p;
	int r = near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &p);

	if (r) {
		fprintf(stderr, "near_percpu_alloc: %s\n", strerror(-r));
		return 1;
	}
	longest = (uint64_t *)p;
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, report, (void *)i))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("longest: %llu\n", (unsigned long long)peak_read(longest));
	near_percpu_free(p);
	return 0;
}
