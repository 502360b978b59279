/* SPDX-License-Identifier: MIT */
/* The implementations of near_rcu, and those that need no other library. */
#include "bench.h"
#include "rcu.h"

#include <nearcpu/counter.h>
#include <nearcpu/rcu.h>
#include <nearcpu/rwlock.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>

#define BOUND ((size_t)1 << 20)

RCU_POINTER(near)

/* ---- near_rcu ---- */

static struct near_rcu domain;

static int near_init(void)
{
	near_hide();
	return near_rcu_init(&domain, NULL);
}

static void near_synchronize(void) { near_rcu_synchronize(&domain); }
static void near_barrier(void) { near_rcu_barrier(&domain); }

RCU_READ(near, near_rcu_token t = near_rcu_enter(&domain), near_rcu_dereference(near_pointer),
	 near_rcu_exit(&domain, t))
RCU_READ(nested, near_rcu_read_lock(&domain), near_rcu_dereference(near_pointer),
	 near_rcu_read_unlock(&domain))
RCU_CALL(near, struct near_rcu_head, near_rcu_call(&domain, &o->head, near_callback, RCU_OBJECT))
RCU_CALL(bounded, struct near_rcu_head,
	 near_rcu_call_bounded(&domain, &o->head, bounded_callback, RCU_OBJECT, BOUND))

static const struct rcu_impl near_impl = {.name = "near",
					  .init = near_init,
					  .read = near_read,
					  .synchronize = near_synchronize,
					  .call = near_call,
					  .barrier = near_barrier};
static const struct rcu_impl nested_impl = {
	.name = "near-nested", .init = near_init, .read = nested_read};
static const struct rcu_impl bounded_impl = {
	.name = "near-bounded", .init = near_init, .call = bounded_call, .barrier = near_barrier};

/* ---- a counter: what one sequence costs ---- */

static struct near_counter counter;

static int counter_init(void) { return near_counter_init(&counter); }

static void counter_read(uint64_t n)
{
	for (; n; n--)
		near_counter_add(&counter, 1);
}

static const struct rcu_impl counter_impl = {
	.name = "counter", .init = counter_init, .read = counter_read};

/* ---- locks ---- */

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static struct near_rwlock near_rwlock;

static int lock_init(void)
{
	near_hide();
	return near_rwlock_init(&near_rwlock, NULL);
}

RCU_READ(rwlock, pthread_rwlock_rdlock(&rwlock), near_pointer, pthread_rwlock_unlock(&rwlock))
RCU_READ(near_rwlock, near_rwlock_read_lock(&near_rwlock), near_pointer,
	 near_rwlock_read_unlock(&near_rwlock))

static const struct rcu_impl rwlock_impl = {
	.name = "rwlock", .init = lock_init, .read = rwlock_read};
static const struct rcu_impl near_rwlock_impl = {
	.name = "near-rwlock", .init = lock_init, .read = near_rwlock_read};

/* ---- an atomic per CPU, found by getcpu: the commit that introduced rseq (2018) has it in its
 * table of read sides ---- */

struct line {
	uint64_t readers;
	char pad[BENCH_LINE - sizeof(uint64_t)];
};
static struct line *lines;

static int getcpu_init(void)
{
	near_hide();
	lines = bench_alloc(near_cpus(), sizeof(*lines));
	return lines ? 0 : -ENOMEM;
}

RCU_READ(getcpu, uint64_t *readers = &lines[sched_getcpu()].readers;
	 __atomic_fetch_add(readers, 1, __ATOMIC_SEQ_CST), near_rcu_dereference(near_pointer),
	 __atomic_fetch_sub(readers, 1, __ATOMIC_RELEASE))

static const struct rcu_impl getcpu_impl = {
	.name = "getcpu", .init = getcpu_init, .read = getcpu_read};

const struct rcu_impl *const rcu_impls[] = {&near_impl,        &nested_impl,
					    &bounded_impl,     &counter_impl,
					    &near_rwlock_impl, &rwlock_impl,
					    &getcpu_impl,      NULL};
