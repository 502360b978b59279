/* SPDX-License-Identifier: MIT */
/* A count that is killed while threads get and put: released once, after everything that was done
 * before any put. */

#include "stress.h"

#define THREADS 4

static struct {
	struct near_refcount refs;
	pthread_barrier_t gate;
	unsigned done[THREADS]; /* each thread's own, plain: the release callback reads them all */
	unsigned seen, released;
	bool stop;
} round_of;

static void released(struct near_refcount *r)
{
	round_of.seen = 0;
	for (unsigned i = 0; i < THREADS; i++)
		round_of.seen += round_of.done[i];
	round_of.released++;
}

/* Holds one reference from before the kill, as long as the count is in service and a little
 * longer. */
static void use(unsigned self)
{
	near_refcount_get(&round_of.refs);
	pthread_barrier_wait(&round_of.gate);
	while (near_refcount_try_get_live(&round_of.refs)) {
		round_of.done[self]++;
		near_refcount_put(&round_of.refs);
	}
	for (int i = 0; i < 10; i++) {
		CHECK(near_refcount_try_get(&round_of.refs));
		round_of.done[self]++;
		near_refcount_put(&round_of.refs);
	}
	near_refcount_put(&round_of.refs);
}

static void *user(void *self)
{
	for (;;) {
		pthread_barrier_wait(&round_of.gate);
		if (round_of.stop)
			return NULL;
		use((unsigned)(uintptr_t)self);
		pthread_barrier_wait(&round_of.gate);
		CHECK(!near_refcount_try_get(&round_of.refs));
		pthread_barrier_wait(&round_of.gate);
	}
}

static void check_round(void)
{
	unsigned done = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		done += round_of.done[i];
		round_of.done[i] = 0;
	}
	assert_int_equal(round_of.released, 1);
	assert_int_equal(round_of.seen, done);
	assert_true(near_refcount_is_zero(&round_of.refs));
	round_of.released = 0;
}

/* Between the barriers: all have their reference; all are through; all have seen it gone. */
static void one_round(uint64_t *random)
{
	pthread_barrier_wait(&round_of.gate);
	pthread_barrier_wait(&round_of.gate);
	stress_rest(random, 200000);
	near_refcount_kill(&round_of.refs);
	pthread_barrier_wait(&round_of.gate);
	pthread_barrier_wait(&round_of.gate);
	check_round();
	near_refcount_revive(&round_of.refs);
}

unsigned release_stress(unsigned ms)
{
	uint64_t end = stress_now() + ms;
	pthread_t threads[THREADS];
	uint64_t random = 5;
	unsigned rounds = 0;

	memset(&round_of, 0, sizeof(round_of));
	assert_int_equal(near_refcount_init(&round_of.refs, released), 0);
	pthread_barrier_init(&round_of.gate, NULL, THREADS + 1);
	for (uintptr_t i = 0; i < THREADS; i++)
		threads[i] = unit_start(user, (void *)i);
	for (; rounds == 0 || stress_now() < end; rounds++)
		one_round(&random);
	round_of.stop = true;
	pthread_barrier_wait(&round_of.gate);
	for (unsigned i = 0; i < THREADS; i++)
		unit_join(threads[i]);
	pthread_barrier_destroy(&round_of.gate);
	near_refcount_kill(&round_of.refs);
	near_refcount_destroy(&round_of.refs);
	return rounds;
}
