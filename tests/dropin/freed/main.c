/* SPDX-License-Identifier: MIT */
/* usage: freed [PLUGIN]
 * The lock-order checker (NEAR_CONF=lock_check:2) and our malloc in one process: objects with locks
 * are freed without a destroy, and their addresses are used again. OWN: near_malloc. PLUGIN has the
 * locks, and is opened after the first frees. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locks.h"

#ifdef OWN
#include <nearcpu/malloc.h>
#define malloc near_malloc
#define free near_free
#define realloc near_realloc
#define aligned_alloc near_aligned_alloc
#define new near_malloc
#define delete near_free
#define HAS_NEW 1
#else
void *new (size_t n) __asm__("_Znwm");
void delete (void *p) __asm__("_ZdlPv");
#pragma weak new
#pragma weak delete
#define HAS_NEW (new != NULL)
#endif

#define ROUNDS 64

static const struct locks *locks;

struct pair {
	void *first, *second;
};

static void *in_order(void *arg)
{
	const struct pair *p = arg;

	locks->lock(p->first);
	locks->lock(p->second);
	locks->unlock(p->second);
	locks->unlock(p->first);
	return NULL;
}

/* By two threads, so that a cycle stops the program. */
static void use(void *first, void *second)
{
	struct pair p = {first, second};
	pthread_t t;

	in_order(&p);
	if (pthread_create(&t, NULL, in_order, &p))
		abort();
	pthread_join(t, NULL);
}

/* In the other order in each second round: the last locks of one are the first of the next one. */
static void use_block(char *p, size_t size, unsigned round)
{
	char *last = p + size - 8;

	memset(p, 0, 8);
	memset(last, 0, 8);
	use(round % 2 ? p : last, round % 2 ? last : p);
}

static void use_blocks(unsigned round)
{
	static const size_t sizes[] = {16, 500, 70000, 700000};

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		char *p = malloc(sizes[i]);

		use_block(p, sizes[i], round);
		free(p);
		p = aligned_alloc(256, 256 * (i + 1));
		use_block(p, 256 * (i + 1), round);
		p = realloc(p, sizes[i]);
		use_block(p, sizes[i], round);
		free(p);
		if (!HAS_NEW)
			continue;
		p = new (sizes[i]);
		use_block(p, sizes[i], round);
		delete (p);
	}
}

/* What is not freed is reported. */
static int is_checked(void)
{
	static char a[8], b[8];
	int status;
	pid_t child = fork();

	if (child == 0) {
		close(2);
		use(a, b);
		use(b, a);
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
	       WTERMSIG(status) == SIGABRT;
}

static const struct locks *open_locks(const char *plugin)
{
	void *handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	return handle ? dlsym(handle, "near_test_locks") : NULL;
}

int main(int argc, char **argv)
{
	free(malloc(100));
#ifdef OPENS
	locks = argc > 1 ? open_locks(argv[1]) : NULL;
#else
	(void)open_locks;
	locks = &near_test_locks;
#endif
	if (!locks)
		return 1;
	for (unsigned round = 0; round < ROUNDS; round++)
		use_blocks(round);
	return is_checked() ? 0 : 2;
}
