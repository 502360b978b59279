/* SPDX-License-Identifier: MIT */
/* The parking lot's queues, see lot.h.
 *
 * Who can be where, and what stops each (models/park.pml):
 *
 * - A waiter that leaves (deadline, token, signal) and a waker that takes it. Both hold the lock of
 *   the waiter's bucket to decide; `queued` tells who was first. If the waker was, the waiter
 *   waits for NEAR__WOKEN, which is stores away, and was woken. So a wake-up is never given to one
 *   who returns a timeout.
 * - A waiter that is moved to another bucket while it wants to leave. The move holds both locks.
 *   The waiter locks the bucket of the address that it reads, and looks at the address again:
 *   unchanged, no move can begin, as it needs that lock.
 * - A waker that has taken a waiter, before it wakes it. The waiter's thread does not return until
 *   NEAR__WOKEN is set. The exchange that sets it is the waker's last access; the futex call that
 *   may follow only names the address. If that stack holds another futex by then, a sleeper there
 *   is woken for nothing, which all users of futexes must bear.
 * - A waker between the waiter's last look and its FUTEX_WAIT: NEAR__ASLEEP is set by CAS from 0,
 *   and the kernel compares with NEAR__ASLEEP alone. The waker's bit fails either.
 * - fork: in the child only the thread that forked goes on, and it is not parked. All queues are
 *   emptied, locks freed; no lock needs to be taken before. A child of a bare clone() finds its
 *   parent's queues and may find a lock held for ever: it must not use the lot.
 * - A signal handler. It may have interrupted the holder of a bucket, or a thread that waits for
 *   one: it must not come here. But it can query that (near__lot_defer), and so near_sem_post is
 *   for handlers: if its thread is in such a section, it records the address, and the thread does
 *   the rest when it leaves the section. If not, the bucket's holder is another thread, and the
 *   handler waits for it like any other.
 * - A signal handler in the child of a fork, before the queues are emptied: a thread is in a
 *   section from the last prepare handler to the first of the child's (these are registered
 *   early). */
#define _GNU_SOURCE
#include "lot.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "locks/order.h"
#include "locks/owner.h"
#include "locks/slice.h"
#include "ground/tsan.h"
#include "ground/watched.h"

/* Fibonacci hashing: the high bits of the product depend on all bits of the address. */
struct near__bucket *near__lot_bucket(const void *address)
{
	uint64_t product = (uint64_t)(uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15);

	return &near__lot.buckets[product >> (64 - NEAR__BUCKET_BITS)];
}

/* Before the first lock. A fork that runs meanwhile does not tear the two apart: while it copies
 * the page tables, a store either waits for it in a fault, or still goes to the page that parent
 * and child share. So a child that finds a bucket in use finds this too, if the stores are in
 * order. */
