/* SPDX-License-Identifier: MIT */
/* The center of a pool: objects that wait for a slot, and where objects begin and end. */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/spin.h"
#include "percpu/gate.h"
#include "pool/pool.h"

#define AT_ONCE 32 /* slots that are closed together */
#define PAUSE_NS 100000

static void statistic_add(uint64_t *statistic, uint64_t n)
{
	__atomic_fetch_add(statistic, n, __ATOMIC_RELAXED); /* orders nothing */
}

/* Release: pairs with the acquire in center_collect. A sequence or a lock orders this after the
 * thread that had an object before, and read or wrote its link then. */
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

static unsigned center_keep(struct near__pool *p, const uint64_t *objects, unsigned n)
{
	/* Relaxed: stored with the lock. The arrays of a scarce pool keep nothing. */
	size_t room = __atomic_load_n(&p->scarce, __ATOMIC_RELAXED) ? p->options.max_idle
								    : p->center;

	if (n > room - p->count)
		n = (unsigned)(room - p->count);
	memcpy(&p->idle[p->count], objects, n * sizeof(*objects));
	p->count += n;
	return n;
}

static unsigned center_take(struct near__pool *p, uint64_t *objects, unsigned want)
{
	unsigned n = want < p->count ? want : (unsigned)p->count;

	p->count -= n;
	p->low = p->count < p->low ? p->count : p->low;
	memcpy(objects, &p->idle[p->count], n * sizeof(*objects));
	return n;
}

/* Takes the first n, which were put before the others, for end_list. */
static uint64_t center_take_oldest(struct near__pool *p, size_t n)
{
	uint64_t list = 0;

	for (size_t i = 0; i < n; i++) {
		*near__pool_link(p, p->idle[i]) = list;
		list = p->idle[i];
	}
	p->count -= n;
	memmove(p->idle, p->idle + n, p->count * sizeof(*p->idle));
	return list;
}

/* Moves what is on `returned` to the center and to the chunks. Returns the objects for which the
 * center has no room: the first, linked as before; 0: none. */
static uint64_t center_collect(struct near__pool *p)
{
	uint64_t word = 0, over = 0, next;

	if (__atomic_load_n(&p->returned, __ATOMIC_RELAXED))
		word = __atomic_exchange_n(&p->returned, 0, __ATOMIC_ACQUIRE);
	NEAR__TSAN_ACQUIRE(&p->returned);
	for (; word; word = next) {
		next = *near__pool_link(p, word);
		if (word & NEAR__POOL_RAW) {
			near__pool_raw_give(p, word & ~NEAR__POOL_RAW);
		} else if (!center_keep(p, &word, 1)) {
			*near__pool_link(p, word) = over;
			over = word;
		}
	}
	return over;
}

/* ---- without the lock ---- */

