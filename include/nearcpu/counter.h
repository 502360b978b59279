/* SPDX-License-Identifier: MIT */
/* near_counter: a statistics counter, one copy per slot.
 *
 * Cost:      add about 1 ns, no atomic instruction; read one load for each slot in use; a cached
 *            read one clock reading.
 * Memory:    8 bytes per slot in use, and the handle.
 * Safety:    init, destroy, read_cached, reset, rate_update: any thread. add, read: signal handlers
 *            too. A near_rate belongs to one thread at a time. Fork: the child keeps its own copy
 *            of the count; the child of a vfork adds to its parent's. No operation interrupts other
 *            CPUs. errno is left alone.
 * Order:     relaxed. A read counts every add that happened before it, and none twice; of
 *            concurrent adds it may count any.
 * Fallback:  a relaxed fetch_add on one of as many copies as there are CPUs.
 *
 * Concurrent with:   add   read  read_cached  reset  destroy
 *            add      yes   yes      yes       yes     no
 *            read     yes   yes      yes       yes     no
 *            read_cached
 *                     yes   yes      yes       yes     no
 *            reset    yes   yes      yes       yes     no
 *            rate_update: with all, but with no other of the same near_rate
 *
 *     struct near_counter hits;
 *     if (near_counter_init(&hits) == 0) {
 *             near_counter_add(&hits, 1);
 *             printf("%lld\n", (long long)near_counter_read(&hits));
 *             near_counter_destroy(&hits);
 *     }
 *
 * Source: per-CPU statistics counters, the first use shown for rseq (2018); differs in that one
 * source serves all architectures, the slot follows the concurrency, and a read visits the slots in
 * use.
 */
#ifndef NEARCPU_COUNTER_H
#define NEARCPU_COUNTER_H

#include <nearcpu/percpu.h>

NEAR__BEGIN_DECLS

/* Private. */
struct near_counter {
	int64_t *p;      /* percpu */
	int64_t base;    /* what resets took away */
	int64_t cached;  /* a sum, at least as new as `stamp` */
	uint64_t stamp;  /* CLOCK_MONOTONIC_COARSE in ns, 0: nothing cached */
	uint32_t writer; /* fills the cache: 0, or a process's number of forks plus one */
};

/* Makes a counter of 0. Returns 0; -ENOMEM: no memory or address space (RLIMIT_AS). */
NEAR_API int near_counter_init(struct near_counter *c);

/* Frees the copies. Requires that no operation on it runs. */
NEAR_API void near_counter_destroy(struct near_counter *c);

NEAR_API void near__counter_add_slow(int64_t *p, int64_t n);

/* p[local slot] += n commits. Harmless to repeat: nothing else is written. */
NEAR__INLINE bool near__counter_try_add(int64_t *p, int64_t n)
{
	uint64_t at;

	return NEAR_SEQ(
		NEAR_SLOT(at, p)
		NEAR_COMMIT_ADD8(n, at, 0),
		NEAR_OUT(at), NEAR_IN(NEAR_OBJECT(p), n));
}

/* Adds n, which may be negative. Sums wrap. */
NEAR_INLINE void near_counter_add(struct near_counter *c, int64_t n)
{
	NEAR__CHECK_READY(c->p, c);
	if (__builtin_expect(!near__counter_try_add(c->p, n), 0))
		near__counter_add_slow(c->p, n);
}

/* The count. */
NEAR_API int64_t near_counter_read(const struct near_counter *c);

/* The count as it was at some moment within the last max_age_ns nanoseconds. For many readers: only
 * one at a time computes it. Uses the kernel's coarse clock, and subtracts its tick (1 to 10 ms)
 * from the age: with less than a tick this is near_counter_read. */
NEAR_API int64_t near_counter_read_cached(struct near_counter *c, uint64_t max_age_ns);

/* Sets the count to 0 and returns what it was. Each add is in the result of exactly one reset or in
 * the count that stays. */
NEAR_API int64_t near_counter_reset(struct near_counter *c);

/* What one reader has seen last; all 0 at first. Each reader has its own, so that none disturbs
 * another. */
struct near_rate {
	int64_t count;
	uint64_t ns; /* CLOCK_MONOTONIC; 0: not yet */
};

/* By how much the count of anything has risen each second since the last call with this *r, and
 * `count` becomes what was seen last. Negative if it fell, as a reset makes it. The first call
 * returns 0; so does one within the same nanosecond, which the next includes. */
NEAR_API double near_rate_update(struct near_rate *r, int64_t count);

NEAR__END_DECLS

#endif
