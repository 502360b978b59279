/* SPDX-License-Identifier: MIT */
/* The hold-time estimate of mutexes. */
#include "hold_time.h"

#include "parking/lot.h"

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

/* Of this thread. */
static __thread struct {
	const struct near_mutex *mutex; /* whose next unlocks are measured */
	int64_t first;                  /* the time of the first of them; 0: not yet */
	int64_t clock_ns;               /* the shortest time of a reading of the clock */
	uint32_t skip;                  /* waits until the next measurement */
} timed __attribute__((tls_model("initial-exec")));

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

unsigned near__hold_time_waited(const struct near_mutex *m)
{
	timed.mutex = NULL;
	if (timed.skip) {
		timed.skip--;
		return 0;
	}
	timed.mutex = m;
	timed.first = 0;
	return 2;
}

static void begin(const struct near_mutex *m)
{
	int64_t now = near__now(CLOCK_MONOTONIC), clock_ns;

	timed.first = near__now(CLOCK_MONOTONIC);
	clock_ns = timed.first - now;
	if (!timed.clock_ns || clock_ns < timed.clock_ns)
		timed.clock_ns = clock_ns;
	timed.skip = is_at_most(m, 2 * SHORT_NS) && clock_ns < SLOW_CLOCK_NS ? OFTEN : RARELY;
}

static void end(const struct near_mutex *m)
{
	int64_t took = near__now(CLOCK_MONOTONIC) - timed.first - timed.clock_ns;
	uint32_t known = __atomic_load_n(shortest_of(m), __ATOMIC_RELAXED);

	timed.mutex = NULL;
	if (!known || took < known)
		known = took < 0 ? 0 : took < LONGEST ? (uint32_t)took : LONGEST;
	__atomic_store_n(shortest_of(m), known < LONGEST ? known + 1 : LONGEST + 1,
			 __ATOMIC_RELAXED);
}

void near__hold_time_unlocked(const struct near_mutex *m)
{
	if (timed.mutex != m)
		return;
	if (timed.first)
		end(m);
	else
		begin(m);
}
