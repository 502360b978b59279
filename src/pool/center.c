/* SPDX-License-Identifier: MIT */
/* The center of a pool: objects that wait for a slot, and where objects begin and end. */
#include <errno.h>
#include <string.h>

#include "percpu/gate.h"
#include "pool/pool.h"

#define AT_ONCE 32 /* slots that are closed together */

static void add(uint64_t *statistic, uint64_t n)
{
	__atomic_fetch_add(statistic, n, __ATOMIC_RELAXED); /* orders nothing */
}

/* Release: pairs with the acquire in collect. A sequence or a lock orders who had an object before,
 * and read or wrote its link then. */
static void push_returned(struct near__pool *p, const uint64_t *words, unsigned n)
{
	uint64_t head = __atomic_load_n(&p->returned, __ATOMIC_RELAXED);

	if (!n)
		return;
	for (unsigned i = 0; i < n; i++)
		NEAR__TSAN_ACQUIRE((void *)(uintptr_t)(words[i] & ~NEAR__POOL_RAW));
	for (unsigned i = 0; i + 1 < n; i++)
		*near__pool_link(p, words[i]) = words[i + 1];
	do {
		*near__pool_link(p, words[n - 1]) = head;
		NEAR__TSAN_RELEASE(&p->returned);
	} while (!__atomic_compare_exchange_n(&p->returned, &head, words[0], true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

/* The fence: a thread that has pushed then loads the lock's word, one that has released the lock
 * then loads the list. One of the two finds what the other stored (models/pool.cc). */
static bool is_pending(const struct near__pool *p)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&p->returned, __ATOMIC_RELAXED) != 0;
}

/* ---- with the lock ---- */

static unsigned keep(struct near__pool *p, const uint64_t *objects, unsigned n)
{
	if (n > p->center - p->count)
		n = (unsigned)(p->center - p->count);
	memcpy(&p->idle[p->count], objects, n * sizeof(*objects));
	p->count += n;
	return n;
}

static unsigned take(struct near__pool *p, uint64_t *objects, unsigned want)
{
	unsigned n = want < p->count ? want : (unsigned)p->count;

	p->count -= n;
	memcpy(objects, &p->idle[p->count], n * sizeof(*objects));
	return n;
}

/* Moves what is on `returned` to the center and to the chunks. Returns the objects for which the
 * center has no room: the first, linked as before; 0: none. */
static uint64_t collect(struct near__pool *p)
{
	uint64_t word = 0, over = 0, next;

	if (__atomic_load_n(&p->returned, __ATOMIC_RELAXED))
		word = __atomic_exchange_n(&p->returned, 0, __ATOMIC_ACQUIRE);
	NEAR__TSAN_ACQUIRE(&p->returned);
	for (; word; word = next) {
		next = *near__pool_link(p, word);
		if (word & NEAR__POOL_RAW) {
			near__pool_raw_give(p, word & ~NEAR__POOL_RAW);
		} else if (!keep(p, &word, 1)) {
			*near__pool_link(p, word) = over;
			over = word;
		}
	}
	return over;
}

/* ---- without the lock ---- */

static void return_memory(struct near__pool *p, uint64_t *objects, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		objects[i] |= NEAR__POOL_RAW;
	push_returned(p, objects, n);
}

static void end_objects(struct near__pool *p, uint64_t *objects, unsigned n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n; i++) {
		NEAR__TSAN_ACQUIRE((void *)(uintptr_t)objects[i]);
		if (p->options.destruct)
			p->options.destruct((void *)(uintptr_t)objects[i], p->options.argument);
	}
	add(&p->destructed, n);
	return_memory(p, objects, n);
}

static size_t end_list(struct near__pool *p, uint64_t object)
{
	size_t n = 0;

	for (; object; n++) {
		uint64_t next = *near__pool_link(p, object);

		end_objects(p, &object, 1);
		object = next;
	}
	return n;
}

/* Moves what is on `returned`, unless another thread has the lock and will. A destructor may add to
 * it. */
