/* SPDX-License-Identifier: MIT */
/* window: what the rows of `nearcpu bench locks` have in common.
 *
 * Threads take one lock over and over for a window of time. A row is a loop around one kind of
 * lock, compiled with the lock's own inline functions: LOCK_ROW makes it. Each loop exists twice,
 * as taking the time of each acquisition costs more than many an acquisition.
 *
 * To add a lock: one LOCK_ROW, one line in main.c.
 */
#ifndef BENCH_LOCKS_WINDOW_H
#define BENCH_LOCKS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LINE 128 /* two lines of 64: the neighbour is prefetched with it */
#define LOCK_BYTES 128
#define BUCKETS 512 /* eight for each power of two */

/* The lock and what it guards: a line each. The rest is read alone while threads run. */
struct window {
	char lock[LOCK_BYTES] __attribute__((aligned(LINE)));
	uint64_t count __attribute__((aligned(LINE))); /* guarded */
	uint32_t stop __attribute__((aligned(LINE)));
	uint32_t inside, outside; /* rounds of window_spin */
};

struct window_thread {
	struct window *window;
	uint64_t done;
	uint64_t waits[BUCKETS]; /* acquisitions by how long they took, in ns */
} __attribute__((aligned(LINE)));

struct window_row {
	const char *name;
	const char *missing; /* why it cannot run, or NULL */
	void (*init)(struct window *w);
	void (*work)(struct window_thread *t);
	void (*timed)(struct window_thread *t);
};

/* About a cycle each, which the compiler must keep. */
static inline void window_spin(uint32_t rounds)
{
	for (; rounds; rounds--)
		__asm__ volatile("" : "+r"(rounds));
}

static inline bool window_is_over(const struct window *w)
{
	return __atomic_load_n(&w->stop, __ATOMIC_RELAXED);
}

static inline uint64_t window_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline unsigned window_bucket(uint64_t ns)
{
	unsigned power = 63 - (unsigned)__builtin_clzll(ns | 8);

	return (power - 3) * 8 + (unsigned)(ns >> (power - 3));
}

#define LOCK_LOOP(name, type, take, let_go, BEFORE, AFTER)                                         \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		struct window *w = t->window;                                                      \
		type *lock = (type *)w->lock;                                                      \
		uint64_t n = 0;                                                                    \
                                                                                                   \
		for (; !window_is_over(w); n++) {                                                  \
			BEFORE;                                                                    \
			take(lock);                                                                \
			AFTER;                                                                     \
			w->count++;                                                                \
			window_spin(w->inside);                                                    \
			let_go(lock);                                                              \
			window_spin(w->outside);                                                   \
		}                                                                                  \
		t->done = n;                                                                       \
	}

#define LOCK_ROW(row, label, type, setup, take, let_go)                                            \
	LOCK_LOOP(row##_work, type, take, let_go, (void)0, (void)0)                                \
	LOCK_LOOP(row##_timed, type, take, let_go, uint64_t began = window_ns(),                   \
		  t->waits[window_bucket(window_ns() - began)]++)                                  \
	static void row##_init(struct window *w)                                                   \
	{                                                                                          \
		setup((type *)w->lock);                                                            \
	}                                                                                          \
	const struct window_row row = {label, 0, row##_init, row##_work, row##_timed};

#ifdef __cplusplus
}
#endif

#endif
