/* SPDX-License-Identifier: MIT */
/* Nothing wrong. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 256
static char *shared[SLOTS];
static uint32_t lengths[SLOTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static char *any_block(uint32_t r, size_t n)
{
	void *p = NULL;

	switch (r % 4) {
	case 0:
		return calloc(1, n);
	case 1:
		return posix_memalign(&p, (size_t)16 << r / 4 % 8, n) ? NULL : p;
	case 2:
		p = malloc(n / 2 + 1);
		return realloc(p, n);
	default:
		return malloc(n);
	}
}

/* Blocks wander between threads; each has its length in all of its bytes. */
static void exchange(uint32_t r)
{
	size_t n = r % 50 ? r % 700 + 4 : r % 100000 + 4, slot = r / 7 % SLOTS;
	char *p = any_block(r / 3, n), *old;
	uint32_t had;

	if (!p || malloc_usable_size(p) < n)
		abort();
	memset(p, (int)(n & 0x7f), n);
	pthread_mutex_lock(&lock);
	old = shared[slot];
	had = lengths[slot];
	shared[slot] = p;
	lengths[slot] = (uint32_t)n;
	pthread_mutex_unlock(&lock);
	for (uint32_t i = 0; old && i < had; i++)
		if (old[i] != (char)(had & 0x7f))
			abort();
	free(old);
}

static void *run(void *arg)
{
	uint64_t state = (uintptr_t)arg;

	for (int i = 0; i < 10000; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		exchange((uint32_t)(state >> 33));
	}
	return NULL;
}

void valid(void)
{
	pthread_t threads[4];
	int status = 0;
	pid_t child;

	for (uintptr_t i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, run, (void *)(i + 1)))
			abort();
	for (int i = 0; i < 20; i++) {
		child = fork();
		if (child == 0) {
			free(strdup("child"));
			free(malloc(300000));
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status)
			abort();
	}
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < SLOTS; i++)
		free(shared[i]);
	malloc_trim(0);
	puts("done");
}
