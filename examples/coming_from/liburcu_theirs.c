/* SPDX-License-Identifier: MIT */
/* A limit that one thread replaces while others read it, with liburcu: liburcu_ours.c does the
 * same with near_rcu. */
#include <urcu/urcu-memb.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* [config] */
struct config {
	struct rcu_head head;
	int limit;
};

static struct config *current;
static int freed;

static void config_free(struct rcu_head *head)
{
	free(caa_container_of(head, struct config, head));
	freed++;
}

static void set_limit(int limit)
{
	struct config *c = malloc(sizeof(*c)), *old = current;

	if (!c)
		abort();
	c->limit = limit;
	rcu_assign_pointer(current, c);
	if (old)
		urcu_memb_call_rcu(&old->head, config_free);
}

static void *reader(void *limit)
{
	urcu_memb_register_thread();
	urcu_memb_read_lock();
	*(int *)limit = rcu_dereference(current)->limit;
	urcu_memb_read_unlock();
	urcu_memb_unregister_thread();
	return NULL;
}
/* [/config] */

int main(void)
{
	pthread_t thread;
	int limit;

	urcu_memb_register_thread(); /* of a thread that calls call_rcu, too */
	set_limit(10);
	set_limit(20);
	if (pthread_create(&thread, NULL, reader, &limit))
		return 1;
	pthread_join(thread, NULL);
	urcu_memb_barrier();
	printf("limit %d, %d old version freed\n", limit, freed);
	urcu_memb_unregister_thread();
	free(current);
	return 0;
}
