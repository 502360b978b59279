/* SPDX-License-Identifier: MIT */
/* Threads that are moved from CPU to CPU, while they run. */
#ifndef NEARCPU_TESTS_MOVER_H
#define NEARCPU_TESTS_MOVER_H

#include "unit.h"

struct mover {
	cpu_set_t all; /* that the process may use */
	unsigned cpu;
	uint64_t random;
};

static inline void mover_begin(struct mover *m, uint64_t seed)
{
	m->cpu = 0;
	m->random = seed;
	CHECK(sched_getaffinity(0, sizeof(m->all), &m->all) == 0);
}

/* To one CPU, another than last time. False: the thread has ended. */
static inline bool mover_bind(struct mover *m, pid_t tid)
{
	cpu_set_t one;

	do
		m->cpu = (m->cpu + 1 + unit_random(&m->random) % 3) % CPU_SETSIZE;
	while (!CPU_ISSET(m->cpu, &m->all));
	CPU_ZERO(&one);
	CPU_SET(m->cpu, &one);
	return tid && sched_setaffinity(tid, sizeof(one), &one) == 0;
}

/* Once in n times: to where the kernel likes. */
static inline void mover_release(struct mover *m, pid_t tid, unsigned n)
{
	if (tid && unit_random(&m->random) % n == 0)
		sched_setaffinity(tid, sizeof(m->all), &m->all);
}

#endif
