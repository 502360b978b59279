/* SPDX-License-Identifier: MIT */
/* near_queue: init, close, destroy, and the paths that the sequence leaves; src/queue/queue.h has
 * the argument. */
#include "queue/queue.h"

#include <errno.h>
#include <string.h>

#define FIRST_FENCE_PUTS 1000 /* until a membarrier was measured */

int near_queue_init(struct near_queue *q, size_t capacity)
{
	size_t cells = 1;
	void *p;
	int r;

	memset(q, 0, sizeof(*q));
	if (!capacity || capacity > NEAR_QUEUE_MAX_CAPACITY)
		return capacity ? -E2BIG : -EINVAL;
	while (cells < capacity)
		cells *= 2;
	r = near_percpu_alloc(sizeof(struct ring) + cells * sizeof(void *), 64, &p);
	if (r)
		return r;
	q->p = p;
	q->mask = cells - 1;
	q->capacity = (uint32_t)capacity;
	q->fence_puts = FIRST_FENCE_PUTS;
	/* Relaxed: only that it is another one. */
	q->number = __atomic_add_fetch(&near__percpu.queues, 1, __ATOMIC_RELAXED);
	q->state = near__process.usable ? 0 : FENCES | FENCED;
	__atomic_store_n(&q->open, NEAR__OPEN, __ATOMIC_RELEASE);
	return 0;
}

void near__queue_refuse(void)
{
	near__die("near_queue: the queue was destroyed, or never made");
}

void near_queue_destroy(struct near_queue *q)
{
	bool in_use;

	near__queue_check(q);
	in_use = near__queue_wake(&q->state, GETTERS, 0);
	in_use |= near__queue_wake(&q->joiners, JOINERS, 0);
	for (unsigned s = 0; near_percpu_next(q->p, &s); s++)
		in_use |= near__queue_wake(&ring_of(q, s)->putters, PUTTERS, 0);
	if (in_use)
		near__die("near_queue_destroy: threads wait, or a watch is armed");
	q->open = NEAR__UNOPENED;
	near_percpu_free(q->p);
	q->p = NULL;
}

size_t near_queue_count(const struct near_queue *q)
{
	size_t n = 0;

	near__queue_check(q);
	/* Acquire: the tail is loaded after the head, so it is not below. */
	for (unsigned s = 0; near_percpu_next(q->p, &s); s++) {
		uint64_t head = __atomic_load_n(&ring_of(q, s)->head, __ATOMIC_ACQUIRE);

		n += __atomic_load_n(&ring_of(q, s)->tail, __ATOMIC_RELAXED) - head;
	}
	return n;
}

/* ---- put ---- */

/* Exact: the tail was loaded while the head did not change. Sequentially consistent: pairs with the
 * CAS of a get, see queue_wait.c. */
bool near__queue_is_full(const struct near_queue *q, const struct ring *r)
{
	uint64_t head, tail;

	do {
		head = __atomic_load_n(&r->head, __ATOMIC_SEQ_CST);
		tail = __atomic_load_n(&r->tail, __ATOMIC_SEQ_CST);
	} while (__atomic_load_n(&r->head, __ATOMIC_RELAXED) != head);
	return tail - head >= q->capacity;
}

/* Whether the ring has room. Acquire pairs with the release in the CAS of gets, and release hands
 * that on to the sequence. */
static bool raise_limit(const struct near_queue *q, struct ring *r)
{
	uint64_t limit = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) + q->capacity;

	if (limit > __atomic_load_n(&r->limit, __ATOMIC_RELAXED))
		__atomic_store_n(&r->limit, limit, __ATOMIC_RELEASE);
	return !near__queue_is_full(q, r);
}

/* On a fallback slot: the lock keeps other puts away. */
static int put_fallback(struct near_queue *q, void *element, struct ring **full)
{
	struct ring *r = near__fallback(q->p);
	struct near_lock *lock = near__pop_lock_of(q->p, r);
	uint64_t tail;
	int result = 0;

	near_lock_lock(lock);
	tail = __atomic_load_n(&r->tail, __ATOMIC_RELAXED);
	if (!near__queue_is_open(q)) {
		result = -EPIPE;
	} else if (near__queue_is_full(q, r)) {
		*full = r;
		result = -EAGAIN;
	} else {
		__atomic_store_n(&r->cells[tail & q->mask], element, __ATOMIC_RELAXED);
		/* Release: pairs with the acquire in ring_take_from. */
		__atomic_store_n(&r->tail, tail + 1, __ATOMIC_RELEASE);
	}
	near_lock_unlock(lock);
	return result;
}

int near__queue_put(struct near_queue *q, void *element, struct ring **full)
{
	near__queue_check(q);
	NEAR__TSAN_RELEASE(q);
	NEAR__TRY_WHILE(true) {
		int done = near__queue_append(q, element);
		uint32_t slot;

		if (done == NEAR_SEQ_COMMITTED)
			return 0;
		if (!near__queue_is_open(q))
			return -EPIPE;
		slot = near__slot_open(q->p);
		if (slot == NEAR__NO_SLOT)
			break;
		/* A slot that the thread is on now or was on a moment ago. */
		if (done == NEAR__FULL && !raise_limit(q, ring_of(q, slot))) {
			*full = ring_of(q, slot);
			return -EAGAIN;
		}
	}
	return put_fallback(q, element, full);
}

/* ---- close ---- */

/* Exchanging the locks waits for each put on a fallback slot that found the queue open. */
void near_queue_close(struct near_queue *q)
{
	near__queue_check(q);
	/* Sequentially consistent: pairs with the load by a thread that goes to sleep. */
	__atomic_store_n(&q->open, NEAR__CLOSED, __ATOMIC_SEQ_CST);
	near__fence();
	for (unsigned i = 0; i < NEAR__POP_LOCKS; i++) {
		near_lock_lock(&near__percpu.pops[i].lock);
		near_lock_unlock(&near__percpu.pops[i].lock);
	}
	/* Release: pairs with the acquire in near__queue_get. */
	__atomic_fetch_or(&q->state, CLOSED, __ATOMIC_RELEASE);
	near__queue_wake(&q->state, GETTERS, SIZE_MAX);
	for (unsigned s = 0; near_percpu_next(q->p, &s); s++)
		near__queue_wake(&ring_of(q, s)->putters, PUTTERS, SIZE_MAX);
}
