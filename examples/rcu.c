/* SPDX-License-Identifier: MIT */
/* A configuration that one thread replaces while others use it. They take no lock; an old version
 * is freed when nobody can use it any more. */
#include <nearcpu/rcu.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define READERS 3
#define VERSIONS 2000

struct config {
	struct near_rcu_head head; /* the first member: its address is that of the object */
	int limit, twice_the_limit;
};

static struct near_rcu domain;
NEAR_EARLY(domain, near_rcu_init(&domain, NULL));
static struct config *current;
static int done;

static void free_config(struct near_rcu_head *head)
{
	struct config *c = (struct config *)head;

	c->limit = -1; /* a reader that still used it would notice */
	free(c);
}

static void set_limit(int limit)
{
	struct config *c = (struct config *)malloc(sizeof(*c)), *old = current;

	if (!c)
		abort();
	c->limit = limit;
	c->twice_the_limit = 2 * limit;
	near_rcu_assign(current, c);
	if (old)
		near_rcu_call(&domain, &old->head, free_config, sizeof(*old));
}

static void *reader(void *arg)
{
	long *wrong = (long *)arg;

	while (!__atomic_load_n(&done, __ATOMIC_RELAXED)) {
		near_rcu_token t = near_rcu_enter(&domain);
		const struct config *c = near_rcu_dereference(current);

		*wrong += c->twice_the_limit != 2 * c->limit;
		near_rcu_exit(&domain, t);
	}
	return NULL;
}

int main(void)
{
	struct near_rcu_stats stats;
	pthread_t threads[READERS];
	long wrong[READERS] = {0}, sum = 0;

	set_limit(0);
	for (int i = 0; i < READERS; i++)
		if (pthread_create(&threads[i], NULL, reader, &wrong[i]))
			return 1;
	for (int i = 1; i < VERSIONS; i++)
		set_limit(i);
	near_rcu_barrier(&domain); /* all but the last are freed */
	__atomic_store_n(&done, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < READERS; i++) {
		pthread_join(threads[i], NULL);
		sum += wrong[i];
	}
	near_rcu_stats(&domain, &stats, sizeof(stats));
	printf("%d versions, %llu freed, %ld wrong reads\n", VERSIONS,
	       (unsigned long long)(stats.calls - stats.pending_calls), sum);
	free(current);
	near_rcu_destroy(&domain);
	return 0;
}
