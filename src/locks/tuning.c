/* SPDX-License-Identifier: MIT */
/* What only saves time in near_mutex: the hold-time estimate, longer time slices, the unlock
 * budget. */
#include "locks/tuning.h"

#include "base/spin.h"
#include "locks/locks_state.h"
#include "locks/slice.h"
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

static void hold_time_begin(const struct near_mutex *m, struct near__timed *t)
{
	int64_t now = near__now(CLOCK_MONOTONIC), clock_ns;

	t->first = near__now(CLOCK_MONOTONIC);
	clock_ns = t->first - now;
	if (!t->clock_ns || clock_ns < t->clock_ns)
		t->clock_ns = clock_ns;
	t->skip = is_at_most(m, 2 * SHORT_NS) && clock_ns < SLOW_CLOCK_NS ? OFTEN : RARELY;
}

static void hold_time_end(const struct near_mutex *m, struct near__timed *t)
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
		hold_time_end(m, t);
	else
		hold_time_begin(m, t);
}

/* ---- for mutex.c ---- */

#ifndef NEAR__NO_TUNING

/* A waiter leaves the cache line alone before its first try, so that the thread that has the line
 * makes progress: many sections if the hold time is short (tuning.h), else about one. If it is
 * short, the next tries follow soon: a failed try has fetched the line, which the owner's unlock
 * fetches back in any case. If it is longer, each pause leaves time for another section. Each pause
 * after the first is longer than the one before (spin.h). */
#define FIRST_PAUSE_IF_SHORT_NS 1100
#define FIRST_PAUSE_IF_LONGER_NS 100
#define TRIES_IF_LONGER 7 /* in 950 ns */

/* The number of unlocks that use a CAS after a wait for a mutex with a longer hold time. */
#define UNLOCKS_BY_CAS 64

struct near__spinning near__tuning_before_wait(const struct near_mutex *m)
{
	bool is_short = near__hold_time_is_short(m);

	near__slice_end(); /* which another mutex requested that this thread holds */
	if (is_short)
		return (struct near__spinning){true, NEAR__SPIN_TRIES, FIRST_PAUSE_IF_SHORT_NS, 0};
	return (struct near__spinning){false, TRIES_IF_LONGER, FIRST_PAUSE_IF_LONGER_NS,
				       FIRST_PAUSE_IF_LONGER_NS};
}

/* Each thread that yields delays a holder that yields, or was preempted, by its spinning before: 32
 * threads that yield within the section made 1.2 million of them a second in place of .5
 * (pthread_mutex 1.3), while sections of 100 ns stayed as they were (AMD EPYC, Turin, 2 CPUs).
 * Shorter ones lost a fifth. */
#define YIELDS_NS 200

bool near__tuning_yields_again(const struct near_mutex *m)
{
	return __atomic_load_n(shortest_of(m), __ATOMIC_RELAXED) <= YIELDS_NS; /* or unknown */
}

void near__tuning_after_wait(const struct near_mutex *m)
{
	unsigned budget = near__hold_time_waited(m);

	if (near__slice_begin() && !budget)
		budget = 1;
	if (!near__hold_time_is_short(m))
		budget = UNLOCKS_BY_CAS;
	if (near__more.owner != NEAR__NO_OWNER) /* else the library sees all unlocks */
		near__more.owner = (uint32_t)near__more.owner | budget * NEAR__EXPECTED;
}

void near__tuning_after_unlock(const struct near_mutex *m)
{
	if (near__more.owner >= NEAR__EXPECTED)
		near__more.owner -= NEAR__EXPECTED;
	near__slice_end();
	near__hold_time_unlocked(m);
}

/* ---- budgets of a thread ---- */

/* A fence interrupts each CPU that runs a thread of the process, for about 1 us. ATOMIC_UNLOCK
 * costs an unlock about 10 ns more. With two CPUs, the fence is needed for the other one anyway. */
#define UNLOCKS_PER_CPU 100
#define FEW_CPUS 2

/* Relaxed: all threads find the same. */
uint32_t near__tuning_unlocks_per_fence(void)
{
	uint32_t n = __atomic_load_n(&near__locks.unlocks_per_fence, __ATOMIC_RELAXED);

	if (!n && near__process_init()) {
		n = near__process.cpus <= FEW_CPUS ? 1 : near__process.cpus * UNLOCKS_PER_CPU;
		__atomic_store_n(&near__locks.unlocks_per_fence, n, __ATOMIC_RELAXED);
	}
	return n;
}

/* A thread without a block leaves that to others. */
bool near__tuning_has_paid_for_fence(void)
{
	struct near__locks_thread *mine = near__locks_thread_own();

	if (mine && ++mine->atomic_unlocks < near__tuning_unlocks_per_fence())
		return false;
	if (mine)
		mine->atomic_unlocks = 0;
	return mine;
}

/* A thread searches the queue at one of this many unlocks while there is a designated waker. A
 * search costs some 100 ns, an unlock 10. */
#define UNLOCKS_PER_SEARCH 32

/* A thread without a block searches at each. */
bool near__tuning_is_time_to_search(void)
{
	struct near__locks_thread *mine = near__locks_thread_own();

	return !mine || ++mine->unlocks % UNLOCKS_PER_SEARCH == 0;
}

#endif
