/* SPDX-License-Identifier: MIT */
/* Calls every function of the C library's allocator with what is usual and what is not, and prints
 * the result: api_test.py compares the lines of two allocators. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <gnu/libc-version.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define KEPT 4711 /* errno before each call */

#define MAX SIZE_MAX
#define MOST ((size_t)PTRDIFF_MAX)
#define BIT(n) ((size_t)1 << (n))
#define TWO_32 BIT(32)

/* Sizes, alignments and factors are read from here, so that no compiler knows them. */
static volatile size_t sizes[] = {0,     1,     8,       24,   1024,     1025,       4097, 8192,
				  32768, 32769, 1000000, MOST, MOST + 1, MAX - 4095, MAX};
static volatile size_t aligns[] = {0,  1,    2,     3,     4,       7,       8,       16, 24,
				   64, 4096, 16384, 65536, 1 << 20, BIT(40), BIT(63), MAX};
static volatile size_t pairs[][2] = {
	{0, 0},           {0, 8},     {8, 0},        {3, 8},
	{1, 100},         {100, 100}, {100, 1000},   {1000, 1000},
	{MAX, 2},         {2, MAX},   {MAX, MAX},    {MAX / 2 + 1, 2},
	{TWO_32, TWO_32}, {MOST, 1},  {MOST + 1, 1}, {3, MAX / 3 + 1},
};

static const char *error_name(int error)
{
	return error == KEPT ? "kept" : strerror(error);
}

/* Writes to all of a block that is not huge, and returns its kind. */
static const char *block_name(void *p, size_t n, size_t align)
{
	if (!p)
		return "NULL";
	if ((uintptr_t)p & (align - 1))
		return "a block that is not aligned";
	if (malloc_usable_size(p) < n)
		return "a block that is too small";
	if (n <= 1 << 20)
		memset(p, 0x77, malloc_usable_size(p));
	return "a block";
}

static size_t natural(size_t n)
{
	return n < 16 ? 8 : 16;
}

static void tell(const char *call, size_t a, size_t b, void *p, size_t n, size_t align)
{
	int error = errno;

	printf("%s(%#zx, %#zx): %s, errno %s\n", call, a, b, block_name(p, n, align),
	       error_name(error));
	errno = KEPT;
	free(p);
	if (errno != KEPT)
		printf("free: errno %s\n", error_name(errno));
}
#define TELL(call, a, b, p, n, align) (errno = KEPT, tell(call, a, b, p, n, align))

static void tell_malloc(void)
{
	for (size_t i = 0; i < LENGTH(sizes); i++)
		TELL("malloc", sizes[i], 0, malloc(sizes[i]), sizes[i], natural(sizes[i]));
}

static const char *zero_name(const unsigned char *p, size_t n)
{
	for (size_t i = 0; p && i < n; i++)
		if (p[i])
			return "not zero";
	return "zero";
}

static void tell_calloc(void)
{
	for (size_t i = 0; i < LENGTH(pairs); i++) {
		size_t a = pairs[i][0], b = pairs[i][1];
		void *p;

		errno = KEPT;
		p = calloc(a, b);
		printf("%s ", zero_name(p, p ? a * b : 0));
		tell("calloc", a, b, p, p ? a * b : 0, natural(a * b));
	}
}

/* What a failed call must leave. */
static void fill(unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 7);
}

static const char *content_name(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(i * 7))
			return "content lost";
	return "content kept";
}

/* q is what became of `had` bytes: a block, or NULL, when the old one is still there unless
 * it was freed by a size of 0. */
static void tell_resized(const char *call, size_t had, const size_t *counts, uintptr_t old, void *q)
{
	size_t n = counts[0] * counts[1];
	int error = errno;
	void *p = (void *)old;

	printf("from %zu ", had);
	if (q || error != KEPT)
		printf("%s ", content_name(q ? q : p, q && n < had ? n : had));
	if (!q && error != KEPT)
		free(p);
	errno = error;
	tell(call, counts[0], counts[1], q, q ? n : 0, natural(n));
}

static void tell_realloc(void)
{
	static volatile size_t olds[] = {1, 24, 1024, 5000, 40000, 300000};

	for (size_t o = 0; o < LENGTH(olds); o++)
		for (size_t i = 0; i < LENGTH(sizes); i++) {
			size_t had = olds[o], counts[] = {sizes[i], 1};
			unsigned char *p = malloc(had);
			uintptr_t old = (uintptr_t)p;

			fill(p, had);
			errno = KEPT;
			p = realloc(p, counts[0]);
			tell_resized("realloc", had, counts, old, p);
		}
	for (size_t i = 0; i < LENGTH(sizes); i++)
		TELL("realloc NULL", sizes[i], 0, realloc(NULL, sizes[i]), sizes[i],
		     natural(sizes[i]));
}

