/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-queues: ours, and a ring under a pthread_mutex. */
#include "queue/rows.h"

#include <nearcpu/fifo.h>
#include <nearcpu/queue.h>
#include <pthread.h>

uint32_t queue_putters;

/* ---- near_queue ---- */

static struct near_queue queue;

/* As many rings as CPUs, or as threads that put. */
static void queue_begin(struct window *w)
{
	unsigned rings = near_cpus() < w->threads / 2 ? near_cpus() : w->threads / 2;

	if (queue.p)
		near_queue_destroy(&queue);
	if (near_queue_init(&queue, CAPACITY / rings > 16 ? CAPACITY / rings : 16))
		window_give_up("error", "not enough memory");
}

/* x_wait: the same with waiting. */
#define OURS(x)                                                                                    \
	static bool x##_put(uint64_t e)                                                            \
	{                                                                                          \
		return near_##x##_try_put(&x, (void *)(uintptr_t)e) == 0;                          \
	}                                                                                          \
	static uint64_t x##_get(void)                                                              \
	{                                                                                          \
		void *e;                                                                           \
                                                                                                   \
		return near_##x##_try_get(&x, &e) ? 0 : (uintptr_t)e;                              \
	}                                                                                          \
	static bool x##_wait_put(uint64_t e)                                                       \
	{                                                                                          \
		return near_##x##_put(&x, (void *)(uintptr_t)e) == 0;                              \
	}                                                                                          \
	static uint64_t x##_wait_wait(void)                                                        \
	{                                                                                          \
		void *e;                                                                           \
                                                                                                   \
		return near_##x##_get(&x, &e) ? 0 : (uintptr_t)e;                                  \
	}                                                                                          \
	static void x##_wait_end(struct window *w)                                                 \
	{                                                                                          \
		(void)w;                                                                           \
		near_##x##_close(&x);                                                              \
	}

OURS(queue)
#define queue_wait_get queue_get
#define queue_wait_begin queue_begin
TRY_ROW(row_near, "near", queue)
WAIT_ROW(row_near_wait, "near-wait", queue_wait)

/* ---- near_fifo ---- */

static struct near_fifo fifo;

static void fifo_begin(struct window *w)
{
	(void)w;
	if (fifo.cells)
		near_fifo_destroy(&fifo);
	if (near_fifo_init(&fifo, CAPACITY))
		window_give_up("error", "not enough memory");
}

OURS(fifo)
#define fifo_wait_get fifo_get
#define fifo_wait_begin fifo_begin
TRY_ROW(row_near_fifo, "near-fifo", fifo)
WAIT_ROW(row_near_fifo_wait, "near-fifo-wait", fifo_wait)

/* ---- pthread ---- */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t elements, room;
	uint64_t first, count;
	bool closed;
	uint64_t cells[CAPACITY];
} bounded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void pthread_wait_begin(struct window *w)
{
	(void)w;
	pthread_cond_init(&bounded.elements, NULL);
	pthread_cond_init(&bounded.room, NULL);
	bounded.first = bounded.count = 0;
	bounded.closed = false;
}

static bool pthread_wait_put(uint64_t e)
{
	pthread_mutex_lock(&bounded.lock);
	while (bounded.count == CAPACITY)
		pthread_cond_wait(&bounded.room, &bounded.lock);
	bounded.cells[(bounded.first + bounded.count++) % CAPACITY] = e;
	pthread_cond_signal(&bounded.elements);
	pthread_mutex_unlock(&bounded.lock);
	return true;
}

static uint64_t pthread_wait_wait(void)
{
	uint64_t e = 0;

	pthread_mutex_lock(&bounded.lock);
	while (!bounded.count && !bounded.closed)
		pthread_cond_wait(&bounded.elements, &bounded.lock);
	if (bounded.count) {
		e = bounded.cells[bounded.first++ % CAPACITY];
		bounded.count--;
		pthread_cond_signal(&bounded.room);
	}
	pthread_mutex_unlock(&bounded.lock);
	return e;
}

static uint64_t pthread_wait_get(void) { return bounded.count ? pthread_wait_wait() : 0; }

static void pthread_wait_end(struct window *w)
{
	(void)w;
	pthread_mutex_lock(&bounded.lock);
	bounded.closed = true;
	pthread_cond_broadcast(&bounded.elements);
	pthread_mutex_unlock(&bounded.lock);
}

WAIT_ROW(row_pthread_wait, "pthread-wait", pthread_wait)
