/* SPDX-License-Identifier: MIT */
/* Blocks that are allocated by one name and freed by another; blocks of glibc's malloc. With the
 * argument "after", the drop-in comes after the C library in the link, which has malloc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(holds)                                                                               \
	do {                                                                                       \
		if (!(holds)) {                                                                    \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #holds);                \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t), *__libc_valloc(size_t), *__libc_pvalloc(size_t);
void __libc_free(void *);
void sdallocx(void *, size_t, int) __attribute__((weak));
void free_sized(void *, size_t) __attribute__((weak));
void cfree(void *) __attribute__((weak));

static void glibc_names(void)
{
	char *p = malloc(100);

	free(__libc_memalign(64, 100));
	free(__libc_malloc(100));
	free(__libc_calloc(10, 10));
	free(__libc_valloc(100));
	free(__libc_pvalloc(100));
	__libc_free(malloc(100));
	__libc_free(memalign(64, 100));
	strcpy(p, "x");
	p = __libc_realloc(p, 100000);
	CHECK(strcmp(p, "x") == 0);
	CHECK(malloc_usable_size(__libc_malloc(100)) >= 100);
	free(p);
	free(__libc_realloc(NULL, 10));
}

static void blocks_of_glibc(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *(*theirs)(size_t) = (void *(*)(size_t))dlsym(libc, "malloc");
	static char data[64];
	char *p;

	CHECK(malloc_usable_size(data + 16) == 0);
	p = theirs(100);
	CHECK(malloc_usable_size(p) >= 100 && malloc_usable_size(p) < 200);
	strcpy(p, "x");
	p = realloc(p, 1000);
	CHECK(strcmp(p, "x") == 0);
	p = reallocarray(p, 1000, 1000);
	CHECK(strcmp(p, "x") == 0);
	free(p);
	free(theirs(1000));
	cfree(theirs(1000));
	sdallocx(theirs(1000), 1000, 0);
	free_sized(theirs(1000), 1000);
}

/* The drop-in has names that the C library lacks. */
static void names_of_the_dropin(void)
{
	CHECK(sdallocx && free_sized && cfree);
	sdallocx(malloc(10), 10, 0);
	free_sized(malloc(10), 10);
	cfree(malloc(10));
	free(reallocarray(malloc(10), 2, 10));
	CHECK(malloc_usable_size(malloc(10)) >= 10);
}

int main(int argc, char **argv)
{
	names_of_the_dropin();
	if (argc > 1)
		return 0;
	glibc_names();
	blocks_of_glibc();
	return 0;
}
