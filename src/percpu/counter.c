/* SPDX-License-Identifier: MIT */
/* The slow paths and the reads of near_counter. */
#include <nearcpu/counter.h>

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "percpu/percpu.h"

#define LONGEST_TICK_NS 10000000u /* of any kernel */

int near_counter_init(struct near_counter *c)
{
	void *p;
	int r = near_percpu_alloc(sizeof(int64_t), sizeof(int64_t), &p);

	if (r)
		return r;
	memset(c, 0, sizeof(*c));
	c->p = p;
	return 0;
}

void near_counter_destroy(struct near_counter *c)
{
	near_percpu_free(c->p);
	c->p = NULL;
}

/* Relaxed: a counter orders nothing. Sequences never write this copy. */
static inline void add_to_fallback(int64_t *p, int64_t n)
{
	__atomic_fetch_add((int64_t *)near__fallback(p), n, __ATOMIC_RELAXED);
}

static __attribute__((noinline)) void add_again(int64_t *p, int64_t n)
{
	if (!NEAR__TRY(near__slot_open(p) != NEAR__NO_SLOT, near__counter_try_add(p, n)))
		add_to_fallback(p, n);
}

/* A thread that is dead for good saves no registers. */
void near__counter_add_slow(int64_t *p, int64_t n)
{
	if (near__self.state > NEAR__THREAD_LIVE)
		add_to_fallback(p, n);
	else
		add_again(p, n);
}

/* Sequences write their slots by plain stores of eight aligned bytes, so a load sees whole values.
 * Unsigned: sums wrap. */
static uint64_t counter_sum(const struct near_counter *c)
{
	uint64_t total = 0;

	for (unsigned s = 0; near_percpu_next(c->p, &s); s++)
		total += __atomic_load_n((uint64_t *)near_percpu_at(c->p, s), __ATOMIC_RELAXED);
	return total;
}

/* The base is loaded first, and its acquire pairs with the release in reset: the slots are then
 * read at least as new as the reset read them, so that what it took away is not missing from the
 * sum. */
int64_t near_counter_read(const struct near_counter *c)
{
	uint64_t base = (uint64_t)__atomic_load_n(&c->base, __ATOMIC_ACQUIRE);

	return (int64_t)(counter_sum(c) - base);
}

/* The slots are never cleared: a store from here could lose an add. The base moves up to the sum
 * instead, and what it moved by is the result, whatever ran in between. */
int64_t near_counter_reset(struct near_counter *c)
{
	int64_t base = __atomic_load_n(&c->base, __ATOMIC_ACQUIRE), now;

	do
		now = (int64_t)counter_sum(c);
	while (!__atomic_compare_exchange_n(&c->base, &base, now, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
	/* A count that was cached before differs from the new one by the result. */
	__atomic_store_n(&c->stamp, 0, __ATOMIC_RELEASE);
	return (int64_t)((uint64_t)now - (uint64_t)base);
}

/* Never 0: a stamp of 0 means that nothing is cached. */
static uint64_t coarse_ns(void)
{
	return near__clock_ns(CLOCK_MONOTONIC_COARSE) + 1;
}

/* How far the coarse clock may lag: it steps at the kernel's tick, so a count can be older than its
 * stamp by this time. Queried once; all threads store the same value. */
static uint64_t tick_ns(void)
{
	static uint64_t tick;
	uint64_t known = __atomic_load_n(&tick, __ATOMIC_RELAXED);
	struct timespec t;

	if (known)
		return known;
	if (clock_getres(CLOCK_MONOTONIC_COARSE, &t))
		return LONGEST_TICK_NS;
	known = near__nanoseconds(t);
	__atomic_store_n(&tick, known, __ATOMIC_RELAXED);
	return known;
}

/* One thread at a time fills the cache: of two, the slower would put its older sum under the stamp
 * of the faster. A writer that was lost in a fork has the number of another generation. */
static bool become_writer(struct near_counter *c)
{
	uint32_t self = __atomic_load_n(&near__process.forks, __ATOMIC_RELAXED) + 1;
	uint32_t was = __atomic_load_n(&c->writer, __ATOMIC_RELAXED);

	return was != self && __atomic_compare_exchange_n(&c->writer, &was, self, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

int64_t near_counter_read_cached(struct near_counter *c, uint64_t max_age_ns)
{
	uint64_t tick = tick_ns(), now, stamp;
	int64_t total;

	if (max_age_ns < tick)
		return near_counter_read(c);
	now = coarse_ns();
	/* Pairs with the release below: the cached sum is at least as new as its stamp. */
	stamp = __atomic_load_n(&c->stamp, __ATOMIC_ACQUIRE);
	if (stamp && (stamp >= now || now - stamp <= max_age_ns - tick))
		return __atomic_load_n(&c->cached, __ATOMIC_RELAXED);
	total = near_counter_read(c);
	if (become_writer(c)) {
		/* Computed again: this thread may have slept since, and another have been
		 * writer. */
		now = coarse_ns();
		total = near_counter_read(c);
		__atomic_store_n(&c->cached, total, __ATOMIC_RELAXED);
		__atomic_store_n(&c->stamp, now, __ATOMIC_RELEASE);
		__atomic_store_n(&c->writer, 0, __ATOMIC_RELEASE);
	}
	return total;
}

double near_rate_update(struct near_rate *r, int64_t count)
{
	uint64_t now = near__clock_ns(CLOCK_MONOTONIC);
	const struct near_rate was = *r;

	if (was.ns && now <= was.ns)
		return 0;
	*r = (struct near_rate){count, now};
	if (!was.ns)
		return 0;
	return (double)(int64_t)((uint64_t)count - (uint64_t)was.count) * 1e9 /
	       (double)(now - was.ns);
}
