/* SPDX-License-Identifier: MIT */
/* The program that cost.py runs: one function for each operation in docs/scale.md, and one that
 * sets up the objects for it. cost.py calls them by name, on whichever CPU it wants. `empty` is
 * what a call costs: it is subtracted. */
#define _GNU_SOURCE
#include <nearcpu/counter.h>
#include <nearcpu/fifo.h>
#include <nearcpu/histogram.h>
#include <nearcpu/lock.h>
#include <nearcpu/malloc.h>
#include <nearcpu/mutex.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu.h>
#include <nearcpu/refcount.h>
#include <nearcpu/rwlock.h>
#include <nearcpu/sem.h>
#include <nearcpu/stack.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "counters.h"

/* As in main.c. */
#define EMU_PARK 0x7e00
#define EMU_RETURNED 0x7e01

#define CPUS 1024
#define LINE 64
#define MINUTE 60000000000u
#define VALUE 100000

#define SIZE 100 /* of a block */

struct item {
	struct near_stack_node node;
	uint64_t key;
} __attribute__((aligned(LINE)));

/* Each on lines of its own, as objects are that belong to different users. */
struct objects {
	struct near_counter counter __attribute__((aligned(LINE)));
	struct near_histogram histogram __attribute__((aligned(LINE)));
	struct near_stack stack __attribute__((aligned(LINE)));
	struct near_refcount refcount __attribute__((aligned(LINE)));
	struct near_shared_counters shared __attribute__((aligned(LINE)));
	struct near_lock lock __attribute__((aligned(LINE)));
	struct near_mutex own_mutex __attribute__((aligned(LINE)));
	struct near_rwlock rwlock __attribute__((aligned(LINE)));
	struct near_sem sem __attribute__((aligned(LINE)));
	struct near_rcu rcu __attribute__((aligned(LINE)));
	struct item *current __attribute__((aligned(LINE)));
	struct near_pool pool __attribute__((aligned(LINE)));
	struct near_queue queue __attribute__((aligned(LINE)));
	struct near_fifo fifo __attribute__((aligned(LINE)));
	void *element;
	void *percpu __attribute__((aligned(LINE)));
	uint64_t one __attribute__((aligned(LINE)));
	pthread_mutex_t mutex __attribute__((aligned(LINE)));
	uint64_t locked;
	struct {
		uint64_t value __attribute__((aligned(LINE)));
	} shards[CPUS];
	struct item items[CPUS];
};

struct objects cost_objects;
uint64_t cost_shared_copies, cost_shared_stride;
uint64_t cost_block_at; /* where the thread has the address of its block */

static void must(int error)
{
	if (error)
		abort();
}

#define OP __attribute__((used, noinline)) void

OP emu_return(void)
{
	for (;;)
		syscall(EMU_RETURNED);
}

/* States before an operation. */

OP cost_make(struct objects *o)
{
	must(near_counter_init(&o->counter));
	must(near_histogram_init(&o->histogram, NULL));
	must(near_stack_init(&o->stack));
	must(near_refcount_init(&o->refcount, NULL));
	must(counters_open(&o->shared, 8));
	must(near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &o->percpu));
	must(near_rcu_init(&o->rcu, NULL));
	must(near_pool_init(&o->pool, LINE, &(struct near_pool_options){.max_objects = 4096}));
	must(near_queue_init(&o->queue, 64));
	must(near_fifo_init(&o->fifo, 64));
	must(near_rwlock_init(&o->rwlock, NULL));
	near_sem_init(&o->sem, 1);
	near_rcu_assign(o->current, &o->items[0]);
	cost_shared_copies = (uintptr_t)o->shared.region.copies;
	cost_shared_stride = o->shared.region.stride;
	cost_block_at = (uintptr_t)&near__self.block;
}

/* Opens the slot of this CPU in every object; contents stay as they were, the stack empty. */
OP cost_enter(struct objects *o)
{
	near_counter_add(&o->counter, 1);
	near_histogram_record(&o->histogram, VALUE);
	near_stack_push(&o->stack, &o->items[0].node);
	if (!near_stack_pop(&o->stack))
		abort();
	near_refcount_get(&o->refcount);
	near_refcount_put(&o->refcount);
	near_shared_counters_add(&o->shared, 0, 1);
	near_rcu_exit(&o->rcu, near_rcu_enter(&o->rcu));
	near_pool_put(&o->pool, near_pool_get(&o->pool));
	near_free(o->element = near_malloc(SIZE));
	free(o->element = malloc(SIZE));
	near_mutex_lock(&o->own_mutex);
	near_mutex_unlock(&o->own_mutex);
	near_rwlock_read_lock(&o->rwlock);
	near_rwlock_read_unlock(&o->rwlock);
	must(near_fifo_try_put(&o->fifo, o));
	must(near_fifo_try_get(&o->fifo, &o->element));
	must(near_queue_try_put(&o->queue, o));
	must(near_queue_try_get(&o->queue, &o->element));
}

