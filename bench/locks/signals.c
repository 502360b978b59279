/* SPDX-License-Identifier: MIT */
/* Rows of nearcpu-locks in which producers and consumers share a bounded queue, under a mutex with
 * two condition variables: the first half of the threads puts, the other half gets. Each signals
 * after each element, with the mutex held or after the unlock. An operation is an element that is
 * put or taken. */
#include "locks/rows.h"

#include <nearcpu/cond.h>
#include <nearcpu/mutex.h>
#include <pthread.h>

#define ROOM 64

static bool signals_locked;

static bool choose(const char *name)
{
	signals_locked = strcmp(name, "locked") == 0;
	return signals_locked || strcmp(name, "unlocked") == 0;
}

static unsigned elements __attribute__((aligned(LINE))); /* guarded */

/* A thread that finds the window over ends the waits of all others. */
#define SIGNAL_ROW(row, label, mutex_type, cond_type, x, ...)                                      \
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
			x##_mutex_lock(&row##_of.mutex);                                           \
			while (elements == (puts ? ROOM : 0) && !window_is_over(t->window))        \
				x##_cond_wait(mine, &row##_of.mutex);                              \
			if (timed)                                                                 \
				window_note(began);                                                \
			if (elements != (puts ? ROOM : 0)) {                                       \
				elements += puts ? 1 : -1u;                                        \
				t->done++;                                                         \
			}                                                                          \
			if (signals_locked)                                                        \
				x##_cond_signal(other);                                            \
			x##_mutex_unlock(&row##_of.mutex);                                         \
			if (!signals_locked)                                                       \
				x##_cond_signal(other);                                            \
		}                                                                                  \
		x##_mutex_lock(&row##_of.mutex);                                                   \
		x##_cond_broadcast(mine);                                                          \
		x##_cond_broadcast(other);                                                         \
		x##_mutex_unlock(&row##_of.mutex);                                                 \
	}                                                                                          \
	TWO_LOOPS(row)                                                                             \
	GROUP_ROW(row, label)

SIGNAL_ROW(row_pthread_signal, "pthread-signal", pthread_mutex_t, pthread_cond_t, pthread,
	   pthread_mutex_init(&row_pthread_signal_of.mutex, NULL),
	   pthread_cond_init(&row_pthread_signal_of.element, NULL),
	   pthread_cond_init(&row_pthread_signal_of.room, NULL))

SIGNAL_ROW(row_near_signal, "near-signal", struct near_mutex, struct near_cond, near,
	   memset(&row_near_signal_of, 0, sizeof(row_near_signal_of)))
