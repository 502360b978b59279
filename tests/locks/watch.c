/* SPDX-License-Identifier: MIT */
/* Finds waits that last too long. It counts its own checks, not the time: on a busy machine the
 * watch is late, too. */
#include "stress.h"

#define CHECKS_PER_S 10

static struct {
	pthread_t thread;
	bool stop; /* atomic */
	struct {
		uint64_t steps;
		unsigned checks; /* with the same wait */
	} seen[STRESS_ROLES];
} watch;

static unsigned check_role(unsigned i)
{
	struct role *r = &stress.roles[i];
	uint64_t steps = __atomic_load_n(&r->steps, __ATOMIC_RELAXED);

	if (steps != watch.seen[i].steps || !__atomic_load_n(&r->doing, __ATOMIC_RELAXED))
		watch.seen[i].checks = 0;
	watch.seen[i].steps = steps;
	return watch.seen[i].checks++;
}

static void tell(unsigned i)
{
	const struct role *r = &stress.roles[i];
	const uint32_t *on = __atomic_load_n(&r->on, __ATOMIC_RELAXED);
	const char *doing = __atomic_load_n(&r->doing, __ATOMIC_RELAXED);

	if (doing)
		fprintf(stderr, "  thread %d (%s, %u): %s on %p, which is %#x, for %u s\n",
			(int)__atomic_load_n(&r->tid, __ATOMIC_RELAXED), r->scenario->name,
			r->index, doing, (const void *)on, __atomic_load_n(on, __ATOMIC_RELAXED),
			watch.seen[i].checks / CHECKS_PER_S);
	else
		fprintf(stderr, "  thread %d (%s, %u) does not wait\n",
			(int)__atomic_load_n(&r->tid, __ATOMIC_RELAXED), r->scenario->name,
			r->index);
}

/* All roles of the scenario: another one may be the cause. */
static void stop(unsigned hung)
{
	fprintf(stderr, "locks_stress: a wait does not end: thread %d of the scenario %s\n",
		(int)stress.roles[hung].tid, stress.roles[hung].scenario->name);
	for (unsigned i = 0; i < stress.n_roles; i++)
		if (stress.roles[i].scenario == stress.roles[hung].scenario)
			tell(i);
	_exit(1);
}

static void *watch_waits(void *unused)
{
	while (!__atomic_load_n(&watch.stop, __ATOMIC_RELAXED)) {
		usleep(1000000 / CHECKS_PER_S);
		for (unsigned i = 0; i < stress.n_roles; i++)
			if (check_role(i) >= stress.patience * CHECKS_PER_S)
				stop(i);
	}
	return unused;
}

void watch_begin(void)
{
	memset(&watch, 0, sizeof(watch));
	watch.thread = unit_start(watch_waits, NULL);
}

void watch_end(void)
{
	__atomic_store_n(&watch.stop, true, __ATOMIC_RELAXED);
	unit_join(watch.thread);
}
