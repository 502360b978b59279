/* SPDX-License-Identifier: MIT */
/* misuse CASE: prints a block's address, then misuses it. misuse_test.py has the expected
 * outcome. `valid` does nothing wrong. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"

void free_sized(void *p, size_t n);
void sdallocx(void *p, size_t n, int flags);
void valid(void); /* valid.c */

/* No compiler may know what the calls do, nor leave them out. */
static void *(*volatile do_malloc)(size_t) = malloc;
static void *(*volatile do_realloc)(void *, size_t) = realloc;
static void (*volatile do_free)(void *) = free;
static size_t (*volatile do_size)(void *) = malloc_usable_size;

static void say(const void *p, const void *by)
{
	printf("%#lx by %#lx in %#lx\n", (unsigned long)p, (unsigned long)by,
	       (unsigned long)current_case);
	fflush(stdout);
}

/* The allocations that the lines on standard error name are made here. */
static __attribute__((noinline)) char *make(size_t n)
{
	char *p = do_malloc(n);

	say(p, make);
	return p;
}

static __attribute__((noinline)) char *make_aligned(size_t align, size_t n)
{
	void *p = NULL;

	if (posix_memalign(&p, align, n))
		abort();
	say(p, make_aligned);
	return p;
}

/* C++, by the names of its operators in the ABI. */
void *_Znwm(size_t n);
void *_Znam(size_t n);
void _ZdlPv(void *p);
void _ZdlPvm(void *p, size_t n);
void _ZdaPv(void *p);

static __attribute__((noinline)) char *make_by(void *(*new)(size_t), size_t n)
{
	char *p = new (n);

	say(p, make_by);
	return p;
}

static char *about(char *p)
{
	printf("%#lx\n", (unsigned long)p);
	fflush(stdout);
	return p;
}

STEP char *freed(char *p)
{
	do_free(p);
	return p;
}

STEP void free_around_another(char *p)
{
	char *q = do_malloc(40);

	do_free(p);
	do_free(q);
	do_free(p);
}

STEP char *written(char *p, long at)
{
	p[at] = 1;
	return p;
}

STEP void allocate(int times, size_t n)
{
	while (times--)
		do_malloc(n);
}

/* The block is the last of a span, whose other free blocks are more than a list has; each page has
 * a block in use. It is freed again while it is in the span, and is in use when the span becomes
 * empty. */
STEP void free_in_span(void)
{
	static char *blocks[1024];
	const size_t n = sizeof(blocks) / sizeof(*blocks), span = 16384, page = 4096;
	uintptr_t first;
	char *p;

	for (size_t i = 0; i < n; i++)
		blocks[i] = do_malloc(40);
	p = blocks[n / 2];
	first = (uintptr_t)p / span * span;
	for (size_t i = 0; i < n; i++)
		if ((uintptr_t)blocks[i] / span == first / span && blocks[i] > p)
			p = blocks[i];
	for (size_t i = 0; i < n; i++)
		if ((uintptr_t)blocks[i] - first < span - page && (uintptr_t)blocks[i] % page > 64)
			do_free(blocks[i]);
	do_free(about(p));
	malloc_trim(0);
	do_malloc(40); /* the cache begins again */
	do_free(p);
	allocate((int)n, 40);
}

static void *free_inside(void *p)
{
	do_free((char *)p + 1024);
	return NULL;
}

STEP void free_inside_by_thread(char *p)
{
	pthread_t thread;

	about(p + 1024);
	if (pthread_create(&thread, NULL, free_inside, p) || pthread_join(thread, NULL))
		abort();
	malloc_trim(0);
}

STEP void free_on_stack(void)
{
	char block[64];

	do_free(do_malloc(8));
	do_free(about(block + 16));
}

/* All of what is before the block. */
STEP char *headless(char *p)
{
	memset(p - 60, 0, 60);
	return p;
}

STEP void allocate_until_found(void)
{
	for (int i = 0; i < 1000; i++)
		do_free(do_malloc(100000));
}

/* ---- found on the common paths ---- */

CASE(double_free, do_free(freed(make(40))))
/* Found when the block comes round for the second time, as the link of one in use is gone. */
CASE(double_free_cycle, free_around_another(make(40)), allocate(4, 40))
CASE(double_free_in_span, free_in_span())
CASE(double_free_large, do_free(freed(make(100000))))
CASE(wild, do_free(about((char *)0x123450)))
CASE(on_stack, free_on_stack())
CASE(beyond, do_free(about((char *)do_malloc(1 << 20) + ((size_t)1 << 36))))
CASE(interior, do_free(about((char *)do_malloc(48) + 16)))
CASE(interior_medium, do_free(about((char *)do_malloc(5000) + 16)))
/* Where blocks of 5120 bytes may begin: found when it leaves the caches. */
CASE(interior_aligned, free_inside_by_thread(do_malloc(5000)))
CASE(size_inside, do_size(about((char *)do_malloc(100) + 8)))
CASE(interior_large, do_free(about((char *)do_malloc(100000) + 4096)))
CASE(interior_far, do_free(about((char *)do_malloc(100000) + 32768)))
CASE(link_written, memset(freed(make(40)), 'x', 8), allocate(2, 40))

/* ---- found in the check mode ---- */

CASE(double_free_later, free_around_another(make(40)))
CASE(underrun, do_free(written(make(100), -1)))
CASE(overrun, do_free(written(make(100), 100)))
CASE(overrun_large, do_free(written(make(200001), 200001)))
CASE(overrun_aligned, do_free(written(make_aligned(4096, 10), 12)))
CASE(underrun_aligned, do_free(written(make_aligned(32768, 10), -2000)))
CASE(overrun_realloc, do_realloc(written(make(100), 100), 200))
CASE(header, do_free(headless(make(100))))
CASE(use_after_free, written(freed(make(100)), 50), allocate_until_found())
/* Found when the program ends. */
CASE(use_after_free_late, written(freed(make(100)), 99))
CASE(realloc_after_free, do_realloc(freed(make(100)), 200))
CASE(size_after_free, do_size(freed(make(100))))
CASE(inside, do_free(make(100) + 16))
CASE(wrong_size, free_sized(make(100), 96))
CASE(wrong_sdallocx, sdallocx(make(100), 99, 0))
CASE(free_of_new, do_free(make_by(_Znwm, 100)))
CASE(free_of_new_array, do_free(make_by(_Znam, 100)))
CASE(delete_of_malloc, _ZdlPv(make(100)))
CASE(delete_of_new_array, _ZdlPv(make_by(_Znam, 100)))
CASE(delete_array_of_new, _ZdaPv(make_by(_Znwm, 100)))
CASE(realloc_of_new, do_realloc(make_by(_Znwm, 100), 200))
CASE(wrong_delete_size, _ZdlPvm(make_by(_Znwm, 100), 104))

CASES_MAIN(double_free, double_free_cycle, double_free_in_span, double_free_large, wild, on_stack,
	   beyond, interior, interior_medium, interior_aligned, size_inside, interior_large,
	   interior_far, link_written, double_free_later, underrun, overrun, overrun_large,
	   overrun_aligned, underrun_aligned, overrun_realloc, header, use_after_free,
	   use_after_free_late, realloc_after_free, size_after_free, inside, wrong_size,
	   wrong_sdallocx, free_of_new, free_of_new_array, delete_of_malloc, delete_of_new_array,
	   delete_array_of_new, realloc_of_new, wrong_delete_size, valid)
