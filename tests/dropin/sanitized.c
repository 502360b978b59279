/* SPDX-License-Identifier: MIT */
/* A program with a sanitizer: threads allocate and free, and a block is freed by another thread. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define BLOCKS 1000

static void *allocate(void *block)
{
	free(block);
	for (size_t i = 1; i <= BLOCKS; i++) {
		char *p = malloc(i);

		memset(p, 1, i);
		free(p);
	}
	return malloc(BLOCKS);
}

int main(void)
{
	pthread_t threads[THREADS];
	void *block;

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, allocate, malloc(BLOCKS)))
			return 1;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &block);
		free(block);
	}
	puts("done");
	return 0;
}
