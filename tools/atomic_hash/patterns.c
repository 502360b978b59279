/* SPDX-License-Identifier: MIT */
#include "patterns.h"

#include <nearcpu/percpu.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hashes.h"

#define PAGE 4096
#define ELSEWHERE 0x7f0000000000u /* where an address space has its mappings */

/* Adds an address unless its line has one. */
static size_t add(uintptr_t *at, size_t n, uintptr_t address)
{
	for (size_t i = 0; i < n; i++)
		if (at[i] / LINE == address / LINE)
			return n;
	at[n] = address;
	return n + 1;
}

size_t pattern_array(uintptr_t *at, size_t stride)
{
	size_t n = 0;

	for (uintptr_t address = ELSEWHERE; n < OBJECTS; address += stride)
		n = add(at, n, address);
	return n;
}

/* ---- a variable on the stack of each of many threads ---- */

struct stacks {
	pthread_barrier_t all_run;
	uintptr_t at[OBJECTS];
};

struct stack_arg {
	struct stacks *stacks;
	size_t i;
};

static void *show_variable(void *arg)
{
	struct stack_arg *a = arg;
	char variable[24];
	char *volatile seen = variable;

	a->stacks->at[a->i] = (uintptr_t)seen;
	pthread_barrier_wait(&a->stacks->all_run);
	return NULL;
}

/* A machine that does not have so many threads has no such pattern. */
static size_t pattern_stacks(uintptr_t *at, size_t size)
{
	static struct stacks s;
	static struct stack_arg args[OBJECTS];
	static pthread_t threads[OBJECTS];
	pthread_attr_t attr;
	size_t n = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, size);
	pthread_barrier_init(&s.all_run, NULL, OBJECTS);
	for (size_t i = 0; i < OBJECTS; i++) {
		args[i] = (struct stack_arg){&s, i};
		if (pthread_create(&threads[i], &attr, show_variable, &args[i]))
			return 0;
	}
	for (size_t i = 0; i < OBJECTS; i++) {
		pthread_join(threads[i], NULL);
		n = add(at, n, s.at[i]);
	}
	pthread_barrier_destroy(&s.all_run);
	pthread_attr_destroy(&attr);
	return n;
}

/* ---- blocks ---- */

/* Not rand: it shall be the same everywhere. */
static uint32_t next_random(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}

/* The size 0: mixed, of 24 to 512 bytes. */
static size_t pattern_blocks(uintptr_t *at, size_t size)
{
	static void *blocks[16 * OBJECTS];
	size_t n = 0, made = 0;

	while (n < OBJECTS && made < sizeof(blocks) / sizeof(blocks[0])) {
		blocks[made] = malloc(size ? size : 24 + next_random() % 489);
		if (!blocks[made])
			break;
		n = add(at, n, (uintptr_t)blocks[made++]);
	}
	while (made)
		free(blocks[--made]);
	return n;
}

static size_t pattern_pages(uintptr_t *at, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < OBJECTS; i++) {
		void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			break;
		n = add(at, n, (uintptr_t)p);
	}
	for (size_t i = 0; i < n; i++)
		munmap((void *)at[i], size);
	return n;
}

/* ---- near_percpu(3) ---- */

/* So many objects, each in as many slots. */
static size_t pattern_copies(uintptr_t *at, size_t objects)
{
	size_t n = 0;

	for (size_t slot = 0; slot < OBJECTS / objects; slot++)
		for (size_t i = 0; i < objects; i++)
			n = add(at, n,
				ELSEWHERE + i * LINE + ((uintptr_t)slot << NEAR_STRIDE_SHIFT));
	return n;
}

const struct pattern patterns[] = {
	{"array, 24, 40, 64 bytes apart", pattern_array, 24, LINE},
	{"array, 72", pattern_array, 72, LINE},
	{"array, 96", pattern_array, 96, LINE},
	{"array, 128", pattern_array, 128, LINE},
	{"array, 192", pattern_array, 192, LINE},
	{"array, 320", pattern_array, 320, LINE},
	{"array, 1,024", pattern_array, 1024, LINE},
	{"array, 4,096", pattern_array, 4096, LINE},
	{"array, 4,160", pattern_array, 4160, LINE},
	{"array, 65,536", pattern_array, 65536, LINE},
	{"array, 2,097,152", pattern_array, 2097152, LINE},
	{"threads' stacks, 8 MiB", pattern_stacks, 8 << 20, PAGE},
	{"threads' stacks, 256 KiB", pattern_stacks, 256 << 10, PAGE},
	{"malloc(24)", pattern_blocks, 24, PAGE},
	{"malloc(100)", pattern_blocks, 100, PAGE},
	{"malloc, 24 to 512", pattern_blocks, 0, PAGE},
	{"malloc(1 MiB)", pattern_blocks, 1 << 20, PAGE},
	{"pages of mmap", pattern_pages, PAGE, PAGE},
	{"near_percpu, 1 in 256 slots", pattern_copies, 1, PAGE},
	{"near_percpu, 16 in 16 slots", pattern_copies, 16, PAGE},
};
const size_t pattern_count = sizeof(patterns) / sizeof(patterns[0]);
