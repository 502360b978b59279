/* SPDX-License-Identifier: MIT */
/* window: what the programs behind `nearcpu bench locks`, `park`, `rwlock` and `atomic` have in
 * common.
 *
 * Threads do the same thing over and over for a window of time. A row is a loop around one kind of
 * lock, compiled with the lock's own inline functions: LOCK_ROW makes it. Each loop exists twice,
 * as taking the time of each acquisition costs more than many an acquisition.
 *
 * A program is main.c and a list of rows, `window_rows`. It measures one row, in a process of its
 * own, and prints what it found as JSON; the command makes tables of that. A row that waits for
 * something else than a lock writes its two loops itself: until window_is_over, counting in
 * t->done; the timed one notes each wait by window_note.
 *
 * To add a lock: one LOCK_ROW, one line in the list, one in bench/locks.c. The program must not
 * link third-party libraries: it loads them (nsync_functions.h).
 */
#ifndef BENCH_LOCKS_WINDOW_H
#define BENCH_LOCKS_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WINDOW_API __attribute__((visibility("default"))) /* for rows in modules */
#define LINE 128 /* two lines of 64: the neighbour is prefetched with it */
#define LOCK_BYTES 128

/* The lock and what it guards: a line each. The rest is read alone while threads run. */
struct window {
	char lock[LOCK_BYTES] __attribute__((aligned(LINE)));
	uint64_t count __attribute__((aligned(LINE))); /* guarded */
	uint32_t stop __attribute__((aligned(LINE)));
	uint32_t inside, outside; /* rounds of window_spin */
	uint32_t writes;          /* of 1,000 sections; where a lock has readers and writers */
	uint32_t threads;
	bool alone; /* set by `init`: the only thread of the process works */
};

struct window_thread {
	struct window *window;
	uint32_t index;
	uint64_t done;
	uint64_t counted; /* how often it added one to window->count */
} __attribute__((aligned(LINE)));

struct window_row {
	const char *name;
	const char *missing; /* why it cannot run, or NULL; of a module: if it is not there */
	void (*init)(struct window *w);
	void (*work)(struct window_thread *t);
	void (*timed)(struct window_thread *t);
	bool is_unlocked; /* counts may get lost */
	/* What the waiting threads do, until the second function ends it. NULL: there are none. */
	void (*stand_by)(struct window_thread *t);
	void (*end_stand_by)(struct window_thread *t);
	/* Of several things it does the one of that name; false: there is none. NULL: it does one.
	 */
	bool (*choose)(const char *name);
	/* What is wrong after a window, or NULL. NULL: `counted` is compared with window->count. */
	const char *(*check)(const struct window *w, const struct window_thread *threads);
	/* The file of the module that has the loops, and its row's name there; or NULL. */
	const char *module, *symbol;
};

/* Ends with NULL. */
extern const struct window_row *const window_rows[];

/* Ends the program; `what`: "missing" or "error". */
WINDOW_API void window_give_up(const char *what, const char *why) __attribute__((noreturn));

/* A multiplication each, so that a section has few enough for the CPU to foresee the last. One loop
 * for all rows, as a loop's place in memory can double its time. */
WINDOW_API void window_rounds(uint32_t rounds);

static inline void window_spin(uint32_t rounds)
{
	if (rounds)
		window_rounds(rounds);
}

static inline bool window_is_over(const struct window *w)
{
	return __atomic_load_n(&w->stop, __ATOMIC_RELAXED);
}

static inline uint64_t window_ns(void) { return now_ns(); }

/* Records how long a wait took: in a near_histogram. A function, as rows of other languages and in
 * modules call it. */
WINDOW_API void window_record(uint64_t ns);

/* A wait that began then is over. */
static inline void window_note(uint64_t began) { window_record(window_ns() - began); }

#define LOCK_LOOP(name, type, take, unlock, BEFORE, AFTER)                                         \
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
			unlock(lock);                                                              \
			window_spin(w->outside);                                                   \
		}                                                                                  \
		t->done = t->counted = n;                                                          \
	}

/* `setup` is a statement that makes the lock at `lock`. What a process does once, at the first use,
 * is done before the window, while there is one thread: to register for membarrier takes 20 ms
 * where others run. */
#define LOCK_ROW(row, label, type, setup, take, unlock)                                            \
	ROW_OF_LOCK(row, label, type, setup, take, unlock, false)
#define ROW_OF_LOCK(row, label, type, setup, take, unlock, is_unlocked)                            \
	LOCK_LOOP(row##_work, type, take, unlock, (void)0, (void)0)                                \
	LOCK_LOOP(row##_timed, type, take, unlock, uint64_t began = window_ns(),                   \
		  window_note(began))                                                              \
	static void row##_init(struct window *w)                                                   \
	{                                                                                          \
		type *lock = (type *)w->lock;                                                      \
                                                                                                   \
		setup;                                                                             \
		take(lock);                                                                        \
		unlock(lock);                                                                      \
	}                                                                                          \
	const struct window_row row = {label, 0, row##_init, row##_work, row##_timed, is_unlocked, \
				       0,     0, 0,          0,          0,           0};

/* Any row in C; what follows are further members. */
#define WINDOW_ROW(row, label, init_, work_, timed_, ...)                                          \
	const struct window_row row = {                                                            \
		.name = label, .init = init_, .work = work_, .timed = timed_, __VA_ARGS__};

#define MISSING_ROW(row, label, why) const struct window_row row = {.name = label, .missing = why};

/* The program links no library of a module, which is not installed. */
#define MODULE_ROW(row, label, file, row_there, why, ...)                                          \
	const struct window_row row = {                                                            \
		.name = label, .missing = why, .module = file, .symbol = row_there, __VA_ARGS__};

#ifdef __cplusplus
}
#endif

#endif
