/* SPDX-License-Identifier: MIT */
/* Rows of nearcpu-locks in which producers and consumers share a bounded queue, under a mutex with
 * two condition variables: the first half of the threads puts, the other half gets. Each signals
 * after each element, with the mutex held or after the unlock. An operation is an element that is
 * put or taken. */
#include "rows.h"

#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <pthread.h>
#include <string.h>

#define ROOM 64

static bool signals_locked;

static bool choose(const char *name)
{
	signals_locked = strcmp(name, "locked") == 0;
	return signals_locked || strcmp(name, "unlocked") == 0;
}

static unsigned elements __attribute__((aligned(LINE))); /* guarded */

/* A thread that finds the window over ends the waits of all others. */
#define SIGNAL_ROW(row, label, mutex_type, cond_type, lock, unlock, wait, signal, broadcast, ...)  \
	static struct {                                                                            \
		mutex_type mutex;                                                                  \
		cond_type element, room;                                                           \
	} row##_of;                                                                                \
	static void row##_init(struct window *w)                                                   \
	{                                                                                          \
		(void)w;                                                                           \
		elements = 0;                                                                      \
		__VA_ARGS__;                                                                       \
	}                                                                                          \
	static void row##_loop(struct window_thread *t, bool timed)                                \
	{                                                                                          \
		bool puts = t->index < t->window->threads / 2;                                     \
		cond_type *mine = puts ? &row##_of.room : &row##_of.element;                       \
		cond_type *other = puts ? &row##_of.element : &row##_of.room;                      \
                                                                                                   \
		while (!window_is_over(t->window)) {                                               \
			uint64_t began = timed ? window_ns() : 0;                                  \
                                                                                                   \
			lock(&row##_of.mutex);                                                     \
			while (elements == (puts ? ROOM : 0) && !window_is_over(t->window))        \
				wait(mine, &row##_of.mutex);                                       \
			if (timed)                                                                 \
				window_note(began);                                                \
			if (elements != (puts ? ROOM : 0)) {                                       \
				elements += puts ? 1 : -1u;                                        \
				t->done++;                                                         \
			}                                                                          \
			if (signals_locked)                                                        \
				signal(other);                                                     \
			unlock(&row##_of.mutex);                                                   \
			if (!signals_locked)                                                       \
				signal(other);                                                     \
		}                                                                                  \
		lock(&row##_of.mutex);                                                             \
		broadcast(mine);                                                                   \
		broadcast(other);                                                                  \
		unlock(&row##_of.mutex);                                                           \
	}                                                                                          \
	static void row##_work(struct window_thread *t)                                            \
	{                                                                                          \
		row##_loop(t, false);                                                              \
	}                                                                                          \
	static void row##_timed(struct window_thread *t)                                           \
	{                                                                                          \
		row##_loop(t, true);                                                               \
	}                                                                                          \
	const struct window_row row = {label, 0, row##_init, row##_work, row##_timed,              \
				       false, 0, 0,          choose,     0};

SIGNAL_ROW(row_pthread_signal, "pthread-signal", pthread_mutex_t, pthread_cond_t,
	   pthread_mutex_lock, pthread_mutex_unlock, pthread_cond_wait, pthread_cond_signal,
	   pthread_cond_broadcast, pthread_mutex_init(&row_pthread_signal_of.mutex, NULL),
	   pthread_cond_init(&row_pthread_signal_of.element, NULL),
	   pthread_cond_init(&row_pthread_signal_of.room, NULL))

SIGNAL_ROW(row_near_signal, "near-signal", struct near_mutex, struct near_cond, near_mutex_lock,
	   near_mutex_unlock, near_cond_wait, near_cond_signal, near_cond_broadcast,
	   memset(&row_near_signal_of, 0, sizeof(row_near_signal_of)))
