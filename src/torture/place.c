/* SPDX-License-Identifier: MIT */
/* The CPU that the calling thread is bound to. */
#define _GNU_SOURCE
#include "torture/place.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define MOST_CPUS ((int)(8 * sizeof(((struct place *)0)->before)))

int near__place_go(int cpu)
{
	cpu_set_t one[sizeof(((struct place *)0)->before) / sizeof(cpu_set_t)];

	memset(one, 0, sizeof(one));
	CPU_SET_S(cpu, sizeof(one), one);
	return sched_setaffinity(0, sizeof(one), one) ? -errno : 0;
}

/* The highest number is the most likely to be on another node. */
static int other_than(int home, const struct place *p)
{
	for (int cpu = MOST_CPUS; cpu-- > 0;)
		if (cpu != home && CPU_ISSET_S(cpu, sizeof(p->before), p->before))
			return cpu;
	return -1;
}

int near__place_enter(struct place *p)
{
	sigset_t trap;
	int r;

	memset(p->before, 0, sizeof(p->before));
	if (sched_getaffinity(0, sizeof(p->before), p->before))
		return -errno;
	p->home = sched_getcpu();
	if (p->home < 0 || p->home >= MOST_CPUS)
		return -EINVAL;
	p->away = other_than(p->home, p);
	r = near__place_go(p->home);
	if (r)
		return r;
	sigemptyset(&trap);
	sigaddset(&trap, SIGTRAP);
	pthread_sigmask(SIG_UNBLOCK, &trap, &p->signals);
	return 0;
}

void near__place_leave(const struct place *p)
{
	sched_setaffinity(0, sizeof(p->before), p->before);
	pthread_sigmask(SIG_SETMASK, &p->signals, NULL);
}