OP cost_put_in(struct objects *o, unsigned item)
{
	near_stack_push(&o->stack, &o->items[item].node);
}

/* Operations. */

#define COST(name, ...)                                                                            \
	OP cost_##name(struct objects *o)                                                          \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

COST(empty, (void)o)
COST(slot, o->one = near_cpu())
COST(counter_add, near_counter_add(&o->counter, 1))
COST(counter_read, near_counter_read(&o->counter))
COST(counter_read_cached, near_counter_read_cached(&o->counter, MINUTE))
COST(counter_reset, near_counter_reset(&o->counter))
COST(histogram_record, near_histogram_record(&o->histogram, VALUE))
COST(stack_push, near_stack_push(&o->stack, &o->items[1].node))
COST(stack_pop, near_stack_pop(&o->stack))
COST(stack_pop_all, near_stack_pop_all(&o->stack))
COST(stack_steal, near_stack_steal(&o->stack))
COST(stack_drain, near_stack_drain(&o->stack))
COST(refcount_get, near_refcount_get(&o->refcount))
COST(refcount_put, near_refcount_put(&o->refcount))
COST(refcount_try_get, near_refcount_try_get(&o->refcount))
COST(refcount_get_and_kill, near_refcount_get(&o->refcount); near_refcount_kill(&o->refcount))
COST(refcount_kill, near_refcount_kill(&o->refcount))
COST(refcount_revive, near_refcount_revive(&o->refcount))
COST(shared_add, near_shared_counters_add(&o->shared, 0, 1))
COST(shared_read, near_shared_counters_read(&o->shared, 0))
COST(percpu_alloc, near_percpu_alloc(sizeof(uint64_t), sizeof(uint64_t), &o->percpu))
COST(percpu_free, near_percpu_free(o->percpu))
COST(lock_and_unlock, near_lock_lock(&o->lock); near_lock_unlock(&o->lock))

OP cost_rcu_section(struct objects *o)
{
	near_rcu_token token = near_rcu_enter(&o->rcu);

	o->one = near_rcu_dereference(o->current)->key;
	near_rcu_exit(&o->rcu, token);
}

COST(near_mutex_pair, near_mutex_lock(&o->own_mutex); near_mutex_unlock(&o->own_mutex))
COST(read_pair, near_rwlock_read_lock(&o->rwlock); near_rwlock_read_unlock(&o->rwlock))
COST(write_pair, near_rwlock_write_lock(&o->rwlock); near_rwlock_write_unlock(&o->rwlock))
COST(sem_pair, near_sem_wait(&o->sem); near_sem_post(&o->sem))
COST(pool_pair, near_pool_put(&o->pool, near_pool_get(&o->pool)))
COST(queue_put, near_queue_try_put(&o->queue, o))
COST(queue_get, near_queue_try_get(&o->queue, &o->element))
COST(fifo_put, near_fifo_try_put(&o->fifo, o))
COST(fifo_get, near_fifo_try_get(&o->fifo, &o->element))
COST(near_malloc_pair, near_free(o->element = near_malloc(SIZE)))

/* What programs do instead. */
COST(mutex_add, pthread_mutex_lock(&o->mutex); o->locked++; pthread_mutex_unlock(&o->mutex))
COST(atomic_add, __atomic_fetch_add(&o->one, 1, __ATOMIC_RELAXED))
COST(malloc_pair, free(o->element = malloc(SIZE)))
COST(sharded_add, __atomic_fetch_add(&o->shards[sched_getcpu()].value, 1, __ATOMIC_RELAXED))

static void *wait_for_calls(void *unused)
{
	(void)unused;
	for (;;)
		syscall(EMU_PARK);
	return NULL;
}

/* The second thread is never called. It is there because a C library may leave out atomic
 * instructions in a process of one thread. */
int main(void)
{
	pthread_t other;

	must(pthread_create(&other, NULL, wait_for_calls, NULL));
	wait_for_calls(NULL);
}