static void settle(struct near__pool *p)
{
	while (is_pending(p) && near_lock_try_lock(p->lock)) {
		uint64_t over = collect(p);

		near_lock_unlock(p->lock);
		end_list(p, over);
	}
}

void near__pool_give(struct near__pool *p, uint64_t *objects, unsigned n)
{
	if (near_lock_try_lock(p->lock)) {
		unsigned kept = keep(p, objects, n);

		near_lock_unlock(p->lock);
		end_objects(p, objects + kept, n - kept);
	} else {
		push_returned(p, objects, n);
	}
	settle(p);
}

/* Constructs n objects. The memory of one that fails, and of the rest, stays memory. */
static unsigned make_objects(struct near__pool *p, uint64_t *objects, unsigned n, int *error)
{
	unsigned made = 0;

	*error = n ? 0 : ENOMEM;
	for (; made < n; made++) {
		void *object = (void *)(uintptr_t)objects[made];

		if (p->options.construct)
			*error = p->options.construct(object, p->options.argument);
		if (*error)
			break;
		NEAR__TSAN_RELEASE(object);
	}
	add(&p->constructed, made);
	return_memory(p, objects + made, n - made);
	return made;
}

unsigned near__pool_fetch(struct near__pool *p, uint64_t *objects, unsigned want, bool wait,
			  int *error)
{
	unsigned n, raw = 0;
	uint64_t over;

	*error = 0;
	if (wait)
		near_lock_lock(p->lock);
	else if (!near_lock_try_lock(p->lock))
		return 0;
	over = collect(p);
	n = take(p, objects, want);
	if (!n && wait)
		raw = near__pool_raw_take(p, objects, want);
	near_lock_unlock(p->lock);
	end_list(p, over);
	if (!n && wait)
		n = make_objects(p, objects, raw, error);
	settle(p);
	return n;
}

/* ---- what slots have ---- */

static void empty_fallback(struct near__pool *p, struct near__pool_slot *s)
{
	struct near_lock *lock = near__pool_lock_of(p, s);

	near_lock_lock(lock);
	push_returned(p, s->objects, near__pool_count(s->array.position));
	__atomic_store_n(&s->array.position, NEAR__EMPTY_LIST, __ATOMIC_RELAXED);
	near_lock_unlock(lock);
}

/* cache/close.c has the protocol. The lock of all closers is held from the first close to the last
 * open, so that no process is forked with a closed slot. A slot that is closed for ever (in a
 * process that a bare clone made) has no objects. */
static void empty_slots(struct near__pool *p)
{
	struct near__closing items[AT_ONCE];
	unsigned n, slot = 0;

	near__gates_lock();
	do {
		for (n = 0; n < AT_ONCE && near_percpu_next(p->slots, &slot); slot++) {
			struct near__pool_slot *s = near__pool_slot(p, slot);

			if (near_percpu_is_fallback(slot))
				empty_fallback(p, s);
			else if (__atomic_load_n(&s->array.position, __ATOMIC_RELAXED))
				items[n++] = (struct near__closing){.word = &s->array.position};
		}
		near__bins_close(items, n);
		for (unsigned i = 0; i < n; i++) {
			struct near__pool_slot *s = (struct near__pool_slot *)items[i].word;

			push_returned(p, s->objects, near__pool_count(items[i].was));
			near__bin_open_empty(&items[i]);
		}
	} while (n == AT_ONCE);
	near__gates_unlock();
}

void near__pool_gather(struct near__pool *p)
{
	empty_slots(p);
	settle(p);
}

size_t near_pool_drain(struct near_pool *pool)
{
	uint64_t objects[NEAR_POOL_MAX_BATCH], over;
	struct near__pool *p = pool->rest;
	int saved = errno;
	size_t all = 0;
	unsigned n;

	empty_slots(p);
	do {
		near_lock_lock(p->lock);
		over = collect(p);
		n = take(p, objects, p->options.batch);
		near_lock_unlock(p->lock);
		all += n + end_list(p, over);
		end_objects(p, objects, n);
	} while (n);
	settle(p);
	errno = saved;
	return all;
}
