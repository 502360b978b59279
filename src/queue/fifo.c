/* SPDX-License-Identifier: MIT */
/* near_fifo: a ring under a near_mutex. All fields are accessed with the lock held. */
#include <nearcpu/fifo.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/die.h"
#include "queue/calls.h"

/* How a call waits for room or for an element; NULL: it does not. */
struct wait {
	int clock;
	const struct timespec *deadline;
	struct near_cancel *cancel;
};

static const struct wait no_limit = {.clock = CLOCK_MONOTONIC};

int near_fifo_init(struct near_fifo *f, size_t capacity)
{
	int saved = errno;

	memset(f, 0, sizeof(*f));
	if (!capacity || capacity > NEAR_FIFO_MAX_CAPACITY)
		return capacity ? -E2BIG : -EINVAL;
	f->cells = calloc(capacity, sizeof(*f->cells));
	errno = saved;
	f->capacity = capacity;
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

/* One sequence for all calls. */
static __attribute__((noinline)) void fifo_unlock(struct near_fifo *f)
{
	near_mutex_unlock(&f->lock);
}

/* Appends what there is room for, or takes what there is (`in`: NULL). */
static inline size_t fifo_move(struct near_fifo *f, void *const *in, void **out, size_t n)
{
	struct near_cond *c = in ? &f->elements : &f->room;
	size_t most = in ? f->capacity - f->count : f->count, k = n < most ? n : most;

	for (size_t i = 0; i < k; i++) {
		size_t at = in ? f->count + i : i, left = f->capacity - f->first;
		void **cell = &f->cells[at < left ? f->first + at : at - left];

		if (in)
			*cell = in[i];
		else
			out[i] = *cell;
	}
	if (!in)
		f->first = k < f->capacity - f->first ? f->first + k : k - (f->capacity - f->first);
	f->count += in ? k : -k;
	for (size_t i = 0; i < k && near__cond_is_waited_for(c); i++)
		near_cond_signal(c);
	return k;
}

/* Without the lock, which the other side may take. */
static void wait_awake(struct near_fifo *f, unsigned waits)
{
	fifo_unlock(f);
	if (waits)
		syscall(SYS_sched_yield);
	else
		near__pause_for(FIRST_PAUSE_NS);
	fifo_lock(f);
}

/* A put is done when all n are put, a get when it has one. */
static inline long fifo_move_all(struct near_fifo *f, void *const *in, void **out, size_t n,
				 const struct wait *w)
{
	struct near_cond *c = in ? &f->room : &f->elements;
	unsigned waits = 0;
	size_t done = 0;
	int r = 0;

	fifo_lock(f);
	for (;;) {
		if (!in || !f->closed)
			done += fifo_move(f, in ? in + done : NULL, out, n - done);
		if (done == n || (done && !in) || r)
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
	fifo_unlock(f);
	return done ? (long)done : r;
}

static long fifo_put(struct near_fifo *f, void *const *elements, size_t n, const struct wait *w)
{
	return fifo_move_all(f, elements, NULL, n, w);
}

static long fifo_get(struct near_fifo *f, void **elements, size_t n, const struct wait *w)
{
	return fifo_move_all(f, NULL, elements, n, w);
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

void near_fifo_close(struct near_fifo *f)
{
	fifo_lock(f);
	f->closed = 1;
	near_cond_broadcast(&f->elements);
	near_cond_broadcast(&f->room);
	fifo_unlock(f);
}

size_t near_fifo_count(struct near_fifo *f)
{
	size_t n;

	fifo_lock(f);
	n = f->count;
	fifo_unlock(f);
	return n;
}
