/* SPDX-License-Identifier: MIT */
/* misuse CASE: prints a block's address, then misuses it. misuse_test.py has the expected
 * outcome. `valid` does nothing wrong. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

void free_sized(void *p, size_t n);
void sdallocx(void *p, size_t n, int flags);
void valid(void); /* valid.c */

/* No compiler may know what the calls do, nor leave them out. */
static void *(*volatile do_malloc)(size_t) = malloc;
static void *(*volatile do_realloc)(void *, size_t) = realloc;
static void (*volatile do_free)(void *) = free;
static size_t (*volatile do_size)(void *) = malloc_usable_size;

static void (*current)(void); /* the case */

static void say(const void *p, const void *by)
{
	printf("%#lx by %#lx in %#lx\n", (unsigned long)p, (unsigned long)by,
	       (unsigned long)current);
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

static char *about(char *p)
{
	printf("%#lx\n", (unsigned long)p);
	fflush(stdout);
	return p;
}

/* ---- found on the common paths ---- */

static void double_free(void)
{
	char *p = make(40);

	do_free(p);
	do_free(p);
}

/* With another between: found when the block comes round for the second time, as the link of one
 * in use is gone. */
static void double_free_cycle(void)
{
	char *p = make(40), *q = do_malloc(40);

	do_free(p);
	do_free(q);
	do_free(p);
	for (int i = 0; i < 4; i++)
		do_malloc(40);
}

static void double_free_large(void)
{
	char *p = make(100000);

	do_free(p);
	do_free(p);
}

static void wild(void)
{
	do_free(about((char *)0x123450));
}

static void on_stack(void)
{
	char block[64];

	do_free(do_malloc(8));
	do_free(about(block + 16));
}

static void beyond(void)
{
	char *p = do_malloc(1 << 20);

	do_free(about(p + ((size_t)1 << 36)));
}

static void interior(void)
{
	do_free(about((char *)do_malloc(48) + 16));
}

static void interior_medium(void)
{
	do_free(about((char *)do_malloc(5000) + 16));
}

static void *free_inside(void *p)
{
	do_free((char *)p + 1024);
	return NULL;
}

/* Where blocks of 5120 bytes may begin: found when it leaves the caches. */
static void interior_aligned(void)
{
	pthread_t thread;
	char *p = do_malloc(5000);

	about(p + 1024);
	if (pthread_create(&thread, NULL, free_inside, p) || pthread_join(thread, NULL))
		abort();
	malloc_trim(0);
}

static void size_inside(void)
{
	do_size(about((char *)do_malloc(100) + 8));
}

static void interior_large(void)
{
	do_free(about((char *)do_malloc(100000) + 4096));
}

static void interior_far(void)
{
	do_free(about((char *)do_malloc(100000) + 32768));
}

static void link_written(void)
{
	char *p = make(40);

	do_free(p);
	memset(p, 'x', 8);
	for (int i = 0; i < 2; i++)
		do_malloc(40);
}

/* ---- found in the check mode ---- */

static void double_free_later(void)
{
	char *p = make(40), *q = do_malloc(40);

	do_free(p);
	do_free(q);
	do_free(p);
}

static void underrun(void)
{
	char *p = make(100);

	p[-1] = 1;
	do_free(p);
}

static void overrun(void)
{
	char *p = make(100);

	p[100] = 1;
	do_free(p);
}

static void overrun_large(void)
{
	char *p = make(200001);

	p[200001] = 1;
	do_free(p);
}

static void overrun_aligned(void)
{
	char *p = make_aligned(4096, 10);

	p[12] = 1;
	do_free(p);
}

static void underrun_aligned(void)
{
	char *p = make_aligned(32768, 10);

	p[-2000] = 1;
	do_free(p);
}

static void overrun_realloc(void)
{
	char *p = make(100);

	p[100] = 1;
	do_realloc(p, 200);
}

/* All of what is before the block. */
static void header(void)
{
	char *p = make(100);

	memset(p - 60, 0, 60);
	do_free(p);
}

static void use_after_free(void)
{
	char *p = make(100);

	do_free(p);
	p[50] = 1;
	for (int i = 0; i < 1000; i++)
		do_free(do_malloc(100000));
}

/* Found when the program ends. */
static void use_after_free_late(void)
{
	char *p = make(100);

	do_free(p);
	p[99] = 1;
}

static void realloc_after_free(void)
{
	char *p = make(100);

	do_free(p);
	do_realloc(p, 200);
}

static void size_after_free(void)
{
	char *p = make(100);

	do_free(p);
	do_size(p);
}

static void inside(void)
{
	char *p = make(100);

	do_free(p + 16);
}

static void wrong_size(void)
{
	char *p = make(100);

	free_sized(p, 96);
}

static void wrong_sdallocx(void)
{
	sdallocx(make(100), 99, 0);
}

/* ---- C++, by the names of its operators in the ABI ---- */

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

static void free_of_new(void)
{
	do_free(make_by(_Znwm, 100));
}

static void free_of_new_array(void)
{
	do_free(make_by(_Znam, 100));
}

static void delete_of_malloc(void)
{
	_ZdlPv(make(100));
}

static void delete_of_new_array(void)
{
	_ZdlPv(make_by(_Znam, 100));
}

static void delete_array_of_new(void)
{
	_ZdaPv(make_by(_Znwm, 100));
}

static void realloc_of_new(void)
{
	do_realloc(make_by(_Znwm, 100), 200);
}

static void wrong_delete_size(void)
{
	_ZdlPvm(make_by(_Znwm, 100), 104);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"double_free", double_free},
	{"double_free_cycle", double_free_cycle},
	{"double_free_large", double_free_large},
	{"wild", wild},
	{"on_stack", on_stack},
	{"beyond", beyond},
	{"interior", interior},
	{"interior_medium", interior_medium},
	{"interior_aligned", interior_aligned},
	{"size_inside", size_inside},
	{"interior_large", interior_large},
	{"interior_far", interior_far},
	{"link_written", link_written},
	{"double_free_later", double_free_later},
	{"underrun", underrun},
	{"overrun", overrun},
	{"overrun_large", overrun_large},
	{"overrun_aligned", overrun_aligned},
	{"underrun_aligned", underrun_aligned},
	{"overrun_realloc", overrun_realloc},
	{"header", header},
	{"use_after_free", use_after_free},
	{"use_after_free_late", use_after_free_late},
	{"realloc_after_free", realloc_after_free},
	{"size_after_free", size_after_free},
	{"inside", inside},
	{"wrong_size", wrong_size},
	{"wrong_sdallocx", wrong_sdallocx},
	{"free_of_new", free_of_new},
	{"free_of_new_array", free_of_new_array},
	{"delete_of_malloc", delete_of_malloc},
	{"delete_of_new_array", delete_of_new_array},
	{"delete_array_of_new", delete_array_of_new},
	{"realloc_of_new", realloc_of_new},
	{"wrong_delete_size", wrong_delete_size},
	{"valid", valid},
};

int main(int argc, char **argv)
{
	struct rlimit none = {0, 0};

	setrlimit(RLIMIT_CORE, &none);
	for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0) {
			current = cases[i].run;
			current();
			return 0;
		}
	return 2;
}
