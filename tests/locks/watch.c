/* SPDX-License-Identifier: MIT */
/* Who waits for too long. Counted by looks, not by the clock: where the machine is busy the watch
 * is late, too. */
#include "stress.h"

#define LOOKS_PER_S 10

static struct {
	pthread_t thread;
	bool stop; /* atomic */
	struct {
		uint64_t steps;
		unsigned looks; /* with the same wait */
	} seen[STRESS_ROLES];
} watch;

static unsigned look_at(unsigned i)
{
	struct role *r = &stress.roles[i];
	uint64_t steps = __atomic_load_n(&r->steps, __ATOMIC_RELAXED);

	if (steps != watch.seen[i].steps || !__atomic_load_n(&r->doing, __ATOMIC_RELAXED))
		watch.seen[i].looks = 0;
	watch.seen[i].steps = steps;
	return watch.seen[i].looks++;
}

static void tell(unsigned i)
{
	const struct role *r = &stress.roles[i];
	const uint32_t *on = __atomic_load_n(&r->on, __ATOMIC_RELAXED);
	const char *doing = __atomic_load_n(&r->doing, __ATOMIC_RELAXED);

	if (doing)
		fprintf(stderr, "  thread %d (%s, %u): %s on %p, which is %#x, for %u s\n",
			(int)__atomic_load_n(&r->tid, __ATOMIC_RELAXED), r->game->name, r->index,
			doing, (const void *)on, __atomic_load_n(on, __ATOMIC_RELAXED),
			watch.seen[i].looks / LOOKS_PER_S);
	else
		fprintf(stderr, "  thread %d (%s, %u) does not wait\n",
			(int)__atomic_load_n(&r->tid, __ATOMIC_RELAXED), r->game->name, r->index);
}

/* All of the game, too: it may be another one's fault. */
static void stop(unsigned hung)
{
	fprintf(stderr, "locks_stress: a wait does not end: thread %d of the game %s\n",
		(int)stress.roles[hung].tid, stress.roles[hung].game->name);
	for (unsigned i = 0; i < stress.n_roles; i++)
		if (stress.roles[i].game == stress.roles[hung].game)
			tell(i);
	_exit(1);
}

static void *look(void *unused)
{
	while (!__atomic_load_n(&watch.stop, __ATOMIC_RELAXED)) {
		usleep(1000000 / LOOKS_PER_S);
		for (unsigned i = 0; i < stress.n_roles; i++)
			if (look_at(i) >= stress.patience * LOOKS_PER_S)
				stop(i);
	}
	return unused;
}

void watch_begin(void)
{
	memset(&watch, 0, sizeof(watch));
	watch.thread = unit_start(look, NULL);
}

void watch_end(void)
{
	__atomic_store_n(&watch.stop, true, __ATOMIC_RELAXED);
	unit_join(watch.thread);
}
