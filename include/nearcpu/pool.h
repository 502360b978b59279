/* SPDX-License-Identifier: MIT */
/* near_pool: objects of one type, constructed, for reuse; an array of idle ones per slot.
 *
 * An object is constructed once, and stays so while it is idle: get returns it as put left it. At
 * most `max_idle` objects are idle in the whole process, wherever they flow; put destructs what
 * exceeds that. What is put while another call holds the pool's lock may exceed it until that call
 * ends.
 *
 * Cost:      get and put about 1 ns each, no atomic instruction, and no access to the object.
 *            One in `batch` calls moves that many between slots, under a lock. drain, trim: one
 *            membarrier or more, which interrupt all CPUs that run this process, for 32 slots.
 * Memory:    no header: an object's size, rounded up to its alignment, and to 8. For each slot in
 *            use up to 16 batches of pointers, for all a pointer to each idle object.
 *            Objects are in chunks of 64 KiB, larger ones 8 to 16 in a chunk; a chunk without
 *            objects goes back to the system.
 * Safety:    any thread. put, try_get: signal handlers too (they call the destructor
 *            beyond the cap: it must then be safe there). A signal handler that interrupts a call
 *            must return: after siglongjmp(3) the waiter, which is on the stack, stays in its
 *            queue, and a lock may stay held. errno is left alone. Fork: the child keeps its copy
 *            of every object; what vanished threads had in use stays in use, and what they moved
 *            between slots or destructed at that moment, too.
 * Order:     a get sees what was written to the object before its put.
 * Errors:    get: NULL, and errno is left alone; near_pool_get_until returns the reason. put of
 *            what is in no pool or in another one stops the program. So does a second put of an
 *            object with NEAR_CONF=pool_check:1, with which each call takes a slow path; without it
 *            two gets may return the same object.
 * Fallback:  without rseq as many shared arrays as CPUs, each under a lock; for single threads
 *            without it, one such list for all. get and put together take 25 ns then, with one list
 *            under a mutex 21 (AMD EPYC, Turin).
 *
 * Concurrent with:   get  put  drain, trim  stats   destroy
 *            each    yes  yes      yes       yes      no
 *
 *     struct near_pool pool;
 *     struct near_pool_options options = {.construct = open_buffers, .destruct = close_buffers};
 *     near_pool_init(&pool, sizeof(struct connection), &options);
 *     struct connection *c = near_pool_get(&pool);
 *     near_pool_put(&pool, c);
 *     near_pool_destroy(&pool);
 *
 * Source: Jeff Bonwick, "The Slab Allocator" (1994), with Adams, "Magazines and Vmem" (2001), and
 * the transfer cache of the drop-in malloc, whose sequences these are (src/cache/). Differs in the
 * one cap over all CPUs, of which each has a fixed part, so that no operation counts for it.
 */
#ifndef NEARCPU_POOL_H
#define NEARCPU_POOL_H

#include <nearcpu/detail/blocks.h>
#include <nearcpu/cancel.h>
#include <nearcpu/percpu.h>
#include <time.h>

NEAR__BEGIN_DECLS

#define NEAR_POOL_MAX_SIZE ((size_t)1 << 20)
#define NEAR_POOL_MAX_ALIGN ((size_t)4096)
#define NEAR_POOL_MAX_BATCH 128u

/* 0 or NULL: the default. */
struct near_pool_options {
	size_t align; /* a power of two up to NEAR_POOL_MAX_ALIGN; default 16 */
	/* Make an object of memory with undefined content, and the reverse; `arg` is that of the
	 * options. construct returns 0 or a negative errno. Called without a lock; may use this
	 * pool. */
	int (*construct)(void *object, void *arg);
	void (*destruct)(void *object, void *arg);
	void *arg;
	/* Idle objects, over all slots; default 32 batches for each of near_slots(). A slot keeps
	 * up to half of its share of them, and at most 16 batches; the list between the slots has
	 * room for the rest. With less than 8 batches for each slot, batches become shorter; with
	 * no more objects than slots, slots keep none, and each call takes a lock. */
	size_t max_idle;
	unsigned batch; /* 1 to NEAR_POOL_MAX_BATCH; default: 16 KiB of objects, at most 64 */
	/* Objects, idle or in use, exactly; default: 16 GiB of them, or what address space allows.
	 * Address space is reserved for this number, memory is not. A get fails only if none is
	 * idle in any slot; after the first that finds this number reached, slots keep none, and
	 * each call takes a lock. */
	size_t max_objects;
	uint64_t reserved[4]; /* 0 */
};

/* Private. `size`: what is put at offsets below it takes the fast path; 0 with pool_check. */
struct near_pool {
	struct near__array *array; /* percpu */
	uintptr_t base;
	uint64_t size;
	struct near__pool *rest;
};

