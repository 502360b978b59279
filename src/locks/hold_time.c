/* SPDX-License-Identifier: MIT */
/* The hold-time estimate of mutexes. */
#include "hold_time.h"

#include "parking/lot.h"
#include "state.h"

/* Measured with two threads on two cores: leaving the line alone wins with 40 ns inside and 80
 * outside the section, and loses with 70 and 140. Any limit from 100 to 150 separates them. */
#define SHORT_NS 120

/* One of this many waits is followed by a measurement: OFTEN for short hold times; RARELY for
 * others, since it disturbs threads that have just found a common rhythm (after one in 64, sections
 * of 100 ns lost 5 % of their throughput), and where reading the clock takes a system call. */
#define OFTEN 64
#define RARELY 1024
#define SLOW_CLOCK_NS 200

/* The longest time that can be stored, plus 1. */
#define LONGEST (UINT32_MAX - 1)

/* In ns, plus 1; 0: not known yet. */
static uint32_t *shortest_of(const struct near_mutex *m)
{
	return &near__lot_bucket(m)->hold_time;
}

static bool is_at_most(const struct near_mutex *m, uint32_t ns)
{
	uint32_t known = __atomic_load_n(shortest_of(m), __ATOMIC_RELAXED);

	return known && known - 1 <= ns;
}

bool near__hold_time_is_short(const struct near_mutex *m)
{
	return is_at_most(m, SHORT_NS);
}

/* A thread without a block measures nothing. */
unsigned near__hold_time_waited(const struct near_mutex *m)
{
	struct near__locks_thread *mine = near__locks_thread_own();

	if (!mine)
		return 0;
	mine->timed.mutex = NULL;
	if (mine->timed.skip) {
		mine->timed.skip--;
		return 0;
	}
	mine->timed.mutex = m;
	mine->timed.first = 0;
	return 2;
}

static void begin(const struct near_mutex *m, struct near__timed *t)
{
	int64_t now = near__now(CLOCK_MONOTONIC), clock_ns;

	t->first = near__now(CLOCK_MONOTONIC);
	clock_ns = t->first - now;
	if (!t->clock_ns || clock_ns < t->clock_ns)
		t->clock_ns = clock_ns;
	t->skip = is_at_most(m, 2 * SHORT_NS) && clock_ns < SLOW_CLOCK_NS ? OFTEN : RARELY;
}

static void end(const struct near_mutex *m, struct near__timed *t)
{
	int64_t took = near__now(CLOCK_MONOTONIC) - t->first - t->clock_ns;
	uint32_t known = __atomic_load_n(shortest_of(m), __ATOMIC_RELAXED);

	t->mutex = NULL;
	if (!known || took < known)
		known = took < 0 ? 0 : took < LONGEST ? (uint32_t)took : LONGEST;
	__atomic_store_n(shortest_of(m), known < LONGEST ? known + 1 : LONGEST + 1,
			 __ATOMIC_RELAXED);
}

void near__hold_time_unlocked(const struct near_mutex *m)
{
	struct near__timed *t = &near__locks_thread_peek()->timed;

	if (t->mutex != m)
		return;
	if (t->first)
		end(m, t);
	else
		begin(m, t);
}
