/* SPDX-License-Identifier: MIT */
/* near_fifo: a ring under a near_mutex. All fields are accessed with the lock held, except in
 * is_empty_now, and `watched`. */
#include <nearcpu/fifo.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/heap.h"
#include "base/valgrind.h"
#include "locks/mutex_at.h"
#include "queue/calls.h"
#include "queue/queue.h"

/* How a call waits for room or for an element; NULL: it does not. */
struct wait {
	int clock;
	const struct timespec *deadline;
	struct near_cancel *cancel;
};

static const struct wait no_limit = {.clock = CLOCK_MONOTONIC};

int near_fifo_init(struct near_fifo *f, size_t capacity)
{
	memset(f, 0, sizeof(*f));
	if (!capacity || capacity > NEAR_FIFO_MAX_CAPACITY)
		return capacity ? -E2BIG : -EINVAL;
	f->cells = near__heap_zeroed(capacity, sizeof(*f->cells));
	f->capacity = capacity;
	/* What is_empty_now and puts load without the lock. */
	near__valgrind_ignore(&f->closed, sizeof(f->closed) + sizeof(f->watched));
	near__valgrind_ignore(&f->count, sizeof(f->count));
	return f->cells ? 0 : -ENOMEM;
}

static void fifo_check(const struct near_fifo *f)
{
	if (NEAR__UNLIKELY(!f->cells))
		near__die("near_fifo: the fifo was destroyed, or never made");
}

void near_fifo_destroy(struct near_fifo *f)
{
	fifo_check(f);
	if (near__queue_wake(&f->watched, GETTERS, 0))
		near__die("near_fifo_destroy: a watch is armed");
	near_mutex_destroy(&f->lock);
	free(f->cells);
	f->cells = NULL;
}

/* near_mutex_lock without its sequence for processes of one thread. */
static void fifo_lock(struct near_fifo *f)
{
	uint32_t seen;

	fifo_check(f);
	seen = near__mutex_fast(&f->lock);
	if (NEAR__UNLIKELY(seen != 0))
		near__mutex_lock_slow(&f->lock, seen);
}

/* Called with the lock after k elements were put. Waiters and watches share them: one notified too
 * many finds the fifo empty. */
static void fifo_notify(struct near_fifo *f, size_t k)
{
	f->unfinished += k;
	/* Relaxed: a watch is armed with the lock held. */
	if (NEAR__UNLIKELY(__atomic_load_n(&f->watched, __ATOMIC_RELAXED)) && k)
		near__queue_wake(&f->watched, GETTERS, k);
}

/* Which elements move. */
enum side {
	TAKE,
	APPEND,
	PUT_FIRST,
};

/* Takes what there is, or puts what there is room for. */
static inline size_t fifo_move(struct near_fifo *f, enum side side, void *const *in, void **out,
			       size_t n)
{
	struct near_cond *c = side == TAKE ? &f->room : &f->elements;
	size_t most = side == TAKE ? f->count : f->capacity - f->count, k = n < most ? n : most;

	if (side == PUT_FIRST)
		f->first = k <= f->first ? f->first - k : f->capacity - (k - f->first);
	for (size_t i = 0; i < k; i++) {
		size_t at = side == APPEND ? f->count + i : i, left = f->capacity - f->first;
		void **cell = &f->cells[at < left ? f->first + at : at - left];

		if (side == TAKE)
			out[i] = *cell;
		else
			*cell = in[i];
	}
	if (side == TAKE)
		f->first = k < f->capacity - f->first ? f->first + k : k - (f->capacity - f->first);
	/* Relaxed: is_empty_now needs only that it is one store. */
	__atomic_store_n(&f->count, side == TAKE ? f->count - k : f->count + k, __ATOMIC_RELAXED);
	for (size_t i = 0; i < k && near__cond_is_waited_for(c); i++)
		near_cond_signal(c);
	if (side != TAKE)
		fifo_notify(f, k);
	return k;
}

/* Without the lock, which the other side may take. */
static void wait_awake(struct near_fifo *f, unsigned waits)
{
	near__mutex_unlock(&f->lock);
	if (waits)
		syscall(SYS_sched_yield);
	else
		near__pause_for(FIRST_PAUSE_NS);
	fifo_lock(f);
}

/* A put is done when all n are put, a get when it has one. */
static inline long fifo_move_all(struct near_fifo *f, enum side side, void *const *in, void **out,
				 size_t n, const struct wait *w)
{
	struct near_cond *c = side == TAKE ? &f->elements : &f->room;
	unsigned waits = 0;
	size_t done = 0;
	int r = 0;

	fifo_lock(f);
	for (;;) {
		if (side == TAKE || !f->closed)
			done += fifo_move(f, side, in ? in + done : NULL, out, n - done);
		if (done == n || (done && side == TAKE) || r)
			break;
		if (f->closed)
			r = -EPIPE;
		else if (!w)
			r = -EAGAIN;
		else if (waits <= NEAR__SPIN_YIELDS)
			wait_awake(f, waits++);
		else
			r = near_cond_wait_until(c, &f->lock, w->clock, w->deadline, w->cancel);
	}
	near__mutex_unlock(&f->lock);
	return done ? (long)done : r;
}

