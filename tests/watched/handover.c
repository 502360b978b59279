/* SPDX-License-Identifier: MIT */
/* usage: handover [race]
 * Objects pass through each structure from thread to thread. Built with ThreadSanitizer, which is
 * to report nothing; and with the argument one race, which it is to report. */
#include <nearcpu/cancel.h>
#include <nearcpu/fifo.h>
#include <nearcpu/idspace.h>
#include <nearcpu/lock.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu_list.h>
#include <nearcpu/rcu_map.h>
#include <nearcpu/rcu_map64.h>
#include <nearcpu/refcount.h>
#include <nearcpu/stack.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#define READERS 2
#define KEYS 64
#define ROUNDS 300
#define MANY 40 /* more than a batch of the pool */

struct object {
	struct near_rcu_map_entry entry;
	struct near_rcu_list_node node;
	struct near_stack_node link;
	struct near_rcu_head head;
	uint64_t key, value;
};
#define OBJECT(p, member) ((struct object *)((char *)(p)-offsetof(struct object, member)))

static struct near_rcu rcu;
static struct near_rcu_map map;
static struct near_rcu_map64 map64;
static struct near_rcu_list list;
static struct near_queue queue;
static struct near_fifo fifo;
static struct near_stack stack;
static struct near_pool pool;
static struct near_idspace ids;
static struct near_refcount references;
static struct near_lock lock;
static struct object *shared;
static long *of_id, by_lock, unguarded;
static struct near_cancel done;

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
	o->value = 3 * key;
	return o;
}

static void use(struct object *o)
{
	require(o->value == 3 * o->key);
	o->value = 0;
	free(o);
}

static void free_object(struct near_rcu_head *head)
{
	use(OBJECT(head, head));
}

static uint64_t hash(const void *key)
{
	return *(const uint64_t *)key;
}

static bool equal(const struct near_rcu_map_entry *e, const void *key)
{
	return OBJECT(e, entry)->key == *(const uint64_t *)key;
}

/* ---- the readers' side ---- */

static void read_sections(void)
{
	near_rcu_token t = near_rcu_enter(&rcu);
	struct near_rcu_map_iterator i;
	const struct near_rcu_map_entry *e;

	for (uint64_t k = 0; k < KEYS; k++) {
		e = near_rcu_map_lookup(&map, &k);
		require(!e || OBJECT(e, entry)->value == 3 * k);
	}
	for (uint64_t k = 1; k < KEYS; k++) {
		const struct object *o = (void *)(uintptr_t)near_rcu_map64_find(&map64, k);

		require(!o || o->value == 3 * k);
	}
	near_rcu_map_begin(&map, &i);
	while ((e = near_rcu_map_next(&i)))
		require(OBJECT(e, entry)->value % 3 == 0);
	for (const struct near_rcu_list_node *n = near_rcu_list_first(&list); n;
	     n = near_rcu_list_next(n))
		require(OBJECT(n, node)->value % 3 == 0);
	near_rcu_exit(&rcu, t);
}

static void take_all(void)
{
	void *several[8];
	struct near_stack_node *n;
	long got;

	if (near_queue_try_get(&queue, several) == 0)
		use(several[0]);
	got = near_queue_try_get_many(&queue, several, 8);
	for (long i = 0; i < got; i++)
		use(several[i]);
	if (near_fifo_try_get(&fifo, several) == 0)
		use(several[0]);
	n = near_stack_steal(&stack);
	if (n)
		use(OBJECT(n, link));
	n = near_stack_pop(&stack);
	if (n)
		use(OBJECT(n, link));
	for (n = near_stack_pop_all(&stack); n;) {
		struct object *o = OBJECT(n, link);

		n = n->next;
		use(o);
	}
}

static void use_shared(struct near_worker *w)
{
	void *several[MANY];
	int id = near_idspace_acquire(&ids, w);
	struct object *o = near_pool_get(&pool);

	require(id >= 0 && o && o->value % 3 == 0);
	++*(long *)near_idspace_at(&ids, of_id, id);
	o->value += 3;
	near_pool_put(&pool, o);
	require(near_pool_get_many(&pool, several, MANY) == MANY);
	for (int i = 0; i < MANY; i++)
		((struct object *)several[i])->value += 3;
	near_pool_put_many(&pool, several, MANY);
	near_idspace_release(&ids, w);
	near_lock_lock(&lock);
	by_lock++;
	near_lock_unlock(&lock);
	near_refcount_get(&references);
	require(((volatile struct object *)shared)->value == 3);
	near_refcount_put(&references);
}

static void *read_all(void *unused)
{
	struct near_worker w = {0};

	while (!near_cancel_is_set(&done)) {
		read_sections();
		take_all();
		use_shared(&w);
		sched_yield();
	}
	near_refcount_put(&references);
	return unused;
}

