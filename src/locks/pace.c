/* SPDX-License-Identifier: MIT */
/* How soon mutexes are taken again, see pace.h. */
#include "pace.h"

#include "parking/lot.h"

/* Measured with two threads on two cores: staying away wins where each has 40 ns to do inside and
 * 80 outside, and loses with 70 and 140. Any limit from 100 to 150 tells them apart. */
#define QUICK_NS 120

/* After one of so many waits the time is taken: for mutexes that seem quick; and for others, as it
 * disturbs threads that have just found a common rhythm. After one in 64, sections of 100 ns lost
 * 5 % of their throughput. A look at the clock that must ask the kernel is as rare. */
#define SELDOM 64
#define RARELY 1024
#define SLOW_CLOCK_NS 200

/* What fits into a bucket, with 1 more. */
#define LONGEST (UINT32_MAX - 1)

/* Of this thread. */
static __thread struct {
	const struct near_mutex *mutex; /* whose unlocks are looked at */
	int64_t first;                  /* when it was let go of; 0: not yet */
	int64_t look_ns;                /* what a look at the clock takes, at best */
	uint32_t skip;                  /* so many waits before the next that counts */
} timed __attribute__((tls_model("initial-exec")));

/* In ns, and 1 more; 0: not known yet. */
static uint32_t *shortest_of(const struct near_mutex *m)
{
	return &near__lot_bucket(m)->pace;
}

static bool is_at_most(const struct near_mutex *m, uint32_t ns)
{
	uint32_t known = __atomic_load_n(shortest_of(m), __ATOMIC_RELAXED);

	return known && known - 1 <= ns;
}

bool near__pace_is_quick(const struct near_mutex *m)
{
	return is_at_most(m, QUICK_NS);
}

unsigned near__pace_waited(const struct near_mutex *m)
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
	int64_t now = near__now(CLOCK_MONOTONIC), look_ns;

	timed.first = near__now(CLOCK_MONOTONIC);
	look_ns = timed.first - now;
	if (!timed.look_ns || look_ns < timed.look_ns)
		timed.look_ns = look_ns;
	timed.skip = is_at_most(m, 2 * QUICK_NS) && look_ns < SLOW_CLOCK_NS ? SELDOM : RARELY;
}

static void end(const struct near_mutex *m)
{
	int64_t took = near__now(CLOCK_MONOTONIC) - timed.first - timed.look_ns;
	uint32_t known = __atomic_load_n(shortest_of(m), __ATOMIC_RELAXED);

	timed.mutex = NULL;
	if (!known || took < known)
		known = took < 0 ? 0 : took < LONGEST ? (uint32_t)took : LONGEST;
	__atomic_store_n(shortest_of(m), known < LONGEST ? known + 1 : LONGEST + 1,
			 __ATOMIC_RELAXED);
}

void near__pace_unlocked(const struct near_mutex *m)
{
	if (timed.mutex != m)
		return;
	if (timed.first)
		end(m);
	else
		begin(m);
}
