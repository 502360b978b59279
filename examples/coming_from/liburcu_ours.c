/* SPDX-License-Identifier: MIT */
/* A limit that one thread replaces while others read it. liburcu_theirs.c does the same with
 * liburcu. */
#include <nearcpu/rcu.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* [config] */
struct config {
	struct near_rcu_head head; /* the first member */
	int limit;
};

static struct near_rcu domain;
NEAR_EARLY(domain, near_rcu_init(&domain, NULL));
static struct config *current;
static int freed;

static void config_free(struct near_rcu_head *head)
{
	free(head);
	freed++;
}

static void set_limit(int limit)
{
	struct config *c = (struct config *)malloc(sizeof(*c)), *old = current;

	if (!c)
		abort();
	c->limit = limit;
	near_rcu_assign(current, c);
	if (old)
		near_rcu_call(&domain, &old->head, config_free, sizeof(*old));
}

static void *reader(void *limit)
{
	near_rcu_token t = near_rcu_enter(&domain);

	*(int *)limit = near_rcu_dereference(current)->limit;
	near_rcu_exit(&domain, t);
	return NULL;
}
/* [/config] */

int main(void)
{
	pthread_t thread;
	int limit;

	set_limit(10);
	set_limit(20);
	if (pthread_create(&thread, NULL, reader, &limit))
		return 1;
	pthread_join(thread, NULL);
	near_rcu_barrier(&domain);
	printf("limit %d, %d old version freed\n", limit, freed);
	free(current);
	near_rcu_destroy(&domain);
	return 0;
}
