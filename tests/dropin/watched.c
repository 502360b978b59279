/* SPDX-License-Identifier: MIT */
/* watched CASE: what memcheck and AddressSanitizer are to find in a program on our allocator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void overrun(void)
{
	char *p = allocated_here(100);

	sink = *(volatile char *)(p + 101);
	do_free(p);
}

static void underrun(void)
{
	char *p = allocated_here(5000);

	sink = *(volatile char *)(p - 3);
	do_free(p);
}

static void overrun_large(void)
{
	char *p = allocated_here(200000);

	sink = *(volatile char *)(p + 200001);
	do_free(p);
}

static void use_after_free(void)
{
	char *p = allocated_here(100);

	do_free(p);
	sink = *(volatile char *)(p + 50);
}

static void use_after_realloc(void)
{
	char *p = allocated_here(100), *q = do_realloc(p, 110);

	sink = *(volatile char *)(p + 50);
	do_free(q);
}

static void leak(void)
{
	allocated_here(1234);
	/* Nor in a register or on the stack. */
	do_free(allocated_here(1234));
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

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"overrun", overrun},
	{"underrun", underrun},
	{"overrun_large", overrun_large},
	{"use_after_free", use_after_free},
	{"use_after_realloc", use_after_realloc},
	{"leak", leak},
	{"not_set", not_set},
	{"valid", valid},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0) {
			cases[i].run();
			return 0;
		}
	return 2;
}
