/* SPDX-License-Identifier: MIT */
/* An object cache: requests come from a per-CPU stack of free ones, and from calloc if it is
 * empty. */
#include <nearcpu/counter.h>
#include <nearcpu/stack.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4
#define USES 100000

struct request {
	struct near_stack_node link; /* first, so that a node is a request */
	char text[240];
};

static struct near_stack unused_requests;
static struct near_counter allocated;

static struct request *request_get(void)
{
	struct near_stack_node *unused = near_stack_pop(&unused_requests);

	if (unused)
		return (struct request *)unused;
	near_counter_add(&allocated, 1);
	return (struct request *)calloc(1, sizeof(struct request));
}

static void *work(void *arg)
{
	struct request *r = NULL;

	for (int i = 0; i < USES && (r = request_get()) != NULL; i++)
		near_stack_push(&unused_requests, &r->link);
	return arg;
}

int main(void)
{
	struct near_stack_node *n, *next;
	pthread_t threads[THREADS];
	int64_t freed = 0;

	if (near_stack_init(&unused_requests) || near_counter_init(&allocated))
		return 1;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (n = near_stack_drain(&unused_requests); n; n = next, freed++) {
		next = n->next;
		free(n);
	}
	printf("%s, %s\n", freed == near_counter_read(&allocated) ? "all freed" : "some lost",
	       freed < USES / 10 ? "mostly reused" : "mostly allocated");
	return 0;
}
