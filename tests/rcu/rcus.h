/* SPDX-License-Identifier: MIT */
/* What the tests of near_rcu share: objects that are published and freed, readers that stay in a
 * section until the test ends it, threads that cannot be created. */
#ifndef NEARCPU_TESTS_RCUS_H
#define NEARCPU_TESTS_RCUS_H

#include "unit.h"

#include <nearcpu/rcu.h>

#include "rcu/rcu.h"

static inline struct near_rcu_stats rcu_now(const struct near_rcu *d)
{
	struct near_rcu_stats s;

	KEEPS_ERRNO(CHECK(near_rcu_stats(d, &s, sizeof(s)) == 0));
	return s;
}

static inline uint64_t rcu_slept(const struct near_rcu *d)
{
	return __atomic_load_n(&d->slept, __ATOMIC_ACQUIRE);
}

/* What callbacks are called for. */
struct rcu_called {
	struct near_rcu_head head;
	struct near_rcu *d;
	unsigned times; /* atomic */
	unsigned more;  /* how often the callback calls again */
	pid_t tid;      /* of the thread that ran it */
};

static inline void rcu_count(struct near_rcu_head *head)
{
	struct rcu_called *c = (struct rcu_called *)head;

	c->tid = (pid_t)syscall(SYS_gettid);
	__atomic_fetch_add(&c->times, 1, __ATOMIC_RELEASE);
	if (c->more) {
		c->more--;
		near_rcu_call(c->d, head, rcu_count, 1);
	}
}

static inline void rcu_call(struct near_rcu *d, struct rcu_called *c, size_t bytes)
{
	c->d = d;
	KEEPS_ERRNO(near_rcu_call(d, &c->head, rcu_count, bytes));
}

static inline unsigned rcu_times(const struct rcu_called *c)
{
	return __atomic_load_n(&c->times, __ATOMIC_ACQUIRE);
}

/* A thread in a section. */
struct rcu_reader {
	struct near_rcu *d;
	bool wrapper; /* read_lock */
	bool inside, leaves;
	pthread_t thread;
};

static inline void *rcu_reader_run(void *reader)
{
	struct rcu_reader *r = reader;
	near_rcu_token t = {0};

	if (r->wrapper)
		near_rcu_read_lock(r->d);
	else
		t = near_rcu_enter(r->d);
	__atomic_store_n(&r->inside, true, __ATOMIC_SEQ_CST);
	unit_await(&r->leaves);
	if (r->wrapper)
		near_rcu_read_unlock(r->d);
	else
		near_rcu_exit(r->d, t);
	return NULL;
}

static inline void rcu_reader_start(struct rcu_reader *r, struct near_rcu *d, bool wrapper)
{
	*r = (struct rcu_reader){.d = d, .wrapper = wrapper};
	r->thread = unit_start(rcu_reader_run, r);
	unit_await(&r->inside);
}

static inline void rcu_reader_end(struct rcu_reader *r)
{
	__atomic_store_n(&r->leaves, true, __ATOMIC_SEQ_CST);
	unit_join(r->thread);
}

static inline void *rcu_synchronize_run(void *domain)
{
	KEEPS_ERRNO(near_rcu_synchronize(domain));
	return NULL;
}

/* For programs linked with --wrap=pthread_create, which define RCU_NO_THREADS. */
#ifdef RCU_NO_THREADS
static bool rcu_no_threads;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	if (__atomic_load_n(&rcu_no_threads, __ATOMIC_RELAXED))
		return EAGAIN;
	return __real_pthread_create(thread, attr, run, arg);
}
#endif

#endif
