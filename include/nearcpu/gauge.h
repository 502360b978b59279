/* SPDX-License-Identifier: MIT */
/* near_gauge: a number that is set, and the greatest or the least of many.
 *
 * One word, not a copy per slot. Of several sets only an order decides which was last, and copies
 * have none. A greatest number is rarely raised: among n numbers in random order ln n times, after
 * which set_max is a load of a line that nobody writes. What only goes up and down by adds and is
 * changed often belongs into a near_counter.
 *
 * Cost:      set_max, set_min: a load, if they change nothing. A change is one store or atomic
 *            instruction, as fast as the line moves between the CPUs; on one of them set takes
 *            .2 ns, the others 4.7 (AMD Turin). If the numbers rise all the time, each set_max is
 *            such a change.
 * Memory:    8 bytes. Zero is a gauge of 0: static ones need no call. Nothing to destroy. What is
 *            written often should not share its cache line.
 * Safety:    any thread, signal handlers. Fork: the child has its own copy. In memory that
 *            processes share it is one gauge; a process that is killed leaves it whole.
 * Order:     relaxed. A read returns a number that the gauge had at some moment; reads of a thread
 *            do not go back behind one another. Among concurrent sets the last in the order of the
 *            word remains.
 * Fallback:  needs no rseq; the same code everywhere.
 *
 * Concurrent with:              set  add  set_max, set_min  exchange  read
 *     set                       yes  yes        yes           yes     yes
 *     add                       yes  yes        yes           yes     yes
 *     set_max, set_min          yes  yes        yes           yes     yes
 *     exchange                  yes  yes        yes           yes     yes
 *
 *     static struct near_gauge longest;        // queue since the last report
 *
 *     near_gauge_set_max(&longest, length);
 *     ...
 *     printf("%lld\n", (long long)near_gauge_exchange(&longest, 0));
 *
 * Source: gauges as Prometheus and StatsD have them; the load ahead of the change is the test of a
 * test-and-set lock.
 */
#ifndef NEARCPU_GAUGE_H
#define NEARCPU_GAUGE_H

#include <nearcpu/api.h>
#include <stdbool.h>
#include <stdint.h>

NEAR__BEGIN_DECLS

/* Private. */
struct near_gauge {
	int64_t value __attribute__((aligned(8)));
};

/* The number becomes `value`. */
NEAR_INLINE void near_gauge_set(struct near_gauge *g, int64_t value)
{
	__atomic_store_n(&g->value, value, __ATOMIC_RELAXED);
}

/* Adds n, which may be negative, to what it is. Sums wrap. */
NEAR_INLINE void near_gauge_add(struct near_gauge *g, int64_t n)
{
	__atomic_fetch_add(&g->value, n, __ATOMIC_RELAXED);
}

/* The number becomes `value` if that is greater. */
NEAR_INLINE void near_gauge_set_max(struct near_gauge *g, int64_t value)
{
	int64_t seen = __atomic_load_n(&g->value, __ATOMIC_RELAXED);

	while (seen < value && !__atomic_compare_exchange_n(&g->value, &seen, value, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* The number becomes `value` if that is less. */
NEAR_INLINE void near_gauge_set_min(struct near_gauge *g, int64_t value)
{
	int64_t seen = __atomic_load_n(&g->value, __ATOMIC_RELAXED);

	while (seen > value && !__atomic_compare_exchange_n(&g->value, &seen, value, true,
							    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/* Sets it and returns what it was: of a greatest number, that since the last exchange. Each
 * set_max counts before or after, none is lost. */
NEAR_INLINE int64_t near_gauge_exchange(struct near_gauge *g, int64_t value)
{
	return __atomic_exchange_n(&g->value, value, __ATOMIC_RELAXED);
}

NEAR_INLINE int64_t near_gauge_read(const struct near_gauge *g)
{
	return __atomic_load_n(&g->value, __ATOMIC_RELAXED);
}

NEAR__END_DECLS

#endif