/* After n objects or their memory were returned. Waits for nothing. */
static void center_wake(struct near__pool *p, unsigned n)
{
	uint32_t waiters;

	/* Pairs with the fence in wait_for_object. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	waiters = __atomic_load_n(&p->waiters, __ATOMIC_RELAXED);
	while (waiters && n-- && near_sem_read(&p->tickets) < waiters)
		near_sem_post(&p->tickets);
}

static void return_memory(struct near__pool *p, uint64_t *objects, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		objects[i] |= NEAR__POOL_RAW;
	push_returned(p, objects, n);
	center_wake(p, n);
}

static void end_objects(struct near__pool *p, uint64_t *objects, unsigned n)
{
	if (!n)
		return;
	for (unsigned i = 0; i < n; i++) {
		NEAR__TSAN_ACQUIRE((void *)(uintptr_t)objects[i]);
		if (p->options.destruct)
			p->options.destruct((void *)(uintptr_t)objects[i], p->options.arg);
	}
	statistic_add(&p->destructed, n);
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
void near__pool_settle(struct near__pool *p)
{
	while (is_pending(p) && near_lock_try_lock(p->lock)) {
		uint64_t over = center_collect(p);

		near_lock_unlock(p->lock);
		end_list(p, over);
	}
}

void near__pool_give(struct near__pool *p, uint64_t *objects, unsigned n, bool moves)
{
	unsigned kept = n;

	if (near_lock_try_lock(p->lock)) {
		kept = center_keep(p, objects, n);
		near_lock_unlock(p->lock);
	} else {
		push_returned(p, objects, n);
	}
	if (moves)
		near__pool_moves(p, -1);
	center_wake(p, kept);
	end_objects(p, objects + kept, n - kept);
	near__pool_settle(p);
}

/* Constructs n objects. The memory of one that fails, and of the rest, stays memory. */
static unsigned make_objects(struct near__pool *p, uint64_t *objects, unsigned n, int *error)
{
	unsigned made = 0;

	for (; made < n; made++) {
		void *object = (void *)(uintptr_t)objects[made];

		if (p->options.construct)
			*error = p->options.construct(object, p->options.arg);
		if (*error)
			break;
		NEAR__TSAN_RELEASE(object);
	}
	statistic_add(&p->constructed, made);
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
	over = center_collect(p);
	/* Relaxed: stored with the lock. */
	if (__atomic_load_n(&p->scarce, __ATOMIC_RELAXED))
		want = 1;
	n = center_take(p, objects, want);
	if (n > 1)
		near__pool_moves(p, 1);
	/* What is constructed ahead would be missing where the number is limited. */
	if (!n && wait)
		raw = near__pool_raw_take(p, objects, p->options.max_objects ? 1 : want);
	if (!n && wait && !raw)
		*error = p->live < p->limit ? -ENOMEM : NEAR__POOL_REACHED;
	near_lock_unlock(p->lock);
	end_list(p, over);
	if (raw)
		n = make_objects(p, objects, raw, error);
	if (raw && n > 1)
		near__pool_moves(p, 1);
	near__pool_settle(p);
	return n;
}

/* ---- what slots have ---- */

static void empty_fallback(struct near__pool *p, struct near__pool_slot *s)
{
	struct near_lock *lock = near__pop_lock_of(p->slots, s);

	near_lock_lock(lock);
	push_returned(p, s->objects, near__pool_count(s->array.position));
	__atomic_store_n(&s->array.position, NEAR__EMPTY_LIST, __ATOMIC_RELAXED);
	near_lock_unlock(lock);
}

static bool is_open(const struct near__pool *p, const struct near__pool_slot *s)
{
	uint64_t position = __atomic_load_n(&s->array.position, __ATOMIC_RELAXED);

	return position != NEAR__UNUSED_LIST &&
	       (position != NEAR__CLOSED_LIST || near__pool_scarce(p) == NEAR__POOL_AMPLE);
}

/* Of up to `most` slots, from *slot on; false: there are no more. cache/close.c has the protocol.
 * The lock of all closers is held from the first close to the last open, so that no process is
 * forked with a closed slot. A slot that is closed for ever (in a process that a bare clone made)
 * has no objects. */
static bool empty_some(struct near__pool *p, unsigned *slot, unsigned most)
{
	struct near__closing items[AT_ONCE];
	unsigned visited, n = 0;

	near__gates_lock();
	for (visited = 0; visited < most && near_percpu_next(p->slots, slot); visited++, ++*slot) {
		struct near__pool_slot *s = near__pool_slot(p, *slot);

		if (near_percpu_is_fallback(*slot))
			empty_fallback(p, s);
		else if (is_open(p, s))
			items[n++] = (struct near__closing){.word = &s->array.position};
	}
	near__bins_close(items, n);
	for (unsigned i = 0; i < n; i++) {
		struct near__pool_slot *s = (struct near__pool_slot *)items[i].word;

		push_returned(p, s->objects, near__pool_count(items[i].was));
		if (near__pool_scarce(p) == NEAR__POOL_AMPLE)
			near__bin_open_empty(&items[i]);
	}
	near__gates_unlock();
	return visited == most;
}

static void empty_slots(struct near__pool *p)
{
	unsigned slot = 0;

	while (empty_some(p, &slot, AT_ONCE))
		;
}

void near__pool_gather(struct near__pool *p)
{
	empty_slots(p);
	near__pool_settle(p);
}

void near__pool_begin_array(struct near__pool *p, struct near__pool_slot *own)
{
	uint64_t was = NEAR__UNUSED_LIST;

	if (!near_lock_try_lock(p->lock))
		return;
	/* Relaxed: stored with the lock. No sequence changes a position that is 0. */
	if (__atomic_load_n(&p->scarce, __ATOMIC_RELAXED) == NEAR__POOL_AMPLE)
		__atomic_compare_exchange_n(&own->array.position, &was, NEAR__EMPTY_LIST, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	near_lock_unlock(p->lock);
	near__pool_settle(p);
}

/* Sleeps between its tries, since a mover may have a lower real-time priority. Nothing wakes it: a
 * pool does this once. */
static void wait_for_movers(const struct near__pool *p)
{
	while (near__pool_moving(p) && !NEAR__YIELD_UNTIL(!near__pool_moving(p)))
		near__futex_sleep(&p->scarce, NEAR__POOL_SCARCE, PAUSE_NS, false);
}

void near__pool_become_scarce(struct near__pool *p)
{
	near_lock_lock(p->lock);
	if (near__pool_scarce(p) == NEAR__POOL_AMPLE)
		__atomic_store_n(&p->scarce, NEAR__POOL_SCARCE, __ATOMIC_RELAXED);
	near_lock_unlock(p->lock);
	empty_slots(p);
	wait_for_movers(p);
	near_lock_lock(p->lock);
	/* Release: pairs with the acquire in near__pool_scarce. */
	__atomic_store_n(&p->scarce, NEAR__POOL_CLOSED, __ATOMIC_RELEASE);
	near_lock_unlock(p->lock);
	near__pool_settle(p);
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
		over = center_collect(p);
		n = center_take(p, objects, p->options.batch);
		near_lock_unlock(p->lock);
		all += n + end_list(p, over);
		end_objects(p, objects, n);
	} while (n);
	near__pool_settle(p);
	errno = saved;
	return all;
}

/* Moves what slots have to the center, as long as it has room: what is idle is then in one place,
 * and what nobody takes from there until the next call was idle. */
static void fill_center(struct near__pool *p)
{
	unsigned slot = 0;
	size_t slots;

	do {
		near_lock_lock(p->lock);
		slots = p->count < p->center ? (p->center - p->count) / (p->room ? p->room : 1) : 0;
		near_lock_unlock(p->lock);
		slots = slots < AT_ONCE ? slots : AT_ONCE;
	} while (slots && empty_some(p, &slot, (unsigned)slots) && (near__pool_settle(p), true));
	near__pool_settle(p);
}

size_t near_pool_trim(struct near_pool *pool)
{
	struct near__pool *p = pool->rest;
	int saved = errno;
	uint64_t old, over;
	size_t all;

	near_lock_lock(p->lock);
	over = center_collect(p);
	old = center_take_oldest(p, p->low);
	near_lock_unlock(p->lock);
	all = end_list(p, over) + end_list(p, old);
	fill_center(p);
	near_lock_lock(p->lock);
	p->low = p->count;
	near_lock_unlock(p->lock);
	near__pool_settle(p);
	errno = saved;
	return all;
}
