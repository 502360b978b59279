/* SPDX-License-Identifier: MIT */
/* The queues of the parking lot.
 *
 * What can interleave, and what orders it (models/park.pml):
 *
 * - A waiter that leaves (deadline, token, signal) and a waker that takes it. Both hold the lock of
 *   the waiter's bucket to decide, and `queued` records the result. If the waker was first, the
 *   waiter waits for NEAR__WOKEN, which the waker sets after a few stores, and reports that it was
 *   woken. So a waiter that returns a timeout has consumed no wake-up.
 * - A waiter that is moved to another bucket while it leaves. The move holds both locks. The waiter
 *   locks the bucket of the address that it loaded, and loads the address again: if it is the same,
 *   the lock excludes every move.
 * - A waker between its take and its wake. The waiter's thread does not return until NEAR__WOKEN is
 *   set. The read-modify-write that sets it is the waker's last access; the futex call that may
 *   follow only uses the address. If the stack has another futex there by then, the call wakes a
 *   sleeper for nothing, which all users of futexes must tolerate.
 * - A waker between the waiter's last load of its word and its FUTEX_WAIT. The waiter sets
 *   NEAR__ASLEEP by a CAS of the value that it loaded, and the kernel compares with the result. The
 *   waker's bit makes one of the two fail.
 *   With a group, the waiter loads the count of wake-ups before its last load of the word, and
 *   FUTEX_WAIT compares with that count. If the waker sets its bit after the load of the word, it
 *   increments the count later still: FUTEX_WAIT returns, or the futex call finds the sleeper.
 * - fork: only the thread that forked continues in the child, and it is not parked. The child
 *   empties all queues and frees all locks; the parent needs no lock before. The child of a bare
 *   clone() finds its parent's queues, and perhaps a lock that stays held: it must not use the lot.
 * - A signal handler may have interrupted the holder of a bucket, or a thread that waits for one:
 *   it must not lock a bucket. near__lot_defer detects this, so that handlers can call
 *   near_sem_post: within such a section the handler records the address, and the thread does the
 *   rest when it leaves the section. Otherwise another thread holds the bucket, and the handler
 *   waits for it like any thread.
 * - A signal handler in the child of a fork, before the queues are empty: a thread is in a section
 *   from the last prepare handler to the first child handler, since these are registered early. */
#define _GNU_SOURCE
#include <errno.h>
#include "parking/lot.h"

#include <limits.h>
#include <string.h>

#include "base/block.h"
#include "base/fork.h"
#include "base/unique.h"
#include "base/valgrind.h"

#define LOT_SIZE 66560
_Static_assert(sizeof(struct near__lot) == LOT_SIZE, "near__lot");
NEAR__UNIQUE(near__lot, LOT_SIZE);

/* A signal handler decides by near__more.lot_depth (buckets that the thread has locked or waits
 * for; a fork counts as one) whether it may lock a bucket. What it could not do it records in
 * lot_defers, together with the address; or with lot_defers_all, if there are several addresses, or
 * the thread has no block. */
struct lot_thread {
	const void *deferred; /* NULL: none */
};
NEAR__BLOCK_PART(lot_thread, struct lot_thread, lot);

/* Fibonacci hashing: the high bits of the product depend on all bits of the address. */
struct near__bucket *near__lot_bucket(const void *address)
{
	uint64_t product = (uint64_t)(uintptr_t)address * UINT64_C(0x9e3779b97f4a7c15);

	return &near__lot.buckets[product >> (64 - NEAR__BUCKET_BITS)];
}

/* Called before the first lock. A child that finds a bucket in use also finds this flag: while a
 * concurrent fork copies the page tables, a store either waits for it in a page fault, or still
 * reaches the page that parent and child share. So the child sees the stores up to one of them, in
 * the order that the fence enforces. */
