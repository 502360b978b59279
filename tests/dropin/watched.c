/* SPDX-License-Identifier: MIT */
/* watched CASE: what memcheck and AddressSanitizer are to find in a program on our allocator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

/* No compiler may know what the calls do. */
static void *(*volatile do_malloc)(size_t) = malloc;
static void *(*volatile do_realloc)(void *, size_t) = realloc;
static void (*volatile do_free)(void *) = free;
static volatile char sink;

static __attribute__((noinline)) char *allocated_here(size_t n)
{
	char *p = do_malloc(n);

	memset(p, 1, n);
	return p;
}

STEP void read_at(char *p, long at)
{
	sink = *(volatile char *)(p + at);
}

STEP char *freed(char *p)
{
	do_free(p);
	return p;
}

STEP void read_and_free(char *p, long at)
{
	read_at(p, at);
	do_free(p);
}

CASE(overrun, read_and_free(allocated_here(100), 101))
CASE(underrun, read_and_free(allocated_here(5000), -3))
CASE(overrun_large, read_and_free(allocated_here(200000), 200001))
CASE(use_after_free, read_at(freed(allocated_here(100)), 50))
/* The second block leaves nothing of the first in a register or on the stack. */
CASE(leak, allocated_here(1234), do_free(allocated_here(1234)))

static void use_after_realloc(void)
{
	char *p = allocated_here(100), *q = do_realloc(p, 110);

	read_at(p, 50);
	do_free(q);
}

static void not_set(void)
{
	volatile char *p = do_malloc(100);

	if (p[70] == 3)
		puts("three");
	do_free((void *)p);
}

static void valid(void)
{
	static char *blocks[1000];

	for (int i = 0; i < 20000; i++) {
		size_t n = (size_t)i * 7919 % 3000 + 1;
		char **p = &blocks[i * 31 % 1000];

		*p = do_realloc(*p, i % 100 ? n : n * 100);
		memset(*p, i, n);
		if (i % 3 == 0) {
			do_free(*p);
			*p = calloc(1, n);
			if ((*p)[n - 1])
				abort();
		}
	}
	for (int i = 0; i < 1000; i++)
		do_free(blocks[i]);
}

CASES_MAIN(overrun, underrun, overrun_large, use_after_free, use_after_realloc, leak, not_set,
	   valid)
