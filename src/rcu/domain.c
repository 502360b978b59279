/* SPDX-License-Identifier: MIT */
/* near_rcu: domains, and their statistics. */
#include "rcu.h"

#include <errno.h>
#include <string.h>

#include "ground/valgrind.h"

#define INTERVAL_US 1000
#define LAZY_INTERVAL_US 100000
#define LONGEST_US 3600000000u

static int allocate(struct near_rcu *d)
{
	void *p;
	int r = near_percpu_alloc(&p, sizeof(struct near__rcu_slot), sizeof(struct near__rcu_slot));

	if (r)
		return r;
	d->slots = p;
	d->phase = (uintptr_t)&d->slots->out[0];
	d->calls = d->slots->calls;
	r = near_counter_init(&d->called);
	if (!r)
		r = near_counter_init(&d->called_bytes);
	return r;
}

static void release(struct near_rcu *d)
{
	if (d->called_bytes.p)
		near_counter_destroy(&d->called_bytes);
	if (d->called.p)
		near_counter_destroy(&d->called);
	if (d->slots)
		near_percpu_free(d->slots);
}

static void add(void *domain)
{
	struct near_rcu *d = domain;

	if (near__rcu_checks() && !near__rcu_has_records())
		return;
	d->next = near__rcu.domains;
	near__rcu.domains = d;
}

int near_rcu_init_with(struct near_rcu *d, const struct near_rcu_options *o)
{
	int r;

	if (o && (o->interval_us > LONGEST_US || o->lazy_interval_us > LONGEST_US))
		return -EINVAL;
	memset(d, 0, sizeof(*d));
	d->section = NEAR__RCU_NO_SECTION;
	d->call_wakes = NEAR__RCU_EACH_CALL;
	d->interval_us = o && o->interval_us ? o->interval_us : INTERVAL_US;
	d->lazy_interval_us = o && o->lazy_interval_us ? o->lazy_interval_us : LAZY_INTERVAL_US;
	near__valgrind_ignore(d, sizeof(*d));
	near__rcu_watch_forks();
	r = allocate(d);
	if (!r) {
		near__rcu_with_lock(add, d);
		r = near__rcu_checks() && !near__rcu.records ? -ENOMEM : 0;
	}
	if (r)
		release(d);
	return r;
}

int near_rcu_init(struct near_rcu *d)
{
	return near_rcu_init_with(d, NULL);
}

/* *domain becomes NULL if it is none. */
static void drop(void *domain)
{
	struct near_rcu *d = *(struct near_rcu **)domain, **at = &near__rcu.domains;

	while (*at && *at != d)
		at = &(*at)->next;
	if (!*at) {
		*(struct near_rcu **)domain = NULL;
		return;
	}
	*at = d->next;
	near__rcu_drop_number(d);
}

void near_rcu_destroy(struct near_rcu *d)
{
	struct near_rcu *dropped = d;

	near__rcu_check_outside(d, "near_rcu_destroy");
	if (near__rcu_works_for(d))
		near__die("near_rcu_destroy: called by a callback of the domain");
	/* A callback may call: until none is pending, nor runs. */
	while (!near__rcu_is_idle(d))
		near_rcu_barrier(d);
	near__rcu_stop_worker(d);
	near__rcu_with_lock(drop, &dropped);
	if (!dropped) /* without the lock: a handler of SIGABRT may fork */
		near__die("near_rcu_destroy: no domain, or destroyed before");
	release(d);
	memset(d, 0, sizeof(*d));
}

int near_rcu_stats(const struct near_rcu *d, struct near_rcu_stats *out, size_t size)
{
	struct near_rcu_stats s = {0};

	if (!size)
		return -EINVAL;
	s.periods = __atomic_load_n(&d->done, __ATOMIC_ACQUIRE);
	s.slept = __atomic_load_n(&d->slept, __ATOMIC_RELAXED);
	s.readers = near__rcu_readers(d);
	s.pending_bytes = __atomic_load_n(&d->ran_bytes, __ATOMIC_ACQUIRE);
	s.pending_calls = __atomic_load_n(&d->ran, __ATOMIC_ACQUIRE);
	s.calls = (uint64_t)near_counter_read(&d->called);
	s.pending_calls = s.calls - s.pending_calls;
	s.pending_bytes = (uint64_t)near_counter_read(&d->called_bytes) - s.pending_bytes;
	memset(out, 0, size);
	memcpy(out, &s, size < sizeof(s) ? size : sizeof(s));
	return 0;
}
