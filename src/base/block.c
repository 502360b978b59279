/* SPDX-License-Identifier: MIT */
/* The blocks of threads, see block.h. */
#define _GNU_SOURCE
#include "base/block.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/identity.h"
#include "base/tsan.h"
#include "base/unique.h"
#include "base/valgrind.h"

#define BLOCKS 100 /* in a mapping of 64 KiB */
#define RESERVE 8

/* Of a block: the tid; 0: free; or of a thread whose end is not noticed; or of one that a child of
 * fork() does not have. */
#define UNKNOWN UINT32_MAX
#define LOST (UINT32_MAX - 1)

/* Of a mapping; the blocks follow. */
struct chunk {
	struct chunk *next;
	uint32_t owners[BLOCKS];
};
#define HEADER ((sizeof(struct chunk) + 63) & ~63ul)

/* Zero is valid. */
struct near__blocks {
	struct chunk *chunks; /* only grows */
	uint32_t process;     /* its number, see identity.h */
	uint32_t searching;   /* a thread searches for owners that have ended */
	uint32_t taken;       /* blocks, since the last search; a hint */
	uint32_t mapped;      /* blocks */
	/* Used when there is no memory. */
	struct chunk reserve;
	struct near__block reserved[RESERVE];
};
extern NEAR__DATA struct near__blocks near__blocks NEAR__STATE(near__blocks);

#define BLOCKS_SIZE 6080
_Static_assert(sizeof(struct near__blocks) == BLOCKS_SIZE, "near__blocks");
NEAR__UNIQUE(near__blocks, BLOCKS_SIZE);

static struct chunk *chunk_first(void)
{
	/* Acquire: pairs with the release in map_chunk. */
	struct chunk *c = __atomic_load_n(&near__blocks.chunks, __ATOMIC_ACQUIRE);

	NEAR__TSAN_ACQUIRE(&near__blocks.chunks);
	return c;
}

static bool is_reserve(const struct chunk *c)
{
	return c == &near__blocks.reserve;
}

static unsigned chunk_count(const struct chunk *c)
{
	return is_reserve(c) ? RESERVE : BLOCKS;
}

static struct near__block *block_of(struct chunk *c, unsigned i)
{
	void *blocks = is_reserve(c) ? (void *)near__blocks.reserved : (char *)c + HEADER;

	return (struct near__block *)blocks + i;
}

/* All chunks, the reserve last: from NULL to NULL. */
static struct chunk *chunk_next(const struct chunk *c)
{
	struct chunk *n = c ? c->next : chunk_first();

	return c && is_reserve(c) ? NULL : n ? n : &near__blocks.reserve;
}

/* ---- taking ---- */