static void tell_reallocarray(void)
{
	for (size_t i = 0; i < LENGTH(pairs); i++) {
		size_t counts[] = {pairs[i][0], pairs[i][1]}, n = counts[0] * counts[1];
		unsigned char *p = malloc(100);
		uintptr_t old = (uintptr_t)p;

		fill(p, 100);
		errno = KEPT;
		p = reallocarray(p, counts[0], counts[1]);
		tell_resized("reallocarray", 100, counts, old, p);
		errno = KEPT;
		p = reallocarray(NULL, counts[0], counts[1]);
		tell("reallocarray NULL", counts[0], counts[1], p, p ? n : 0, natural(n));
	}
}

static size_t power_from(size_t align)
{
	size_t power = 1;

	while (power < align && power)
		power *= 2;
	return power;
}

static void tell_posix_memalign(size_t align, size_t n)
{
	static char untouched;
	void *p = &untouched;
	int error;

	errno = KEPT;
	error = posix_memalign(&p, align, n);
	printf("posix_memalign(%#zx, %#zx): %s, ", align, n, error ? error_name(error) : "0");
	printf("%s, errno %s\n",
	       error ? p == &untouched ? "untouched" : "touched" : block_name(p, n, align),
	       error_name(errno));
	if (!error)
		free(p);
}

/* From 2.38 on glibc refuses what is no power of two. Ours takes it. */
static int aligned_alloc_differs(size_t align)
{
	return (align & (align - 1) || !align) && strverscmp(gnu_get_libc_version(), "2.38") >= 0;
}

static void tell_aligned(void)
{
	for (size_t a = 0; a < LENGTH(aligns); a++)
		for (size_t i = 0; i < LENGTH(sizes); i++) {
			size_t align = aligns[a], n = sizes[i];

			tell_posix_memalign(align, n);
			TELL("memalign", align, n, memalign(align, n), n, power_from(align));
			if (aligned_alloc_differs(align))
				continue;
			TELL("aligned_alloc", align, n, aligned_alloc(align, n), n,
			     power_from(align));
		}
}

static void tell_pages(void)
{
	for (size_t i = 0; i < LENGTH(sizes); i++) {
		size_t n = sizes[i], page = n ? (n + 4095) / 4096 * 4096 : 0;

		TELL("valloc", n, 0, valloc(n), n, 4096);
		TELL("pvalloc", n, 0, pvalloc(n), page, 4096);
	}
}

static void tell_options(void)
{
	static const int values[] = {0, 1, 160, 161, -1, 1 << 26};

	for (int param = -9; param <= 2; param++)
		for (size_t i = 0; i < LENGTH(values) && param != M_PERTURB; i++)
			printf("mallopt(%d, %d): %d\n", param, values[i],
			       mallopt(param, values[i]));
}

/* Takes blocks of n bytes until there are no more, gives them back, and takes one again. The
 * caller has limited the address space; `first`: nobody used it up before. */
static void exhaust(size_t n, int first)
{
	void **last = NULL, **p;
	size_t count = 0;

	errno = KEPT;
	while ((p = malloc(n))) {
		*p = last;
		last = p;
		count++;
	}
	printf("no more of %zu bytes: errno %s, %s\n", n, error_name(errno),
	       !first || count * n > 32 << 20 ? "enough before" : "too few before");
	errno = KEPT;
	p = realloc(last, n * 1000 + ((size_t)1 << 38));
	printf("realloc: %s, errno %s\n", p ? "a block" : "NULL", error_name(errno));
	while (last) {
		p = *last;
		free(last);
		last = p;
	}
	p = malloc(n);
	printf("again: %s\n", block_name(p, n, 16));
	free(p);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		exhaust(strtoul(argv[i], NULL, 10), i == 1);
	if (argc > 1)
		return 0;
	tell_malloc();
	tell_calloc();
	tell_realloc();
	tell_reallocarray();
	tell_aligned();
	tell_pages();
	tell_options();
	printf("malloc_usable_size(NULL): %zu\n", malloc_usable_size(NULL));
	return 0;
}
