/* SPDX-License-Identifier: MIT */
/* The slow paths of near_pool. pool/pool.h has the rules. */
#include <nearcpu/pool.h>

#include <errno.h>

#include "pool/pool.h"

/* ---- this thread's slot ---- */

/* Makes this thread's slot ready for a try. NULL: it has none, or the slot is closed or could not
 * begin. `end` is constant. Without rseq: the array of this CPU. */
static struct near__pool_slot *open_own(struct near__pool *p)
{
	struct near__pool_slot *own;
	uint64_t position;
	uint32_t slot;

	if (!p->room)
		return NULL;
	slot = near__slot_open(p->slots);
	if (slot == NEAR__NO_SLOT && near__process.usable)
		return NULL;
	own = slot == NEAR__NO_SLOT ? near__fallback(p->slots) : near__pool_slot(p, slot);
	__atomic_store_n(&own->array.end, NEAR__EMPTY_LIST + p->room * sizeof(uint64_t),
			 __ATOMIC_RELAXED);
	position = __atomic_load_n(&own->array.position, __ATOMIC_RELAXED);
	if (position == NEAR__UNUSED_LIST) {
		near__pool_begin_array(p, own);
		position = __atomic_load_n(&own->array.position, __ATOMIC_RELAXED);
	}
	return position == NEAR__UNUSED_LIST || position == NEAR__CLOSED_LIST ? NULL : own;
}

static uint32_t count_of(const struct near__pool_slot *s)
{
	return near__pool_count(__atomic_load_n(&s->array.position, __ATOMIC_RELAXED));
}

/* Without rseq: each step is under a lock, one of those that a fork holds. False: the lock is held,
 * or the array is full or empty. */
static bool step_locked(struct near__pool *p, uint64_t *word, bool push)
{
	struct near__pool_slot *own = near__fallback(p->slots);
	struct near_lock *lock = near__pop_lock_of(p->slots, own);
	uint64_t position;
	uint32_t n;
	bool can;

	if (!near_lock_try_lock(lock))
		return false;
	position = __atomic_load_n(&own->array.position, __ATOMIC_RELAXED);
	n = near__pool_count(position);
	/* Relaxed: a thread that makes the pool scarce finds all arrays that have begun, and takes
	 * this lock after it. */
	if (push)
		can = position != NEAR__UNUSED_LIST && n < p->room &&
		      !__atomic_load_n(&p->scarce, __ATOMIC_RELAXED);
	else
		can = n > 0;
	if (can && push)
		own->objects[n++] = *word;
	else if (can)
		*word = own->objects[--n];
	if (can)
		__atomic_store_n(&own->array.position, NEAR__EMPTY_LIST + n * sizeof(uint64_t),
				 __ATOMIC_RELAXED);
	near_lock_unlock(lock);
	return can;
}

static bool slot_push(struct near__pool *p, uint64_t word)
{
	return near__process.usable ? near__array_push(&p->slots->array, word)
				    : step_locked(p, &word, true);
}

static bool slot_pop(struct near__pool *p, uint64_t *word)
{
	return near__process.usable ? near__array_pop(&p->slots->array, word)
				    : step_locked(p, word, false);
}

/* Takes up to a batch of the slot's objects, in steps of sixteen if it has sixteen. */
static unsigned take_some(struct near__pool *p, uint64_t *objects)
{
	unsigned n = 0, batch = p->options.batch;

	while (n + NEAR__ARRAY_MOVED <= batch &&
	       near__array_take16(&p->slots->array, objects + n) == NEAR__COMMITTED)
		n += NEAR__ARRAY_MOVED;
	if (n)
		return n;
	while (n < batch && slot_pop(p, &objects[n]))
		n++;
	return n;
}

/* Puts n objects into the slot, the last ones first, and those for which it has no room into the
 * center. The caller is counted in `moving`, and is not after this. */
static void put_some(struct near__pool *p, uint64_t *objects, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		NEAR__TSAN_RELEASE((void *)(uintptr_t)objects[i]);
	while (n >= NEAR__ARRAY_MOVED &&
	       near__array_put16(&p->slots->array, objects + n - NEAR__ARRAY_MOVED) ==
		       NEAR__COMMITTED)
		n -= NEAR__ARRAY_MOVED;
	while (n && slot_push(p, objects[n - 1]))
		n--;
	if (n)
		near__pool_give(p, objects, n, true);
	else
		near__pool_moves(p, -1);
}

/* ---- get ---- */

/* Stores 1 object or more, at most a batch and one: of the slot, of the center, or new ones. 0:
 * *error is why, or there is none without waiting. */
static unsigned objects_find(struct near__pool *p, uint64_t *objects, bool wait, int *error)
{
	bool is_empty = false; /* this thread's slot, which then gets a batch */
	struct near__pool_slot *own;
	unsigned n;

	*error = 0;
	NEAR__TRY_WHILE(!is_empty && (own = open_own(p))) {
		if (slot_pop(p, objects))
			return 1;
		is_empty = count_of(own) == 0;
	}
	for (;;) {
		/* Before the search, so that a failure is final. */
		bool closed = near__pool_scarce(p) == NEAR__POOL_CLOSED;

		n = near__pool_fetch(p, objects, is_empty ? p->options.batch + 1 : 1, wait, error);
		if (n || closed || *error != NEAR__POOL_REACHED)
			break;
		near__pool_become_scarce(p);
	}
	if (n || *error != -ENOMEM)
		return n;
	near__pool_gather(p);
	return near__pool_fetch(p, objects, 1, wait, error);
}

