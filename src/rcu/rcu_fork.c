/* SPDX-License-Identifier: MIT */
/* near_rcu: fork.
 *
 * No lock is held while a thread waits for readers: the thread that forks may be in a section. The
 * child's handler makes every domain one without readers, by counting out all that is counted in,
 * and then counts in the sections of read_lock of its only thread again.
 *
 * Its signal handlers may read at the same time. They end their sections before the handler here
 * continues; sums that differ are computed again. */
#include "rcu/rcu.h"

#include <sys/syscall.h>
#include <unistd.h>

static void rcu_visit_locks(near__fork_step *step)
{
	step(&near__rcu.lock);
	step(&near__rcu.lists);
}

static void drop_readers(struct near_rcu *d)
{
	struct near__rcu_slot *fallback = near__fallback(d->slots);

	for (unsigned i = 0; i < 2; i++) {
		uint64_t n = near__rcu_inside(d, i);

		while (n != near__rcu_inside(d, i))
			n = near__rcu_inside(d, i);
		if (n)
			__atomic_fetch_add(&fallback->out[i], n, __ATOMIC_RELAXED);
	}
}

/* Appends a list to those that were pushed without a slot, as one batch takes all of them. */
static void push_list(struct near_rcu *d, struct near_rcu_head *list)
{
	struct near_rcu_head *last = list, *first = __atomic_load_n(&d->pushed, __ATOMIC_RELAXED);

	if (!list)
		return;
	while (last->next)
		last = last->next;
	do
		last->next = first;
	while (!__atomic_compare_exchange_n(&d->pushed, &first, list, true, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED));
}

/* What the worker had begun: what it took, and the lists that it was about to take. Handlers
 * push to the other lists. */
static void push_again(struct near_rcu *d)
{
	push_list(d, d->running);
	push_list(d, d->taken);
	d->running = d->taken = NULL;
	for (unsigned s = 0; near_percpu_next(d->slots, &s); s++) {
		uint64_t *list = &near__rcu_slot(d, s)->calls[!d->batch];

		if (near_percpu_is_fallback(s))
			continue;
		push_list(d, (struct near_rcu_head *)(uintptr_t)*list);
		*list = 0;
	}
}

/* The worker is lost, or has itself forked, in a callback. What it was executing, the parent
 * executes. */
static void reset_worker(struct near_rcu *d)
{
	if (near__rcu_works_for(d))
		return;
	if (d->executing && d->executing != d->running) {
		d->ran = d->next_ran;
		d->ran_bytes = d->next_ran_bytes;
	}
	d->executing = NULL;
	push_again(d);
	d->request = NEAR__RCU_NOTHING;
	d->call_wakes = near__rcu_call_wakes(d);
	d->worker = NEAR__RCU_ABSENT;
	d->works_in = 0;
	d->batches_begun = d->batches_done;
}

static void domain_reset(struct near_rcu *d)
{
	struct near__rcu_section *own = near__rcu_section(d, near__rcu_thread_peek());

	drop_readers(d);
	if (own->depth)
		own->token = near__rcu_count_in(d);
	d->begun = d->done;
	d->drives = 0;
	/* `waiters` and `batch_waiters` stay: a handler may fork in a thread that is one. */
	d->sleeps = 0;
	d->waits_since = 0;
	reset_worker(d);
}

static void rcu_reset_child(void)
{
	if (near__rcu_thread_peek()->known)
		near__rcu_thread_peek()->tid = (uint32_t)syscall(SYS_gettid);
	if (near__fork_is_mine(&near__rcu.turn)) {
		near__rcu_drop_records();
		for (struct near_rcu *d = near__rcu.domains; d; d = d->next)
			domain_reset(d);
	}
}

NEAR__FORK_HANDLERS(rcu, &near__rcu.turn, rcu_visit_locks, rcu_visit_locks, rcu_reset_child)

/* A constructor, before there are threads; near_rcu_init calls it, too, so that it is part of a
 * static program. */
__attribute__((constructor)) void near__rcu_watch_forks(void)
{
	NEAR__FORK_REGISTER(rcu, &near__rcu.watches_forks);
}