static void note_use(void)
{
	if (__atomic_load_n(&near__lot.is_used, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&near__lot.is_used, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Whether this thread is in a section, as far as that is counted. The handler that made a clone,
 * which shares the storage for good, may have interrupted a section that ends uncounted. */
static bool is_in_section(void)
{
	return near__self.state != NEAR__CLONED && *(volatile uint32_t *)&near__lot_mine.depth;
}

/* Around the time in which a bucket is locked, or waited for. Volatile is enough, as handlers run
 * in this thread, and leave `depth` as they found it. Not counted in the child of a vfork: killed
 * here, it would leave its parent in a section for ever, and the parent's posts deferred. Nor where
 * two threads count at the same time. */
static void enter_section(void)
{
	volatile uint32_t *depth = &near__lot_mine.depth;

	if (near__storage_is_own())
		*depth = *depth + 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static bool has_left_section(void)
{
	volatile uint32_t *depth = &near__lot_mine.depth;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (near__storage_is_own())
		*depth = *depth - 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return !is_in_section();
}

static void settle_one(struct near__bucket *b, const void *address)
{
	struct near__waiter *taken;

	enter_section();
	near_lock_lock(&b->lock);
	taken = near__lot_mine.settle(b, address);
	near_lock_unlock(&b->lock);
	has_left_section();
	near__lot_wake_all(taken);
}

/* A handler that comes between two sections need not defer; one that comes in a section is seen by
 * the next turn. */
static __attribute__((noinline)) void settle(void)
{
	struct near__lot_mine *mine = &near__lot_mine;
	const void *address;

	while ((address = __atomic_exchange_n(&mine->deferred, NULL, __ATOMIC_RELAXED))) {
		if (!__atomic_exchange_n(&mine->many, 0, __ATOMIC_RELAXED)) {
			settle_one(near__lot_bucket(address), address);
			continue;
		}
		for (unsigned i = 0; i < NEAR__BUCKETS; i++)
			settle_one(&near__lot.buckets[i], NULL);
	}
}

static void leave_section(void)
{
	const void *volatile *deferred = &near__lot_mine.deferred;

	if (has_left_section() && NEAR__UNLIKELY(*deferred != NULL))
		settle();
}

/* Handlers may interrupt each other here, but not the thread that they interrupted in settle. */
bool near__lot_defer(const void *address, near__lot_settle *how)
{
	struct near__lot_mine *mine = &near__lot_mine;
	const void *other = NULL;

	if (!is_in_section())
		return false;
	__atomic_store_n(&mine->settle, how, __ATOMIC_RELAXED);
	if (!__atomic_compare_exchange_n(&mine->deferred, &other, address, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    other != address)
		__atomic_store_n(&mine->many, 1, __ATOMIC_RELAXED);
	return true;
}

struct near__bucket *near__lot_lock(const void *address)
{
	struct near__bucket *b = near__lot_bucket(address);

	note_use();
	enter_section();
	near_lock_lock(&b->lock);
	return b;
}

void near__lot_unlock(struct near__bucket *b)
{
	near_lock_unlock(&b->lock);
	leave_section();
}

/* In the order of their addresses, so that two who lock both do not wait for each other. */
void near__lot_lock_both(const void *a, const void *b, struct near__bucket *locked[2])
{
	note_use();
	enter_section();
	locked[0] = near__lot_bucket(a);
	locked[1] = near__lot_bucket(b);
	near_lock_lock(locked[0] <= locked[1] ? &locked[0]->lock : &locked[1]->lock);
	if (locked[0] != locked[1])
		near_lock_lock(locked[0] < locked[1] ? &locked[1]->lock : &locked[0]->lock);
}

void near__lot_unlock_both(struct near__bucket *locked[2])
{
	near_lock_unlock(&locked[0]->lock);
	if (locked[0] != locked[1])
		near_lock_unlock(&locked[1]->lock);
	leave_section();
}

static struct near__waiter *find(struct near__waiter *w, const void *address, uint32_t space)
{
	while (w && (w->address != address || w->space != space))
		w = w->next;
	return w;
}

struct near__waiter *near__lot_first(struct near__bucket *b, const void *address, uint32_t space)
{
	return find(b->first, address, space);
}

struct near__waiter *near__lot_next(const struct near__waiter *w)
{
	return find(w->next, w->address, w->space);
}

/* Relaxed: no waker knows the waiter yet. */
static void reset(struct near__waiter *w)
{
	__atomic_store_n(&w->word, 0, __ATOMIC_RELAXED);
	w->token = 0;
	w->queued = true;
}

static void link_last(struct near__bucket *b, struct near__waiter *w)
{
	w->next = NULL;
	w->prev = b->last;
	*(b->last ? &b->last->next : &b->first) = w;
	b->last = w;
}

void near__lot_append(struct near__bucket *b, struct near__waiter *w)
{
	reset(w);
	link_last(b, w);
}

void near__lot_insert(struct near__bucket *b, struct near__waiter *w)
{
	struct near__waiter *later = near__lot_first(b, w->address, w->space);

	while (later && later->since <= w->since)
		later = near__lot_next(later);
	if (!later) {
		near__lot_append(b, w);
		return;
	}
	reset(w);
	w->next = later;
	w->prev = later->prev;
	*(later->prev ? &later->prev->next : &b->first) = w;
	later->prev = w;
}

static void unlink_waiter(struct near__bucket *b, struct near__waiter *w)
{
	*(w->prev ? &w->prev->next : &b->first) = w->next;
	*(w->next ? &w->next->prev : &b->last) = w->prev;
}

void near__lot_take(struct near__bucket *b, struct near__waiter *w)
{
	unlink_waiter(b, w);
	w->queued = false;
}

struct near__waiter *near__lot_take_some(struct near__bucket *b, const void *address,
					 uint32_t space, size_t n)
{
	struct near__waiter *taken = NULL, **end = &taken, *w, *next;

	for (w = near__lot_first(b, address, space); w && n; w = next, n--) {
		next = near__lot_next(w);
		near__lot_take(b, w);
		w->next = NULL;
		*end = w;
		end = &w->next;
	}
	return taken;
}

void near__lot_move(struct near__bucket *from, struct near__bucket *to, struct near__waiter *w,
		    const void *address, uint32_t space)
{
	unlink_waiter(from, w);
	w->space = space;
	/* Relaxed: who reads it without the lock looks again under it. */
	__atomic_store_n(&w->address, address, __ATOMIC_RELAXED);
	link_last(to, w);
}

void near__lot_wake(struct near__waiter *w)
{
	uint32_t *word = &w->word;

	NEAR__TSAN_RELEASE(word);
	/* Release: pairs with the acquire in word_of (lot_sleep.c). */
	if (__atomic_fetch_or(word, NEAR__WOKEN, __ATOMIC_RELEASE) & NEAR__ASLEEP)
		near__futex_wake(word, 1, false);
}

void near__lot_wake_all(struct near__waiter *w)
{
	while (w) {
		struct near__waiter *next = w->next;

		near__lot_wake(w);
		w = next;
	}
}

/* In the child. What nobody used is left untouched: a page that is looked at costs a fault. */
static void forget_parent(void)
{
	for (unsigned i = 0; near__lot.is_used && i < NEAR__BUCKETS; i++) {
		struct near__bucket *b = &near__lot.buckets[i];

		if (b->lock.word || b->first)
			memset(b, 0, sizeof(*b));
	}
	near__lot.forks++;
	near__order_forked();
	near__owner_forked();
	near__slice_end();
	leave_section();
}

/* Of several copies of the library in a process one does it. Fixed early, so that the child's
 * handlers of those who use locks come later. */
__attribute__((constructor)) static void watch_forks(void)
{
	uint32_t no = 0;

	near__ignore(&near__lot, sizeof(near__lot));
	if (__atomic_compare_exchange_n(&near__lot.watches_forks, &no, 1, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED)) {
		near__lot.process = (uint32_t)syscall(SYS_getpid);
		pthread_atfork(enter_section, leave_section, forget_parent);
	}
}