static void *object_used(const struct near__pool *p, uint64_t object)
{
	if (p->check)
		__atomic_store_n(near__pool_in_use(p, object), 1, __ATOMIC_RELAXED);
	return (void *)(uintptr_t)object;
}

static void *object_get(struct near__pool *p, bool wait, int *error)
{
	uint64_t objects[NEAR_POOL_MAX_BATCH + 1];
	unsigned n = objects_find(p, objects, wait, error);

	if (!n)
		return NULL;
	if (n > 1)
		put_some(p, objects, n - 1);
	return object_used(p, objects[n - 1]);
}

void *near__pool_get_slow(struct near_pool *pool)
{
	int saved = errno, unused;
	struct near__pool *p = pool->rest;
	uint64_t word;
	void *object;

	if (!near__process.usable && slot_pop(p, &word))
		return object_used(p, word);
	object = object_get(p, true, &unused);
	errno = saved;
	return object;
}

/* Counted in `waiters`. */
static int wait_for_object(struct near__pool *p, void **object, int clock,
			   const struct timespec *deadline, struct near_cancel *cancel)
{
	int r = 0, error;

	for (;;) {
		/* Pairs with the fence in center_wake: what this try does not find was returned by
		 * a thread that finds this waiter, without a ticket. */
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		*object = object_get(p, true, &error);
		if (*object || error != NEAR__POOL_REACHED || r)
			break;
		r = near_sem_wait_until(&p->tickets, clock, deadline, cancel);
	}
	if (*object)
		return 0;
	return error == NEAR__POOL_REACHED ? r : error;
}

int near_pool_get_until(struct near_pool *pool, void **object, int clock,
			const struct timespec *deadline, struct near_cancel *cancel)
{
	struct near__pool *p = pool->rest;
	int saved = errno, error = 0, r;

	*object = near__pool_pop(pool);
	if (!*object)
		*object = object_get(p, true, &error);
	r = *object ? 0 : error;
	if (!*object && error == NEAR__POOL_REACHED) {
		__atomic_fetch_add(&p->waiters, 1, __ATOMIC_RELAXED); /* the fence orders it */
		r = wait_for_object(p, object, clock, deadline, cancel);
		__atomic_fetch_sub(&p->waiters, 1, __ATOMIC_RELAXED);
	}
	if (*object)
		NEAR__TSAN_ACQUIRE(*object);
	errno = saved;
	return r;
}

void *near__pool_try_get_slow(struct near_pool *pool)
{
	int saved = errno, unused;
	void *object = object_get(pool->rest, false, &unused);

	errno = saved;
	return object;
}

size_t near_pool_get_many(struct near_pool *pool, void **objects, size_t n)
{
	uint64_t some[NEAR__ARRAY_MOVED];
	size_t got = 0;

	while (got < n) {
		if (n - got < NEAR__ARRAY_MOVED ||
		    near__array_take16(pool->array, some) != NEAR__COMMITTED) {
			objects[got] = near_pool_get(pool);
			if (!objects[got++])
				return got - 1;
			continue;
		}
		for (unsigned i = 0; i < NEAR__ARRAY_MOVED; i++) {
			objects[got] = (void *)(uintptr_t)some[i];
			NEAR__TSAN_ACQUIRE(objects[got]);
			got++;
		}
	}
	return got;
}

/* ---- put ---- */

/* With pool_check the exchange makes one thread of several the one that puts the object. */
static void object_check(const struct near__pool *p, uint64_t object)
{
	if (!near__pool_has(p, object))
		near__die("near_pool_put: not an object of this pool");
	if (p->check && !__atomic_exchange_n(near__pool_in_use(p, object), 0, __ATOMIC_RELAXED))
		near__die("near_pool_put: the object is idle already");
}

static void object_put(struct near__pool *p, uint64_t object)
{
	uint64_t objects[NEAR_POOL_MAX_BATCH];
	struct near__pool_slot *own;

	NEAR__TRY_WHILE((own = open_own(p))) {
		if (slot_push(p, object))
			return;
		if (count_of(own) < p->room) /* the push was aborted */
			continue;
		near__pool_moves(p, 1);
		near__pool_give(p, objects, take_some(p, objects), true);
	}
	near__pool_give(p, &object, 1, false);
}

void near__pool_put_slow(struct near_pool *pool, void *object)
{
	int saved = errno;

	/* Without rseq this is the common case, with the check that the inline one has. */
	if (!near__process.usable && (uintptr_t)object - pool->base < pool->size &&
	    slot_push(pool->rest, (uintptr_t)object))
		return;
	if (!object)
		return;
	object_check(pool->rest, (uintptr_t)object);
	object_put(pool->rest, (uintptr_t)object);
	errno = saved;
}

void near_pool_put_many(struct near_pool *pool, void *const *objects, size_t n)
{
	struct near__pool *p = pool->rest;
	uint64_t some[NEAR__ARRAY_MOVED];

	for (; n >= NEAR__ARRAY_MOVED && !p->check; n -= NEAR__ARRAY_MOVED) {
		for (unsigned i = 0; i < NEAR__ARRAY_MOVED; i++) {
			some[i] = (uintptr_t)objects[i];
			NEAR__TSAN_RELEASE(objects[i]);
			object_check(p, some[i]);
		}
		if (near__array_put16(&p->slots->array, some) != NEAR__COMMITTED)
			break;
		objects += NEAR__ARRAY_MOVED;
	}
	for (; n; n--)
		near_pool_put(pool, *objects++);
}
