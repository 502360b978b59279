/* SPDX-License-Identifier: MIT */
/* Allocates in functions whose sums profile_test.py knows. In the middle it sends itself SIGUSR2.
 * "keep": it frees nothing, and allocates in the first of them alone. "fill": it writes to all that
 * its blocks have. "fork": it compares which blocks it and its child sample. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__clang__)
#define SITE __attribute__((noinline))
#else
#define SITE __attribute__((noinline, noclone, noipa))
#endif

static void *kept[100000];
static unsigned used;

/* Keeps p, so that the call of malloc before it is none at the end of a function. */
static void keep(void *p)
{
	if (!p)
		abort();
	kept[__atomic_fetch_add(&used, 1, __ATOMIC_RELAXED)] = p;
}

#define KEEPING_SITE(name, n, size)                                                                \
	static SITE void *name(void *unused)                                                       \
	{                                                                                          \
		for (int i = 0; i < n; i++)                                                        \
			keep(malloc(size));                                                        \
		return NULL;                                                                       \
	}
KEEPING_SITE(site_small, 20000, 100)
KEEPING_SITE(site_large, 10, 1 << 20)
KEEPING_SITE(site_thread, 4000, 200)

static SITE void site_aligned(void)
{
	for (int i = 0; i < 4000; i++) {
		void *p = NULL;

		if (posix_memalign(&p, 256, 512) || (size_t)p % 256)
			abort();
		keep(p);
	}
}

/* Two allocations in turn: one is kept, the other not. */
static SITE char *site_short_lived(void)
{
	char *p = calloc(1, 160);

	*(volatile char *)p += 1;
	return p;
}

static SITE void site_long_lived(void)
{
	for (int i = 0; i < 15000; i++) {
		free(site_short_lived());
		keep(malloc(160));
	}
}

static SITE void site_grown(void)
{
	for (int i = 0; i < 200; i++) {
		char *p = malloc(1000);

		for (size_t n = 2000; n <= 16000; n *= 2)
			p = realloc(p, n);
		keep(p);
	}
}

static SITE void site_freed_later(void)
{
	static void *all[5000];

	for (int i = 0; i < 5000; i++)
		all[i] = malloc(300);
	raise(SIGUSR2);
	for (int i = 0; i < 5000; i++)
		free(all[i]);
}

/* False: two blocks overlap. */
static int fill(void)
{
	unsigned char *blocks[4000];
	unsigned count = 0;

	for (size_t n = 1; n < 100000; n += n / 32 + 1)
		for (size_t m = n; m < n + 3; m++) {
			blocks[count] = malloc(m);
			memset(blocks[count], (int)count, malloc_usable_size(blocks[count]));
			count++;
		}
	for (unsigned i = 0; i < count; i++)
		for (size_t at = 0; at < malloc_usable_size(blocks[i]); at++)
			if (blocks[i][at] != (unsigned char)i)
				return 0;
	return 1;
}

#define COMPARED 4000

/* A sampled block has pages of its own; few others begin where a page does. */
static void note_samples(char *sampled)
{
	for (int i = 0; i < COMPARED; i++) {
		void *p = malloc(100);

		sampled[i] = (uintptr_t)p % 4096 == 0;
		keep(p);
	}
}

/* False: from fork on the child samples what its parent samples. */
static int child_differs(void)
{
	char *both =
		mmap(NULL, 2 * COMPARED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t child;

	if (both == MAP_FAILED)
		return 0;
	note_samples(both); /* the thread's distances have begun */
	child = fork();
	note_samples(child ? both : both + COMPARED);
	if (child == 0)
		_exit(0);
	return waitpid(child, &status, 0) == child && status == 0 && memchr(both, 1, COMPARED) &&
	       memchr(both + COMPARED, 1, COMPARED) && memcmp(both, both + COMPARED, COMPARED) != 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[4];
	int status;
	pid_t child;

	if (argc > 1 && strcmp(argv[1], "fill") == 0)
		return fill() ? 0 : 1;
	if (argc > 1 && strcmp(argv[1], "fork") == 0)
		return child_differs() ? 0 : 1;
	site_small(NULL);
	if (argc > 1)
		return 0;
	site_large(NULL);
	site_aligned();
	site_long_lived();
	site_grown();
	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, site_thread, NULL))
			abort();
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	site_freed_later();
	child = fork();
	if (child == 0) {
		for (unsigned i = 0; i < used; i++)
			free(kept[i]);
		exit(0);
	}
	return waitpid(child, &status, 0) != child || status;
}
