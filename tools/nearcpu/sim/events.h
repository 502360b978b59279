/* SPDX-License-Identifier: MIT */
/* events: the time of the next event of each CPU, and whose is the first: a tournament tree.
 *
 * Each inner node has the CPU that comes first below it. A change visits one node of each level, in
 * arrays that stay in the cache, whereas a heap would write to each CPU that it moves.
 */
#ifndef NEARCPU_SIM_EVENTS_H
#define NEARCPU_SIM_EVENTS_H

#include "sim/bits.h"

#define SIM_NEVER UINT64_MAX

struct events {
	unsigned leaves;          /* a power of two */
	uint64_t time[SIM_CPUS];  /* by CPU */
	uint16_t first[SIM_CPUS]; /* by inner node; the root is 1, the children of i are 2i, 2i+1 */
};

static inline unsigned events_below(const struct events *e, unsigned node)
{
	return node < e->leaves ? e->first[node] : node - e->leaves;
}

static inline void events_set(struct events *e, unsigned cpu, uint64_t time)
{
	e->time[cpu] = time;
	for (unsigned node = (cpu + e->leaves) / 2; node; node /= 2) {
		unsigned left = events_below(e, 2 * node), right = events_below(e, 2 * node + 1);
		unsigned first = e->time[right] < e->time[left] ? right : left;

		if (e->first[node] == first && first != cpu)
			return;
		e->first[node] = (uint16_t)first;
	}
}

static inline void events_init(struct events *e, unsigned cpus)
{
	for (e->leaves = 2; e->leaves < cpus;)
		e->leaves *= 2;
	for (unsigned i = 0; i < e->leaves; i++)
		e->time[i] = SIM_NEVER;
	for (unsigned node = e->leaves - 1; node; node--)
		e->first[node] = (uint16_t)events_below(e, 2 * node);
}

static inline unsigned events_first(const struct events *e)
{
	return e->first[1];
}

#endif