/* ---- the writer's side ---- */

static void free_entry(struct near_rcu_map_entry *e)
{
	if (e)
		near_rcu_call(&rcu, &OBJECT(e, entry)->head, free_object, sizeof(struct object));
}

/* The map grows and shrinks. */
static void change_map(uint64_t round)
{
	uint64_t key = round % (round % 256 < 128 ? 4 : KEYS);
	struct near_rcu_map_entry *old;
	struct object *o = make(key);

	require(near_rcu_map_put(&map, &o->entry, &o->key, &old) == 0);
	free_entry(old);
	key = round * 7 % KEYS;
	if (round % 2)
		free_entry(near_rcu_map_remove_key(&map, &key));
	if (round % 100 == 0)
		near_rcu_map_resize(&map, round % 200 ? 1 : 8 * KEYS);
}

static void free_value(uint64_t value)
{
	if (value)
		near_rcu_call(&rcu, &((struct object *)(uintptr_t)value)->head, free_object, 0);
}

static void change_map64(uint64_t round)
{
	uint64_t key = 1 + round % (KEYS - 1), old;

	require(near_rcu_map64_put(&map64, key, (uintptr_t)make(key), &old) == 0);
	free_value(old);
	if (round % 2)
		free_value(near_rcu_map64_remove(&map64, 1 + round * 7 % (KEYS - 1)));
	if (round % 100 == 0)
		near_rcu_map64_resize(&map64, round % 200 ? 1 : 8 * KEYS);
}

static void change_list(void)
{
	near_rcu_list_insert_last(&list, &make(5)->node);
	if (near_rcu_list_count(&list) > 5) {
		struct near_rcu_list_node *n = near_rcu_list_first(&list);

		near_rcu_list_remove(&list, n);
		near_rcu_call_lazy(&rcu, &OBJECT(n, node)->head, free_object, 0);
	}
}

static void give(uint64_t round)
{
	struct object *o = make(round);
	void *several[2] = {make(round), make(round + 1)};

	near_queue_put(&queue, make(round));
	for (unsigned i = 0; i < 2; i++)
		if (near_queue_try_put_many(&queue, &several[i], 1) < 1)
			near_queue_put(&queue, several[i]);
	near_fifo_put(&fifo, make(round));
	near_stack_push(&stack, &make(round)->link);
	o->link.next = &make(round)->link;
	near_stack_push_chain(&stack, &o->link, o->link.next);
}

static void write_all(void)
{
	struct near_worker w = {0};

	for (uint64_t i = 0; i < ROUNDS; i++) {
		change_map(i);
		change_map64(i);
		change_list();
		give(i);
		use_shared(&w);
		if (i % 100 == 0)
			near_pool_drain(&pool);
		if (i % 10 == 0)
			sched_yield();
	}
}

/* ---- begin and end ---- */

static int construct(void *p, void *unused)
{
	(void)unused;
	((struct object *)p)->value = 3;
	return 0;
}

static void destruct(void *p, void *unused)
{
	(void)unused;
	require(((struct object *)p)->value % 3 == 0);
	((struct object *)p)->value = 1;
}

static void gone(struct near_refcount *unused)
{
	(void)unused;
	use(shared);
	shared = NULL;
}

static void begin(void)
{
	struct near_pool_options o = {.construct = construct, .destruct = destruct};

	near_rcu_init(&rcu, NULL);
	require(near_rcu_map_init(&map, &rcu, hash, equal, NULL) == 0);
	require(near_rcu_map64_init(&map64, &rcu, NULL) == 0);
	require(near_queue_init(&queue, 64) == 0 && near_fifo_init(&fifo, 64) == 0);
	require(near_stack_init(&stack) == 0 &&
		near_pool_init(&pool, sizeof(struct object), &o) == 0);
	require(near_idspace_init(&ids, NULL) == 0);
	require(near_idspace_alloc(&ids, sizeof(*of_id), sizeof(*of_id), (void **)&of_id) == 0);
	require(near_refcount_init(&references, gone) == 0);
	shared = make(1);
}

static void *race(void *unused)
{
	unguarded++;
	return unused;
}

int main(int count, char **unused)
{
	pthread_t t[READERS];

	(void)unused;
	begin();
	for (int i = 0; i < READERS; i++) {
		near_refcount_get(&references);
		pthread_create(&t[i], NULL, count > 1 ? race : read_all, NULL);
	}
	if (count == 1)
		write_all();
	near_cancel_set(&done);
	near_refcount_kill(&references);
	for (int i = 0; i < READERS; i++)
		pthread_join(t[i], NULL);
	near_rcu_barrier(&rcu);
	return 0;
}
