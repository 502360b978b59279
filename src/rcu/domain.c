/* SPDX-License-Identifier: MIT */
/* near_rcu: domains, and their statistics. */
#include "rcu/rcu.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/known.h"
#include "base/reserved.h"
#include "base/valgrind.h"

#define INTERVAL_US 1000
#define LAZY_INTERVAL_US 100000
#define LONGEST_US 3600000000u

static int domain_allocate(struct near_rcu *d)
{
	void *p;
	int r = near_percpu_alloc(sizeof(struct near__rcu_slot), sizeof(struct near__rcu_slot), &p);

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

static void domain_release(struct near_rcu *d)
{
	if (d->called_bytes.p)
		near_counter_destroy(&d->called_bytes);
	if (d->called.p)
		near_counter_destroy(&d->called);
	if (d->slots)
		near_percpu_free(d->slots);
}

static void domain_add(void *domain)
{
	struct near_rcu *d = domain;

	if (near__rcu_checks() && !near__rcu_has_records())
		return;
	d->next = near__rcu.domains;
	near__rcu.domains = d;
}

int near_rcu_init(struct near_rcu *d, const struct near_rcu_options *o)
{
	int r;

	if (o && (o->interval_us > LONGEST_US || o->lazy_interval_us > LONGEST_US ||
		  (o->flags & ~NEAR_RCU_NO_THREAD) || !NEAR__RESERVED_ARE_ZERO(o)))
		return -EINVAL;
	memset(d, 0, sizeof(*d));
	d->section = NEAR__RCU_NO_SECTION;
	d->flags = o ? o->flags : 0;
	d->call_wakes = near__rcu_call_wakes(d);
	d->interval_us = o && o->interval_us ? o->interval_us : INTERVAL_US;
	d->lazy_interval_us = o && o->lazy_interval_us ? o->lazy_interval_us : LAZY_INTERVAL_US;
	near__valgrind_ignore(d, sizeof(*d));
	near__rcu_watch_forks();
	r = domain_allocate(d);
	if (!r) {
		near__rcu_with_lock(&near__rcu.lock, domain_add, d);
		r = near__rcu_checks() && !near__rcu.records ? -ENOMEM : 0;
	}
	if (r)
		domain_release(d);
	return r;
}

/* *domain becomes NULL if it is none. */
static void domain_drop(void *domain)
{
	struct near_rcu **d = domain, **at = &near__rcu.domains;

	while (*at && *at != *d)
		at = &(*at)->next;
	if (*at) {
		*at = (*d)->next;
		near__rcu_drop_number(*d);
	} else {
		*d = NULL;
	}
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
	near__rcu_with_lock(&near__rcu.lock, domain_drop, &dropped);
	if (!dropped) /* without the lock: a handler of SIGABRT may fork */
		near__die("near_rcu_destroy: no domain, or destroyed before");
	domain_release(d);
	memset(d, 0, sizeof(*d));
}

int near_rcu_stats(const struct near_rcu *d, struct near_rcu_stats *out, size_t size)
{
	struct near_rcu_stats s = {0};
	uint64_t since;
	int64_t readers;

	s.periods = __atomic_load_n(&d->done, __ATOMIC_ACQUIRE);
	s.slept = __atomic_load_n(&d->slept, __ATOMIC_ACQUIRE);
	since = __atomic_load_n(&d->waits_since, __ATOMIC_RELAXED);
	s.waits_ns = since ? near__clock_ns(CLOCK_MONOTONIC) - since : 0;
	readers = (int64_t)(near__rcu_inside(d, 0) + near__rcu_inside(d, 1));
	s.readers = readers > 0 ? (uint64_t)readers : 0;
	s.pending_bytes = near__rcu_pending_bytes(d);
	s.pending_calls = near__rcu_pending_calls(d);
	s.calls = (uint64_t)near_counter_read(&d->called);
	return near__copy_known(out, size, &s, sizeof(s));
}
