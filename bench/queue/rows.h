/* SPDX-License-Identifier: MIT */
/* rows: the loops of nearcpu-queues. Half of the threads put, half get. An element is a number
 * other than 0; in the timed loops the time at which its put began, so that a get notes how long
 * the element took from hand to hand.
 *
 * A row is compiled with its queue's own inline functions:
 *
 *     bool X_put(uint64_t element)     X_put of TRY_ROW: false, the queue is full
 *     uint64_t X_get(void)             0: it is empty; of WAIT_ROW: the end
 *     void X_begin(struct window *w)   a new queue
 *     void X_end(struct window *w)     WAIT_ROW alone: when nobody puts any more; no get waits
 */
#ifndef BENCH_QUEUE_ROWS_H
#define BENCH_QUEUE_ROWS_H

#include "locks/window.h"

#include <sched.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Elements that all queues together have room for where as many threads put as there are CPUs. */
#define CAPACITY 1024

extern const struct window_row row_pthread_wait, row_near, row_near_fifo, row_near_wait,
	row_near_fifo_wait, row_ck, row_urcu, row_boost, row_moodycamel, row_moodycamel_wait;

/* Threads that put and have not ended. */
extern uint32_t queue_putters __attribute__((visibility("default")));

static inline bool queue_is_putter(const struct window_thread *t) { return t->index % 2 == 0; }

/* Whether the calling thread was the last one that puts. */
static inline bool queue_ends_puts(void)
{
	return __atomic_sub_fetch(&queue_putters, 1, __ATOMIC_ACQ_REL) == 0;
}

static inline void queue_count_putters(const struct window *w)
{
	__atomic_store_n(&queue_putters, w->threads / 2, __ATOMIC_RELAXED);
}

/* What was put and not taken. */
static inline const char *queue_check(const struct window *w, const struct window_thread *threads,
				      uint64_t (*get)(void))
{
	uint64_t puts = 0, gets = 0;

	for (uint32_t i = 0; i < w->threads; i++)
		*(queue_is_putter(&threads[i]) ? &puts : &gets) += threads[i].done;
	while (gets <= puts && get())
		gets++;
	return gets == puts ? 0 : "wrong result: elements were lost, or taken twice";
}

/* Nobody to wait for: the CPU goes to another thread. */
static inline void queue_pause(void) { sched_yield(); }

#define PUT_LOOP(name, put, element, END)                                                          \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		struct window *w = t->window;                                                      \
		uint64_t n = 0;                                                                    \
                                                                                                   \
		while (!window_is_over(w)) {                                                       \
			uint64_t e = element;                                                      \
                                                                                                   \
			while (!put(e)) {                                                          \
				if (window_is_over(w))                                             \
					goto over;                                                 \
				queue_pause();                                                     \
			}                                                                          \
			n++;                                                                       \
			window_spin(w->outside);                                                   \
		}                                                                                  \
over:                                                                                              \
		t->done = n;                                                                       \
		END;                                                                               \
	}

#define TRY_GET_LOOP(name, get, NOTE)                                                              \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		struct window *w = t->window;                                                      \
		uint64_t n = 0, e;                                                                 \
                                                                                                   \
		for (;;) {                                                                         \
			e = get();                                                                 \
			if (e) {                                                                   \
				NOTE;                                                              \
				n++;                                                               \
			} else if (window_is_over(w)) {                                            \
				break;                                                             \
			} else {                                                                   \
				queue_pause();                                                     \
			}                                                                          \
		}                                                                                  \
		t->done = n;                                                                       \
	}

#define WAIT_GET_LOOP(name, get, NOTE)                                                             \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		uint64_t n = 0, e;                                                                 \
                                                                                                   \
		for (; (e = get()); n++)                                                           \
			NOTE;                                                                      \
		t->done = n;                                                                       \
	}

#define QUEUE_ROW(row, label, x, GET_LOOP, get, END)                                               \
	PUT_LOOP(row##_puts, x##_put, n + 1, END)                                                  \
	PUT_LOOP(row##_puts_timed, x##_put, window_ns(), END)                                      \
	GET_LOOP(row##_gets, get, (void)0)                                                         \
	GET_LOOP(row##_gets_timed, get, window_note(e))                                            \
	static void row##_work(struct window_thread *t)                                            \
	{                                                                                          \
		(queue_is_putter(t) ? row##_puts : row##_gets)(t);                                 \
	}                                                                                          \
	static void row##_timed(struct window_thread *t)                                           \
	{                                                                                          \
		(queue_is_putter(t) ? row##_puts_timed : row##_gets_timed)(t);                     \
	}                                                                                          \
	static void row##_init(struct window *w)                                                   \
	{                                                                                          \
		if (w->threads % 2)                                                                \
			window_give_up("missing", "half of the threads put, half get");            \
		queue_count_putters(w);                                                            \
		x##_begin(w);                                                                      \
	}                                                                                          \
	static const char *row##_check(const struct window *w,                                     \
				       const struct window_thread *threads)                        \
	{                                                                                          \
		return queue_check(w, threads, x##_get);                                           \
	}                                                                                          \
	const struct window_row row = {label, 0, row##_init, row##_work,  row##_timed, false,      \
				       0,     0, 0,          row##_check, 0,           0};

#define TRY_ROW(row, label, x) QUEUE_ROW(row, label, x, TRY_GET_LOOP, x##_get, (void)0)
#define WAIT_ROW(row, label, x)                                                                    \
	QUEUE_ROW(row, label, x, WAIT_GET_LOOP, x##_wait, if (queue_ends_puts()) x##_end(w))

#ifdef __cplusplus
}
#endif

#endif
