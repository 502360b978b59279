/* SPDX-License-Identifier: MIT */
/* Step 2 of the tutorial: a free list of buffers, some of which another thread puts back. */
#include <nearcpu/counter.h>
#include <nearcpu/stack.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 2
#define REQUESTS 1000000
#define HANDED 100

/* [list] */
struct buffer {
	struct near_stack_node link; /* first, so that a node is a buffer */
	char bytes[4080];
};

static struct near_stack free_buffers;
static struct near_counter allocated;

static struct buffer *buffer_get(void)
{
	struct near_stack_node *n = near_stack_pop(&free_buffers);

	if (n)
		return (struct buffer *)n;
	near_counter_add(&allocated, 1);
	return (struct buffer *)malloc(sizeof(struct buffer));
}

static void buffer_put(struct buffer *b)
{
	near_stack_push(&free_buffers, &b->link);
}
/* [/list] */

/* [serve] */
static void *serve(void *unused)
{
	for (int i = 0; i < REQUESTS; i++) {
		struct buffer *b = buffer_get();

		if (!b)
			abort();
		buffer_put(b);
	}
	return unused;
}
/* [/serve] */

/* [hand] */
static struct near_stack_node *handed[HANDED];
static unsigned put_at, done;

static void *put_back(void *unused)
{
	for (int i = 0; i < HANDED; i++)
		near_stack_push(&free_buffers, handed[i]);
	put_at = near_slot();
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	return unused;
}

/* Another thread puts back what this one has, which keeps running, so that their slots differ. */
static int find(void)
{
	pthread_t other;
	int popped = 0, found;

	done = 0;
	if (pthread_create(&other, NULL, put_back, NULL))
		abort();
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
		;
	while (popped < HANDED && (handed[popped] = near_stack_pop(&free_buffers)))
		popped++;
	found = popped;
	while (found < HANDED && (handed[found] = near_stack_steal(&free_buffers)))
		found++;
	pthread_join(other, NULL);
	fprintf(stderr, "put at slot %u, found from slot %u: %d by pop, %d by steal\n", put_at,
		near_slot(), popped, found - popped);
	return found;
}
/* [/hand] */

int main(void)
{
	struct near_stack_node *n, *next;
	pthread_t threads[THREADS];

	if (near_stack_init(&free_buffers) || near_counter_init(&allocated))
		return 1;
	/* [main] */
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, serve, NULL))
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	fprintf(stderr, "%lld buffers for %d requests\n", (long long)near_counter_read(&allocated),
		THREADS * REQUESTS);
	puts(near_counter_read(&allocated) < REQUESTS / 10 ? "buffers were reused" : "wasted");
	/* [/main] */
	for (int i = 0; i < HANDED; i++)
		handed[i] = &buffer_get()->link;
	for (int i = 0; i < 2; i++)
		printf("%d buffers found\n", find());
	for (int i = 0; i < HANDED; i++)
		free(handed[i]);
	/* [drain] */
	for (n = near_stack_drain(&free_buffers); n; n = next) {
		next = n->next;
		free(n);
	}
	near_stack_destroy(&free_buffers);
	/* [/drain] */
	return 0;
}
