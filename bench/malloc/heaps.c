/* SPDX-License-Identifier: MIT */
/* heaps: what the loop is compared with besides whole allocators: heaps that a program could build
 * without sequences, and functions that do nothing.
 *
 * The heap is the same in both: free lists by size, carved from pages; each block knows its heap by
 * a word in front, since any thread may free it. Larger blocks than the loop's are not served. */
#include "malloc/pattern.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#define SHARDS 32
#define STEP 16
#define LARGEST 256
#define SLAB ((size_t)64 * 1024)

struct shard {
	_Alignas(128) pthread_mutex_t lock;
	struct block *free[LARGEST / STEP + 1];
	char *slab;
	size_t left;
};

struct block {
	struct shard *shard;
	size_t list;
	struct block *next; /* while it is free; else what the program has begins here */
};

#define HEAD offsetof(struct block, next)

static struct block *carve(struct shard *s, size_t list)
{
	size_t size = HEAD + (list ? list : 1) * STEP;
	struct block *b;

	if (s->left < size) {
		s->slab = mmap(NULL, SLAB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
		if (s->slab == MAP_FAILED)
			return NULL;
		s->left = SLAB;
	}
	b = (struct block *)s->slab;
	s->slab += size;
	s->left -= size;
	*b = (struct block){s, list, NULL};
	return b;
}

static void *shard_alloc(struct shard *s, size_t n)
{
	size_t list = (n + STEP - 1) / STEP;
	struct block *b;

	if (n > LARGEST)
		return NULL;
	pthread_mutex_lock(&s->lock);
	b = s->free[list];
	if (b)
		s->free[list] = b->next;
	else
		b = carve(s, list);
	pthread_mutex_unlock(&s->lock);
	return b ? &b->next : NULL;
}

static void shard_free(void *p)
{
	struct block *b = (struct block *)((char *)p - HEAD);
	struct shard *s = b->shard;

	pthread_mutex_lock(&s->lock);
	b->next = s->free[b->list];
	s->free[b->list] = b;
	pthread_mutex_unlock(&s->lock);
}

static struct shard shards[SHARDS] = {[0 ... SHARDS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

static void *sharded_alloc(size_t n)
{
	return shard_alloc(&shards[(unsigned)sched_getcpu() % SHARDS], n);
}

/* Never given back: another thread may still have blocks of it. */
static struct shard *shard_of_thread(void)
{
	static __thread struct shard *own;
	struct shard *s = own;

	if (!s) {
		s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
		if (s == MAP_FAILED)
			die("no memory");
		pthread_mutex_init(&s->lock, NULL);
		own = s;
	}
	return s;
}

static void *thread_alloc(size_t n) { return shard_alloc(shard_of_thread(), n); }

static void *null_alloc(size_t n)
{
	static char block[LARGEST];

	__asm__ volatile("" ::"r"(n));
	return block;
}

static void null_free(void *p) { __asm__ volatile("" ::"r"(p)); }

const struct heap *heap_find(const char *name)
{
	static const struct heap heaps[] = {
		{"malloc", malloc, free},
		{"sharded", sharded_alloc, shard_free},
		{"thread", thread_alloc, shard_free},
		{"null", null_alloc, null_free},
	};

	for (size_t i = 0; i < sizeof(heaps) / sizeof(heaps[0]); i++)
		if (strcmp(heaps[i].name, name) == 0)
			return &heaps[i];
	return NULL;
}