/* Makes a pool of objects of `size` bytes, 1 to NEAR_POOL_MAX_SIZE; `options` may be NULL.
 * Returns 0; -EINVAL: the size is 0, the alignment no power of two, or a reserved word not 0;
 * -E2BIG: the size, the alignment or the batch is above its maximum, or `max_objects` is more than
 * can be numbered; -ENOMEM: no memory or address space. */
NEAR_API int near_pool_init(struct near_pool *pool, size_t size,
			    const struct near_pool_options *options);

/* Destructs the idle objects, and gives the memory of all objects back. Requires that no operation
 * runs, and that no object is in use: with pool_check:1 one in use stops the program. */
NEAR_API void near_pool_destroy(struct near_pool *pool);

NEAR_API void *near__pool_get_slow(struct near_pool *pool);
NEAR_API void *near__pool_try_get_slow(struct near_pool *pool);
NEAR_API void near__pool_put_slow(struct near_pool *pool, void *object);

NEAR__INLINE void *near__pool_pop(struct near_pool *pool)
{
	uint64_t word;

	if (__builtin_expect(!near__array_pop(pool->array, &word), 0))
		return NULL;
	return (void *)(uintptr_t)word;
}

/* Returns an object. NULL: no memory, as many objects exist as may, or the constructor failed. May
 * wait for a lock, and call the constructor. */
NEAR_INLINE void *near_pool_get(struct near_pool *pool)
{
	void *object;

	NEAR__CHECK_READY(pool->array, pool);
	object = near__pool_pop(pool);
	if (__builtin_expect(!object, 0))
		object = near__pool_get_slow(pool);
	if (object)
		NEAR__TSAN_ACQUIRE(object);
	return object;
}

/* Returns an idle object, or NULL if none can be had without waiting. */
NEAR_INLINE void *near_pool_try_get(struct near_pool *pool)
{
	void *object;

	NEAR__CHECK_READY(pool->array, pool);
	object = near__pool_pop(pool);
	if (__builtin_expect(!object, 0))
		object = near__pool_try_get_slow(pool);
	if (object)
		NEAR__TSAN_ACQUIRE(object);
	return object;
}

/* As near_pool_get; but if as many objects exist as may (options.max_objects), waits until one can
 * be had: *object, and 0. Else *object is NULL: -ETIMEDOUT when the deadline (absolute; NULL: none)
 * has passed by `clock` (CLOCK_MONOTONIC, _REALTIME, _BOOTTIME), -ECANCELED when `cancel` (NULL:
 * none) is set; -EINTR: `clock` has NEAR_INTERRUPTIBLE (cancel.h), and a signal handler ran; what
 * the constructor returned; -ENOMEM; -EINVAL: unknown clock, or an invalid deadline. What
 * needs no wait is done in any case. Other gets may overtake one that waits. */
NEAR_API int near_pool_get_until(struct near_pool *pool, void **object, int clock,
				 const struct timespec *deadline, struct near_cancel *cancel);

/* Makes an object idle; NULL is ignored. Never waits. */
NEAR_INLINE void near_pool_put(struct near_pool *pool, void *object)
{
	NEAR__CHECK_READY(pool->array, pool);
	NEAR__TSAN_RELEASE(object);
	if (__builtin_expect((uintptr_t)object - pool->base >= pool->size, 0) ||
	    __builtin_expect(!near__array_push(pool->array, (uintptr_t)object), 0))
		near__pool_put_slow(pool, object);
}

/* Gets n objects. Returns how many it stored: n, or as many as near_pool_get could. */
NEAR_API size_t near_pool_get_many(struct near_pool *pool, void **objects, size_t n);

/* Puts n objects. */
NEAR_API void near_pool_put_many(struct near_pool *pool, void *const *objects, size_t n);

/* Destructs all objects that are idle at some moment during the call; returns how many. */
NEAR_API size_t near_pool_drain(struct near_pool *pool);

/* Destructs the objects that nobody used since the last trim, the oldest; returns how many. Called
 * each minute, it leaves as many connections as one minute needs. Slots are empty after it, as far
 * as the list between them has room. */
NEAR_API size_t near_pool_trim(struct near_pool *pool);

/* Later versions add fields at the end. Numbers that change while they are read are about right. */
struct near_pool_stats {
	size_t stride;        /* bytes from an object to the next */
	size_t max_idle;      /* as it was chosen, or the default */
	unsigned batch;       /* likewise, perhaps made shorter */
	uint64_t objects;     /* in use and idle */
	uint64_t idle;        /* in all lists */
	uint64_t constructed; /* so far */
	uint64_t destructed;
	uint64_t memory; /* bytes of the chunks that have objects */
};

/* Fills *out, of which the caller knows `size` bytes. Returns 0; -EINVAL: size is 0. */
NEAR_API int near_pool_stats(const struct near_pool *pool, struct near_pool_stats *out,
			     size_t size);

NEAR__END_DECLS

#endif