static void note_use(void)
{
	if (__atomic_load_n(&near__lot.is_used, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&near__lot.is_used, 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Whether this thread is in a section. Not counted for a thread that shares its storage with a
 * clone for good: a handler may have made the clone within a section, whose end is not counted. */
static bool is_in_section(void)
{
	return near__self.state != NEAR__CLONED && *(volatile uint16_t *)&near__more.lot_depth;
}

/* A section begins before its thread locks a bucket, or waits for one. Volatile is enough, as
 * handlers run in this thread, and restore `depth`. Not counted in the child of a vfork: if it were
 * killed here, its parent would stay in a section, and defer all its posts. Nor where two threads
 * use one storage. */
static void enter_section(void)
{
	volatile uint16_t *depth = &near__more.lot_depth;

	if (near__storage_is_own())
		*depth = *depth + 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static bool has_left_section(void)
{
	volatile uint16_t *depth = &near__more.lot_depth;

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (near__storage_is_own())
		*depth = *depth - 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return !is_in_section();
}

/* Returns how many of the waiters that it has woken were not asleep. */
static size_t settle_one(struct near__bucket *b, const void *address)
{
	struct near__waiter *taken;

	enter_section();
	near_lock_lock(&b->lock);
	taken = __atomic_load_n(&near__lot.settle, __ATOMIC_RELAXED)(b, address);
	near_lock_unlock(&b->lock);
	has_left_section();
	return near__lot_wake_all(taken);
}

/* A handler that runs between two sections need not defer; what one defers in a section, the next
 * iteration finds. */
static __attribute__((noinline)) void lot_settle(void)
{
	while (__atomic_exchange_n(&near__more.lot_defers, 0, __ATOMIC_RELAXED)) {
		struct lot_thread *mine = lot_thread_peek();
		const void *address = NULL;

		if (mine->deferred) /* else it may be the block that no thread has: read-only */
			address = __atomic_exchange_n(&mine->deferred, NULL, __ATOMIC_RELAXED);
		if (!__atomic_exchange_n(&near__more.lot_defers_all, 0, __ATOMIC_RELAXED)) {
			while (address && settle_one(near__lot_bucket(address), address))
				;
			continue;
		}
		for (unsigned i = 0; i < NEAR__BUCKETS; i++)
			while (settle_one(&near__lot.buckets[i], NULL))
				;
	}
}

static void leave_section(void)
{
	volatile uint8_t *defers = &near__more.lot_defers;

	if (has_left_section() && NEAR__UNLIKELY(*defers))
		lot_settle();
}

/* Handlers can interrupt each other here, but not lot_settle(): the thread is in a section. */
bool near__lot_defer(const void *address, near__lot_deferred *how)
{
	struct lot_thread *mine;
	const void *other = NULL;

	if (!is_in_section())
		return false;
	/* Relaxed: all threads store the same. */
	__atomic_store_n(&near__lot.settle, how, __ATOMIC_RELAXED);
	mine = lot_thread_own();
	if (!mine || (!__atomic_compare_exchange_n(&mine->deferred, &other, address, false,
						   __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
		      other != address))
		__atomic_store_n(&near__more.lot_defers_all, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&near__more.lot_defers, 1, __ATOMIC_RELAXED);
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

/* In the order of their addresses, so that two threads that lock both cannot deadlock. */
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

static struct near__waiter *waiter_find(struct near__waiter *w, const void *address, uint32_t space)
{
	while (w && (w->address != address || w->space != space))
		w = w->next;
	return w;
}

struct near__waiter *near__lot_first(struct near__bucket *b, const void *address, uint32_t space)
{
	return waiter_find(b->first, address, space);
}

struct near__waiter *near__lot_next(const struct near__waiter *w)
{
	return waiter_find(w->next, w->address, w->space);
}

/* Relaxed: no waker can find the waiter yet. */
static void waiter_reset(struct near__waiter *w)
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
	waiter_reset(w);
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
	waiter_reset(w);
	w->next = later;
	w->prev = later->prev;
	*(later->prev ? &later->prev->next : &b->first) = w;
	later->prev = w;
}

bool near__lot_is_due(const struct near__bucket *b, const struct near__waiter *w)
{
	uint64_t now = (uint64_t)near__now(CLOCK_MONOTONIC);

	return now - w->since > NEAR__PATIENCE_NS &&
	       (b->handoff_of != w->address || now - b->handoff_at > NEAR__HANDOVER_NS);
}

void near__lot_note_handover(struct near__bucket *b, const struct near__waiter *w)
{
	b->handoff_of = w->address;
	b->handoff_at = (uint64_t)near__now(CLOCK_MONOTONIC);
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

void near__lot_take_into(struct near__taken *list, struct near__bucket *b, struct near__waiter *w)
{
	near__lot_take(b, w);
	w->next = NULL;
	*list->end = w;
	list->end = &w->next;
}

struct near__waiter *near__lot_take_some(struct near__bucket *b, const void *address,
					 uint32_t space, size_t n)
{
	struct near__taken taken = {.first = NULL, .end = &taken.first};
	struct near__waiter *w, *next;

	for (w = near__lot_first(b, address, space); w && n; w = next, n--) {
		next = near__lot_next(w);
		near__lot_take_into(&taken, b, w);
	}
	return taken.first;
}

void near__lot_move(struct near__bucket *from, struct near__bucket *to, struct near__waiter *w,
		    const void *address, uint32_t space)
{
	unlink_waiter(from, w);
	w->space = space;
	/* Relaxed: a thread that loads it without the lock loads it again with the lock. */
	__atomic_store_n(&w->address, address, __ATOMIC_RELAXED);
	link_last(to, w);
}

bool near__lot_wake(struct near__waiter *w)
{
	uint32_t *word; /* after the exchange, w may be gone: only its address is used */
	bool notifies;

	if (!w)
		return true;
	word = &w->word;
	notifies = w->notify;
	if (NEAR__UNLIKELY(notifies))
		w->notify(w);
	NEAR__TSAN_RELEASE(word);
	/* Release: pairs with the acquire in waiter_word. */
	return (__atomic_fetch_or(word, NEAR__WOKEN, __ATOMIC_RELEASE) & NEAR__ASLEEP &&
		near__futex_wake(word, 1, false)) ||
	       notifies;
}

size_t near__lot_wake_all(struct near__waiter *w)
{
	size_t awake = 0;

	while (w) {
		struct near__waiter *next = w->next;

		awake += !near__lot_wake(w);
		w = next;
	}
	return awake;
}

struct near__group near__lot_take_group(struct near__bucket *b, const void *address, uint32_t space)
{
	struct near__group group = {NULL, false};
	struct near__taken others = {.first = NULL, .end = &others.first};
	struct near__waiter *w, *next;

	for (w = near__lot_first(b, address, space); w; w = next) {
		next = near__lot_next(w);
		if (!w->group) {
			near__lot_take_into(&others, b, w);
			continue;
		}
		near__lot_take(b, w);
		group.any = true;
		NEAR__TSAN_RELEASE(&w->word);
		/* Release: pairs with the acquire in waiter_word. From here on the waiter
		 * may be gone. Not a store: helgrind reports those. */
		__atomic_fetch_or(&w->word, NEAR__WOKEN, __ATOMIC_RELEASE);
	}
	group.others = others.first;
	return group;
}

void near__lot_wake_group(struct near__bucket *b, const struct near__group *taken)
{
	near__lot_wake_all(taken->others);
	if (!taken->any)
		return;
	/* Release: pairs with the acquire in group_sleep. */
	__atomic_fetch_add(&b->group, 1, __ATOMIC_RELEASE);
	near__futex_wake(&b->group, INT_MAX, false);
}

/* In the child of a fork. Buckets that the process never used stay untouched: each page that is
 * accessed costs a page fault. */
static void forget_parent(void)
{
	for (unsigned i = 0; near__lot.is_used && i < NEAR__BUCKETS; i++) {
		struct near__bucket *b = &near__lot.buckets[i];

		if (b->lock.word || b->first || b->waking)
			memset(b, 0, sizeof(*b));
	}
	near__lot.forks++;
	leave_section();
}

/* Early, so that in a child the handlers of programs that use locks run later. */
__attribute__((constructor)) static void lot_watch_forks(void)
{
	near__fork_register(&near__lot.watches_forks, enter_section, leave_section, forget_parent);
}

NEAR__BEFORE_PROGRAM static void lot_ignore_races(void)
{
	near__valgrind_ignore(&near__lot, sizeof(near__lot));
}
