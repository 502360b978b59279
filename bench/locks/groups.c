/* SPDX-License-Identifier: MIT */
/* Rows of nearcpu-locks in which one thread wakes all others: barriers, and broadcasts of a
 * condition variable. An operation is a wait of one thread. A window ends with the round in which
 * the first thread sees that it is over, as a round needs all threads. */
#include "bench.h"
#include "locks/rows.h"

#include <nearcpu/barrier.h>
#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <pthread.h>

#define NEVER UINT64_MAX

static bool is_pinned;

static bool choose(const char *name)
{
	is_pinned = strcmp(name, "pinned") == 0;
	return is_pinned || strcmp(name, "free") == 0;
}

/* The n-th thread to the n-th CPU of this process, over and over. */
static void pin(unsigned n)
{
	if (is_pinned)
		bench_pin(bench_allowed_cpu(n));
}

/* ---- barriers ---- */

static uint64_t last_round __attribute__((aligned(LINE)));

/* The first thread sets `last_round` before it arrives in that round, and does not change it
 * afterwards: the others load it after the barrier of the same round. */
#define BARRIER_LOOP(name, type, wait, NOTE)                                                       \
	static void name(struct window_thread *t)                                                  \
	{                                                                                          \
		type *barrier = (type *)t->window->lock;                                           \
		uint64_t round = 0;                                                                \
                                                                                                   \
		pin(t->index);                                                                     \
		do {                                                                               \
			uint64_t began = NOTE ? window_ns() : 0;                                   \
                                                                                                   \
			round++;                                                                   \
			if (t->index == 0 && window_is_over(t->window))                            \
				__atomic_store_n(&last_round, round, __ATOMIC_RELAXED);            \
			wait(barrier);                                                             \
			if (NOTE)                                                                  \
				window_note(began);                                                \
		} while (__atomic_load_n(&last_round, __ATOMIC_RELAXED) > round);                  \
		t->done = round;                                                                   \
	}

#define BARRIER_ROW(row, label, type, wait)                                                        \
	BARRIER_LOOP(row##_work, type, wait, false)                                                \
	BARRIER_LOOP(row##_timed, type, wait, true)                                                \
	GROUP_ROW(row, label)

static void row_pthread_barrier_init(struct window *w)
{
	last_round = NEVER;
	pthread_barrier_init((pthread_barrier_t *)w->lock, NULL, w->threads);
}
BARRIER_ROW(row_pthread_barrier, "pthread_barrier", pthread_barrier_t, pthread_barrier_wait)

static void row_near_barrier_init(struct window *w)
{
	last_round = NEVER;
	*(struct near_barrier *)w->lock = (struct near_barrier)NEAR_BARRIER_INIT(w->threads);
}
BARRIER_ROW(row_near_barrier, "near-barrier", struct near_barrier, near_barrier_wait)

/* ---- broadcasts: the first thread sends one when all others have received the last ---- */

static struct {
	uint64_t round;
	unsigned received;
	bool over;
} sent __attribute__((aligned(LINE)));

#define COND_ROW(row, label, mutex_type, cond_type, x, ...)                                        \
	static struct {                                                                            \
		mutex_type mutex;                                                                  \
		cond_type next, all;                                                               \
	} row##_of;                                                                                \
	static void row##_init(struct window *w)                                                   \
	{                                                                                          \
		(void)w;                                                                           \
		memset(&sent, 0, sizeof(sent));                                                    \
		__VA_ARGS__;                                                                       \
	}                                                                                          \
	static void row##_send(struct window_thread *t)                                            \
	{                                                                                          \
		unsigned others = t->window->threads - 1;                                          \
                                                                                                   \
		x##_mutex_lock(&row##_of.mutex);                                                   \
		while (!sent.over) {                                                               \
			sent.over = window_is_over(t->window);                                     \
			sent.received = 0;                                                         \
			sent.round++;                                                              \
			x##_cond_broadcast(&row##_of.next);                                        \
			while (sent.received < others)                                             \
				x##_cond_wait(&row##_of.all, &row##_of.mutex);                     \
			t->done++;                                                                 \
		}                                                                                  \
		x##_mutex_unlock(&row##_of.mutex);                                                 \
	}                                                                                          \
	static void row##_loop(struct window_thread *t, bool timed)                                \
	{                                                                                          \
		pin(t->index);                                                                     \
		if (t->index == 0) {                                                               \
			row##_send(t);                                                             \
			return;                                                                    \
		}                                                                                  \
		x##_mutex_lock(&row##_of.mutex);                                                   \
		for (uint64_t round = 0; !sent.over || round < sent.round; t->done++) {            \
			uint64_t began = timed ? window_ns() : 0;                                  \
                                                                                                   \
			while (sent.round == round)                                                \
				x##_cond_wait(&row##_of.next, &row##_of.mutex);                    \
			round = sent.round;                                                        \
			if (timed)                                                                 \
				window_note(began);                                                \
			if (++sent.received == t->window->threads - 1)                             \
				x##_cond_signal(&row##_of.all);                                    \
		}                                                                                  \
		x##_mutex_unlock(&row##_of.mutex);                                                 \
	}                                                                                          \
	TWO_LOOPS(row)                                                                             \
	GROUP_ROW(row, label)

COND_ROW(row_pthread_cond, "pthread_cond", pthread_mutex_t, pthread_cond_t, pthread,
	 pthread_mutex_init(&row_pthread_cond_of.mutex, NULL),
	 pthread_cond_init(&row_pthread_cond_of.next, NULL),
	 pthread_cond_init(&row_pthread_cond_of.all, NULL))

COND_ROW(row_near_cond, "near-cond", struct near_mutex, struct near_cond, near,
	 memset(&row_near_cond_of, 0, sizeof(row_near_cond_of)))