static long fifo_put(struct near_fifo *f, void *const *elements, size_t n, const struct wait *w)
{
	return fifo_move_all(f, APPEND, elements, NULL, n, w);
}

static int fifo_put_first(struct near_fifo *f, void *element, const struct wait *w)
{
	return result_of_one(fifo_move_all(f, PUT_FIRST, &element, NULL, 1, w));
}

/* Whether it was empty and open at one moment, without the lock. Acquire: `closed` is loaded later,
 * and is never cleared; so if it is not set, it was not when `count` was 0. Other threads have
 * released by the lock what they put before. */
static bool is_empty_now(const struct near_fifo *f)
{
	fifo_check(f);
	return !__atomic_load_n(&f->count, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&f->closed, __ATOMIC_RELAXED);
}

static long fifo_get(struct near_fifo *f, void **elements, size_t n, const struct wait *w)
{
	if (!w && n && is_empty_now(f))
		return -EAGAIN;
	return fifo_move_all(f, TAKE, NULL, elements, n, w);
}

int near_fifo_try_put(struct near_fifo *f, void *element)
{
	return result_of_one(fifo_put(f, &element, 1, NULL));
}

int near_fifo_try_get(struct near_fifo *f, void **element)
{
	return result_of_one(fifo_get(f, element, 1, NULL));
}

int near_fifo_put(struct near_fifo *f, void *element)
{
	return result_of_one(fifo_put(f, &element, 1, &no_limit));
}

int near_fifo_get(struct near_fifo *f, void **element)
{
	return result_of_one(fifo_get(f, element, 1, &no_limit));
}

int near_fifo_put_until(struct near_fifo *f, void *element, int clock,
			const struct timespec *deadline, struct near_cancel *cancel)
{
	return result_of_one(fifo_put(f, &element, 1, &(struct wait){clock, deadline, cancel}));
}

int near_fifo_try_put_front(struct near_fifo *f, void *element)
{
	return fifo_put_first(f, element, NULL);
}

int near_fifo_put_front(struct near_fifo *f, void *element)
{
	return fifo_put_first(f, element, &no_limit);
}

int near_fifo_put_front_until(struct near_fifo *f, void *element, int clock,
			      const struct timespec *deadline, struct near_cancel *cancel)
{
	return fifo_put_first(f, element, &(struct wait){clock, deadline, cancel});
}

int near_fifo_get_until(struct near_fifo *f, void **element, int clock,
			const struct timespec *deadline, struct near_cancel *cancel)
{
	return result_of_one(near_fifo_get_many_until(f, element, 1, clock, deadline, cancel));
}

long near_fifo_try_put_many(struct near_fifo *f, void *const *elements, size_t n)
{
	return fifo_put(f, elements, n, NULL);
}

long near_fifo_try_get_many(struct near_fifo *f, void **elements, size_t n)
{
	return fifo_get(f, elements, n, NULL);
}

long near_fifo_get_many_until(struct near_fifo *f, void **elements, size_t n, int clock,
			      const struct timespec *deadline, struct near_cancel *cancel)
{
	return fifo_get(f, elements, n, &(struct wait){clock, deadline, cancel});
}

/* The watch is armed while the lock is held: so a put comes before, or finds it. */
int near_fifo_get_or_arm(struct near_fifo *f, void **element, struct near_watch *watch)
{
	int r = 0;

	near__watch_reset(watch);
	fifo_lock(f);
	if (!fifo_move(f, TAKE, NULL, element, 1))
		r = f->closed ? -EPIPE : -EAGAIN;
	if (r == -EAGAIN)
		near__watch_arm(watch, &f->watched);
	near__mutex_unlock(&f->lock);
	return r;
}

void near_fifo_done(struct near_fifo *f, size_t n)
{
	fifo_lock(f);
	if (n > f->unfinished)
		near__die("near_fifo_done: more are done than were put");
	f->unfinished -= n;
	if (!f->unfinished)
		near_cond_broadcast(&f->all_done);
	near__mutex_unlock(&f->lock);
}

int near_fifo_join_until(struct near_fifo *f, int clock, const struct timespec *deadline,
			 struct near_cancel *cancel)
{
	int r = 0;

	fifo_lock(f);
	while (f->unfinished && !r)
		r = near_cond_wait_until(&f->all_done, &f->lock, clock, deadline, cancel);
	r = f->unfinished ? r : 0;
	near__mutex_unlock(&f->lock);
	return r;
}

void near_fifo_join(struct near_fifo *f)
{
	near_fifo_join_until(f, CLOCK_MONOTONIC, NULL, NULL);
}

void near_fifo_close(struct near_fifo *f)
{
	fifo_lock(f);
	__atomic_store_n(&f->closed, 1, __ATOMIC_RELAXED);
	near_cond_broadcast(&f->elements);
	near_cond_broadcast(&f->room);
	near__queue_wake(&f->watched, GETTERS, SIZE_MAX);
	near__mutex_unlock(&f->lock);
}

size_t near_fifo_count(struct near_fifo *f)
{
	size_t n;

	fifo_lock(f);
	n = f->count;
	near__mutex_unlock(&f->lock);
	return n;
}
