/* SPDX-License-Identifier: MIT */
/* C and C++: threads count, take objects out of a pool, and read what another one replaces. */
#include <nearcpu/counter.h>
#include <nearcpu/pool.h>
#include <nearcpu/rcu.h>

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define ROUNDS 1000

static struct near_counter hits;
static struct near_pool pool;
static struct near_rcu domain;
static int versions[2] = {1, 2}, *current = versions;

static void *work(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		long *object = (long *)near_pool_get(&pool);
		near_rcu_token t = near_rcu_enter(&domain);

		if (object && *near_rcu_dereference(current) > 0)
			near_counter_add(&hits, 1);
		near_rcu_exit(&domain, t);
		near_pool_put(&pool, object);
	}
	return arg;
}

int main(void)
{
	pthread_t threads[THREADS];
	long long total;

	if (near_counter_init(&hits) || near_pool_init(&pool, sizeof(long), NULL) ||
	    near_rcu_init(&domain, NULL))
		return 1;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			return 1;
	near_rcu_assign(current, &versions[1]);
	near_rcu_synchronize(&domain);
	versions[0] = 0;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	total = near_counter_read(&hits);
	printf("%lld of %d\n", total, THREADS * ROUNDS);
	near_rcu_destroy(&domain);
	near_pool_destroy(&pool);
	near_counter_destroy(&hits);
	return total != THREADS * ROUNDS;
}