static struct near__block *chunk_take_from(struct chunk *c, uint32_t owner)
{
	for (unsigned i = 0; i < chunk_count(c); i++) {
		uint32_t none = 0;

		/* Acquire: pairs with the release of what made it free. */
		if (__atomic_load_n(&c->owners[i], __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&c->owners[i], &none, owner, false,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		memset(block_of(c, i), 0, sizeof(struct near__block));
		__atomic_fetch_add(&near__blocks.taken, 1, __ATOMIC_RELAXED);
		return block_of(c, i);
	}
	return NULL;
}

static struct near__block *take_mapped(uint32_t owner)
{
	struct near__block *b = NULL;

	for (struct chunk *c = chunk_first(); c && !b; c = c->next)
		b = chunk_take_from(c, owner);
	return b;
}

/* The first block is the caller's before other threads find the chunk. */
static struct near__block *map_chunk(uint32_t owner)
{
	size_t size = HEADER + BLOCKS * sizeof(struct near__block);
	struct chunk *c =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (c == MAP_FAILED)
		return NULL;
	near__valgrind_ignore(c, size);
	c->owners[0] = owner;
	__atomic_fetch_add(&near__blocks.mapped, BLOCKS, __ATOMIC_RELAXED);
	__atomic_fetch_add(&near__blocks.taken, 1, __ATOMIC_RELAXED);
	c->next = chunk_first();
	/* Release: pairs with the acquire in chunk_first(). */
	do
		NEAR__TSAN_RELEASE(&near__blocks.chunks);
	while (!__atomic_compare_exchange_n(&near__blocks.chunks, &c->next, c, false,
					    __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
	return block_of(c, 0);
}

/* ---- threads that have ended ---- */

static uint32_t block_this_thread(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

static bool thread_exists(uint32_t tid)
{
	uint32_t pid = near__identity_pid(near__blocks.process);

	return syscall(SYS_tgkill, pid, tid, 0) == 0 || errno != ESRCH;
}

/* Not a child of vfork() or of a bare clone(). */
static bool is_known_process(void)
{
	return near__storage_is_own() && near__identity_is(near__blocks.process);
}

/* ThreadSanitizer does not learn that the system call orders what an ended thread has done before
 * what its successor does: there each thread has a block of its own. */
static void free_ended(void)
{
	uint32_t no = 0;

	if (NEAR__TSAN_HERE || !is_known_process() || !thread_exists(block_this_thread()) ||
	    /* Acquire: pairs with the release below. */
	    !__atomic_compare_exchange_n(&near__blocks.searching, &no, 1, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&near__blocks.taken, 0, __ATOMIC_RELAXED);
	for (struct chunk *c = chunk_next(NULL); c; c = chunk_next(c))
		for (unsigned i = 0; i < chunk_count(c); i++) {
			uint32_t owner = __atomic_load_n(&c->owners[i], __ATOMIC_RELAXED);

			if (owner && owner < LOST && !thread_exists(owner))
				/* Release: pairs with the acquire in chunk_take_from. */
				__atomic_store_n(&c->owners[i], 0, __ATOMIC_RELEASE);
		}
	__atomic_store_n(&near__blocks.searching, 0, __ATOMIC_RELEASE);
}

static bool is_time_to_search(void)
{
	return __atomic_load_n(&near__blocks.taken, __ATOMIC_RELAXED) >=
	       __atomic_load_n(&near__blocks.mapped, __ATOMIC_RELAXED) / 2;
}

static struct near__block *block_take(uint32_t owner)
{
	struct near__block *b = take_mapped(owner);

	if (!b && chunk_first() && is_time_to_search()) {
		free_ended();
		b = take_mapped(owner);
	}
	if (!b)
		b = map_chunk(owner);
	if (!b) {
		free_ended();
		b = take_mapped(owner);
	}
	return b ? b : chunk_take_from(&near__blocks.reserve, owner);
}

/* With signals blocked, but for the one by which near_torture and others execute single
 * instructions: the kernel ends a process that blocks it. Its handler may take the block here; and
 * two threads may be here with one storage, see NEAR__CLONED. The block of the slower one stays
 * taken. */
struct near__block *near__block_take(void)
{
	struct near__block *none = (struct near__block *)(uintptr_t)&near__no_block, *b;
	int saved = errno;
	sigset_t all, old;

	sigfillset(&all);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	b = near__self.block;
	if (b == none) {
		b = block_take(is_known_process() ? block_this_thread() : UNKNOWN);
		/* Relaxed: no other thread follows the pointer, but for those that clone()
		 * orders. */
		if (b && !__atomic_compare_exchange_n(&near__self.block, &none, b, false,
						      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			b = none;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return b;
}

/* ---- all of them ---- */

void near__blocks_visit(void (*visit)(const struct near__block *b, void *arg), void *arg)
{
	for (struct chunk *c = chunk_next(NULL); c; c = chunk_next(c))
		for (unsigned i = 0; i < chunk_count(c); i++) {
			uint32_t owner = __atomic_load_n(&c->owners[i], __ATOMIC_RELAXED);

			if (owner && owner != LOST)
				visit(block_of(c, i), arg);
		}
}

/* Another copy of the library may have recorded it, and a fork may have changed it since. */
void near__blocks_begin(void)
{
	if (!near__blocks.process)
		near__blocks.process = near__identity_begin();
}

/* The process has one thread, whose signals may be handled here; none of the handlers is within
 * near__block_take. One that takes a block finds it free: so the owner is loaded first, and then
 * the thread's block, each time. */
void near__blocks_fork_child(void)
{
	uint32_t own = block_this_thread();

	for (struct chunk *c = chunk_next(NULL); c; c = chunk_next(c))
		for (unsigned i = 0; i < chunk_count(c); i++) {
			uint32_t owner = __atomic_load_n(&c->owners[i], __ATOMIC_RELAXED);

			__atomic_signal_fence(__ATOMIC_SEQ_CST);
			if (block_of(c, i) == near__self.block)
				c->owners[i] = own;
			else if (owner)
				c->owners[i] = NEAR__TSAN_HERE ? LOST : 0;
		}
	near__blocks.searching = 0;
	near__blocks.process = near__identity_fork_child();
}

NEAR__BEFORE_PROGRAM static void block_ignore_races(void)
{
	near__valgrind_ignore(&near__blocks, sizeof(near__blocks));
}
