/* SPDX-License-Identifier: MIT */
/* How long sections are, see section.h. */
#include "section.h"

#include "lot.h"

/* About what it takes to fetch a line from another CPU. */
#define SHORT_NS 35

/* One of so many sections that were waited for is timed: of those that seem short; and of others,
 * as it disturbs threads that have just found a common rhythm. Of one in 64, sections of 100 ns
 * lost 5 % of their throughput. A look at the clock that must ask the kernel is as rare. */
#define SELDOM 64
#define RARELY 1024
#define SLOW_CLOCK_NS 200

/* Of this thread: the section that it times. */
static __thread struct {
	const struct near_mutex *mutex;
	int64_t began;
	int64_t look_ns; /* what a look at the clock takes if nothing comes between */
	uint32_t skip;   /* so many before the next */
} timed __attribute__((tls_model("initial-exec")));

/* In ns, and 1 more; 0: not known yet. */
static uint32_t *shortest_of(const struct near_mutex *m)
{
	return &near__lot_bucket(m)->section;
}

static bool is_at_most(const struct near_mutex *m, uint32_t ns)
{
	uint32_t known = __atomic_load_n(shortest_of(m), __ATOMIC_RELAXED);

	return known && known - 1 <= ns;
}

bool near__section_is_short(const struct near_mutex *m)
{
	return is_at_most(m, SHORT_NS);
}

bool near__section_begin(const struct near_mutex *m)
{
	int64_t now, look_ns;

	if (timed.skip) {
		timed.skip--;
		return false;
	}
	now = near__now(CLOCK_MONOTONIC);
	timed.began = near__now(CLOCK_MONOTONIC);
	look_ns = timed.began - now;
	if (!timed.look_ns || look_ns < timed.look_ns)
		timed.look_ns = look_ns;
	timed.skip = is_at_most(m, 2 * SHORT_NS) && look_ns < SLOW_CLOCK_NS ? SELDOM : RARELY;
	timed.mutex = m;
	return true;
}

void near__section_end(const struct near_mutex *m)
{
	uint32_t *shortest = shortest_of(m), known;
	int64_t took;

	if (timed.mutex != m)
		return;
	timed.mutex = NULL;
	took = near__now(CLOCK_MONOTONIC) - timed.began - timed.look_ns;
	known = __atomic_load_n(shortest, __ATOMIC_RELAXED);
	if (!known || took < known)
		known = took < 0 ? 0 : took < UINT32_MAX - 1 ? (uint32_t)took : UINT32_MAX - 1;
	__atomic_store_n(shortest, known + 1, __ATOMIC_RELAXED);
}
