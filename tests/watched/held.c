/* SPDX-License-Identifier: MIT */
/* usage: held [leak]
 * At the end of the program each structure has the only pointers to some blocks. Built with
 * AddressSanitizer, whose LeakSanitizer is to report nothing; and with the argument one block,
 * which it is to report. */
#include <nearcpu/fifo.h>
#include <nearcpu/idspace.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu_map.h>
#include <nearcpu/stack.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 20

struct object {
	struct near_rcu_map_entry entry;
	struct near_rcu_head head;
	struct near_stack_node link;
	uint64_t key;
};

static struct near_queue queue;
static struct near_fifo fifo;
static struct near_stack stack;
static struct near_rcu rcu;
static struct near_rcu_map map;
static struct near_pool pool, destroyed;
static struct near_idspace ids;
static void **of_id, *percpu;

static void require(bool holds)
{
	if (!holds)
		abort();
}

static struct object *make(uint64_t key)
{
	struct object *o = calloc(1, sizeof(*o));

	require(o);
	o->key = key;
	return o;
}

static uint64_t hash(const void *key)
{
	return *(const uint64_t *)key;
}

static bool equal(const struct near_rcu_map_entry *e, const void *key)
{
	return ((const struct object *)e)->key == *(const uint64_t *)key;
}

static void free_object(struct near_rcu_head *head)
{
	free((char *)head - offsetof(struct object, head));
}

static int construct(void *p, void *unused)
{
	(void)unused;
	*(void **)p = malloc(100);
	return 0;
}

static void destruct(void *p, void *unused)
{
	(void)unused;
	free(*(void **)p);
}

static void begin(void)
{
	struct near_pool_options o = {.construct = construct, .destruct = destruct};
	struct near_idspace_options few = {.ids = 64};

	require(near_queue_init(&queue, 100) == 0 && near_fifo_init(&fifo, 100) == 0);
	require(near_stack_init(&stack) == 0 && near_pool_init(&pool, 64, &o) == 0);
	require(near_pool_init(&destroyed, 64, &o) == 0);
	near_rcu_init(&rcu, NULL);
	require(near_rcu_map_init(&map, &rcu, hash, equal, NULL) == 0);
	require(near_idspace_init(&ids, &few) == 0);
	require(near_idspace_alloc(&ids, sizeof(*of_id), sizeof(*of_id), (void **)&of_id) == 0);
	require(near_percpu_alloc(sizeof(void *), sizeof(void *), &percpu) == 0);
}

/* A thread of its own, whose stack and registers are gone at the end. */
static void *hold_all(void *leak)
{
	struct near_worker w = {0};
	int id = near_idspace_acquire(&ids, &w);

	for (uint64_t i = 0; i < BLOCKS; i++) {
		struct object *o = make(i);

		require(near_queue_put(&queue, make(i)) == 0);
		require(near_fifo_put(&fifo, make(i)) == 0);
		near_stack_push(&stack, &make(i)->link);
		require(near_rcu_map_insert(&map, &o->entry, &o->key) == 0);
		near_rcu_call_lazy(&rcu, &make(i)->head, free_object, 1);
		near_pool_put(&pool, near_pool_get(&pool));
		near_pool_put(&destroyed, near_pool_get(&destroyed));
	}
	require(near_pool_get(&pool) && id >= 0);
	*(void **)near_idspace_at(&ids, of_id, id) = make(1);
	near_idspace_release(&ids, &w);
	*(void **)near_percpu_fallback(percpu) = make(1);
	if (leak)
		*(volatile char *)malloc(100) = 1;
	near_pool_destroy(&destroyed);
	return NULL;
}

int main(int count, char **arguments)
{
	pthread_t t;

	begin();
	pthread_create(&t, NULL, hold_all, count > 1 ? arguments[1] : NULL);
	pthread_join(t, NULL);
	return 0;
}
