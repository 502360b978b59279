/* SPDX-License-Identifier: MIT */
/* usage: own | own both | own free | own near_free | own LIBRARY
 * near_malloc besides the program's malloc, in C and in C++; own_test.py. "both": static, one heap
 * serves both. "free", "near_free": gives this function a block of the other. LIBRARY: opened by
 * dlopen. */
#include <dlfcn.h>
#include <nearcpu/malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define BLOCKS 500

typedef void *alloc_function(size_t size);
typedef void free_function(void *p);

static alloc_function *alloc = NULL;
static free_function *release = NULL;
static void *passed[THREADS];

/* Each thread frees the block of another one, which has written to it. */
static void *allocate(void *number)
{
	size_t self = (size_t)(void **)number - (size_t)passed;
	void **next = &passed[(self / sizeof(passed[0]) + 1) % THREADS];

	for (size_t i = 1; i <= BLOCKS; i++) {
		char *p = (char *)alloc(i * 7), *theirs = (char *)malloc(i * 7);

		memset(p, 1, i * 7);
		memset(theirs, 2, i * 7);
		release(__atomic_exchange_n(next, (void *)p, __ATOMIC_ACQ_REL));
		free(theirs);
	}
	return NULL;
}

static int run_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, allocate, &passed[i]))
			return 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
	}
	for (int i = 0; i < THREADS; i++)
		release(passed[i]);
	puts("done");
	return 0;
}

static int open_library(const char *name)
{
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	*(void **)&alloc = dlsym(library, "near_malloc");
	*(void **)&release = dlsym(library, "near_free");
	return !alloc || !release;
}

#ifdef BY_DLOPEN
int main(int argc, char **argv)
{
	return argc != 2 || open_library(argv[1]) || run_threads();
}
#else
static int run_both(void)
{
	struct near_malloc_stats before, after;
	void *p;

	near_malloc_stats(&before, sizeof(before));
	p = malloc(100000);
	near_malloc_stats(&after, sizeof(after));
	if (after.in_use < before.in_use + 100000)
		return 1;
	near_free(p);
	free(near_malloc(100));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	alloc = near_malloc;
	release = near_free;
	if (strcmp(what, "both") == 0 && run_both())
		return 1;
	if (strcmp(what, "free") == 0)
		free(near_malloc(100));
	if (strcmp(what, "near_free") == 0)
		near_free(malloc(100));
	(void)open_library;
	return run_threads();
}
#endif
