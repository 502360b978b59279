/* SPDX-License-Identifier: MIT */
/* The lock-order checker: which thread holds which locks, and the checks of near_mutex and
 * near_rwlock.
 *
 * What can interleave, and what orders it:
 *
 * - Two threads that use the graph: its lock. Only the thread itself uses the list of locks that it
 *   holds.
 * - A signal handler: handlers must not use the locks, nor free memory, so they do not reach the
 *   checker. A handler may fork in a process with one thread, whatever it has interrupted: the
 *   child goes on with that, and nothing is reset (base/fork.h).
 * - A fork while another thread has the graph's lock, in the middle of a change: the child finds
 *   the lock held, and begins with an empty graph. A child sees the stores of another thread up to
 *   one of them, in order (note_use in lot.c), so it sees the lock held if it sees the change.
 * - A free, and the first lock in the same memory by another thread: malloc calls the checker
 *   before any thread can get the memory.
 * - A thread that ended: its record is reused by a thread with the same id, or freed when room is
 *   needed and the kernel reports that there is no such thread.
 * - A vfork child uses its parent's list, as the rest of its memory.
 * - Several copies of the library share the graph and the lists. */
#define _GNU_SOURCE
#include "locks/lockdep.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/fork.h"
#include "base/identity.h"
#include "base/probe.h"
#include "locks/owner.h"

#define THREADS_AT_FIRST 64
#define MAP (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static void warn_once(uint32_t *reported, enum near__lockdep_full what, const char *text)
{
	if (!(__atomic_fetch_or(reported, what, __ATOMIC_RELAXED) & what))
		near__warn(text);
}

/* Acquire: pairs with the release in lockdep_create. NULL: not created yet. */
static struct near__lockdep *lockdep_current(void)
{
	return __atomic_load_n(&near__locks.lockdep, __ATOMIC_ACQUIRE);
}

/* A mapping is zero; the rest is set before the release publishes it. */
static struct near__lockdep *lockdep_create(void)
{
	struct near__lockdep *d = lockdep_current(), *new;
	int saved = errno;

	if (d)
		return d;
	new = mmap(NULL, sizeof(*new), PROT_READ | PROT_WRITE, MAP, -1, 0);
	errno = saved;
	if (new == MAP_FAILED) {
		warn_once(&near__locks.lockdep_reported, NEAR__LOCKDEP_NO_MEMORY,
			  "lock order: no memory to check with: locks are not checked");
		return NULL;
	}
	new->threads_limit = THREADS_AT_FIRST;
	if (__atomic_compare_exchange_n(&near__locks.lockdep, &d, new, false, __ATOMIC_RELEASE,
					__ATOMIC_RELAXED))
		return new;
	munmap(new, sizeof(*new));
	return lockdep_current();
}

/* The fence orders the lock before the changes, also on weakly ordered CPUs: a forked child that
 * finds a change finds the lock held. */
static void lockdep_enter(struct near__lockdep *d)
{
	near_lock_lock(&d->lock);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static struct near__lockdep_thread *find_record(struct near__lockdep *d, uint32_t owner)
{
	struct near__lockdep_thread *free = NULL;

	for (uint32_t i = 0; i < d->threads_used; i++) {
		uint32_t found = __atomic_load_n(&d->threads[i].owner, __ATOMIC_RELAXED);

		if (found == owner)
			return &d->threads[i];
		if (!found)
			free = &d->threads[i];
	}
	if (!free && d->threads_used < d->threads_limit)
		free = &d->threads[d->threads_used++];
	return free;
}

/* Frees the records of threads that have ended; doubles the limit if fewer than half were. */
static void sweep_records(struct near__lockdep *d)
{
	uint32_t alive = 0;

	for (uint32_t i = 0; i < d->threads_used; i++) {
		uint32_t *at = &d->threads[i].owner;
		uint32_t owner = __atomic_load_n(at, __ATOMIC_RELAXED);
		bool ended = near__owner_has_ended(at);

		if (ended)
			__atomic_store_n(at, 0, __ATOMIC_RELAXED);
		alive += owner && !ended;
	}
	if (alive > d->threads_limit / 2 && d->threads_limit < NEAR__LOCKDEP_THREADS)
		d->threads_limit *= 2;
}

static void lockdep_forget_freed(const void *p, uint64_t n);

/* With the graph's lock, and before the thread makes a pair: whichever thread frees its locks comes
 * after this. Release: pairs with the acquire in near__probe. */
static void watch_frees(void)
{
	struct near__probe *free = &near__probes[NEAR__PROBE_FREE];

	if (free->enabled)
		return;
	free->hit = lockdep_forget_freed;
	__atomic_store_n(&free->enabled, 1, __ATOMIC_RELEASE);
}

static struct near__lockdep_thread *get_record(struct near__lockdep *d, uint32_t owner)
{
	struct near__lockdep_thread *t;

	lockdep_enter(d);
	watch_frees();
	t = find_record(d, owner);
	if (!t) {
		sweep_records(d);
		t = find_record(d, owner);
	}
	if (t) {
		/* The kernel reported the end of its thread, which orders all that thread did. */
		NEAR__TSAN_ACQUIRE(t);
		__atomic_store_n(&t->owner, owner, __ATOMIC_RELAXED);
		t->count = 0;
	}
	near_lock_unlock(&d->lock);
	if (!t)
		warn_once(&d->reported, NEAR__LOCKDEP_MANY_THREADS,
			  "lock order: too many threads: new ones are not checked");
	return t;
}

bool near__lockdep_begin(void)
{
	uint32_t owner = near__owner_now();
	struct near__locks_thread *mine = near__locks_thread_peek();
	struct near__lockdep *d;

	/* Where near__owner_now stored no id, the settings are not known yet, or this is a child of
	 * vfork or clone, whose id must not get into its parent's storage. */
	if (!mine->owner_checked || !near__storage_is_own() || !near__process.conf.lock_check)
		return false;
	d = lockdep_create();
	mine->lockdep = d ? get_record(d, owner) : NULL;
	if (!mine->lockdep)
		near__owner_uncheck();
	return mine->lockdep;
}

static void stop_if_set(void)
{
	if (near__process.conf.lock_check == NEAR__LOCK_CHECK_STOPS)
		near__die("lock order: stopped, because of NEAR_CONF=lock_check:2");
}

static void check_pair(struct near__lockdep *d, const struct near__lockdep_step *pair)
{
	struct near__lockdep_cycle cycle;
	bool full = false, closes;

	lockdep_enter(d);
	closes = near__lockdep_add(d, pair, &cycle, &full);
	near_lock_unlock(&d->lock);
	if (full)
		warn_once(&d->reported, NEAR__LOCKDEP_MANY_PAIRS,
			  "lock order: too many pairs of locks: new ones are not checked");
	if (!closes)
		return;
	near__lockdep_report(d, &cycle);
	if (!cycle.alone)
		stop_if_set();
}

void near__lockdep_check(const void *lock, const void *site)
{
	struct near__lockdep_thread *t = near__locks_thread_peek()->lockdep;
	struct near__lockdep_step pair = {.wanted = {lock, site}, .owner = near__owner_now()};

	for (uint32_t i = 0; i < t->count; i++)
		if (t->held[i].lock == lock)
			return; /* a nested reader; a mutex stops the program by itself */
	for (uint32_t i = 0; i < t->count; i++) {
		pair.held = t->held[i];
		check_pair(lockdep_current(), &pair);
	}
	NEAR__TSAN_RELEASE(t);
}

void near__lockdep_push(const void *lock, const void *site)
{
	struct near__lockdep_thread *t = near__locks_thread_peek()->lockdep;

	if (t->count < NEAR__LOCKDEP_HELD)
		t->held[t->count++] = (struct near__lockdep_held){lock, site};
	else
		warn_once(
			&lockdep_current()->reported, NEAR__LOCKDEP_MANY_HELD,
			"lock order: a thread holds too many locks: its last ones are not checked");
	NEAR__TSAN_RELEASE(t);
}

/* The i-th of those that the thread holds. */
static void remove_held(struct near__lockdep_thread *t, uint32_t i)
{
	t->count--;
	memmove(&t->held[i], &t->held[i + 1], (t->count - i) * sizeof(t->held[0]));
	NEAR__TSAN_RELEASE(t);
}

void near__lockdep_pop(const void *lock)
{
	struct near__lockdep_thread *t = near__locks_thread_peek()->lockdep;
	uint32_t i = t->count;

	while (i && t->held[i - 1].lock != lock)
		i--;
	if (i)
		remove_held(t, i - 1);
}

/* False: the lock's holder may be a thread that fork did not copy, as handlers of the program that
 * run before lockdep_forked() can free memory; lockdep_forked() then empties the graph. (Or this is
 * a child of vfork: then the locks are not forgotten.) */
static bool enter_to_drop(struct near__lockdep *d)
{
	if (!near_lock_try_lock(&d->lock)) {
		if (!near__identity_is(near__locks.process))
			return false;
		near_lock_lock(&d->lock);
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* as in lockdep_enter */
	return true;
}

void near__lockdep_drop(const void *p, uint64_t n)
{
	struct near__lockdep *d = lockdep_current();

	if (!near__lockdep_may_have(d, p, n) || !enter_to_drop(d))
		return;
	near__lockdep_drop_nodes(d, p, n);
	near_lock_unlock(&d->lock);
}

/* A lock that is freed while it is held is never unlocked, or at another address. */
static void drop_held(const void *p, uint64_t n)
{
	struct near__lockdep_thread *t = near__locks_thread_peek()->lockdep;

	for (uint32_t i = t ? t->count : 0; i--;) {
		struct near__lockdep_held held = t->held[i];

		if ((uintptr_t)held.lock - (uintptr_t)p >= n)
			continue;
		remove_held(t, i);
		near__lockdep_report_freed(lockdep_current(), &held);
		stop_if_set();
	}
}

/* NEAR__PROBE_FREE: called in malloc's functions, which hold no lock then. */
static void lockdep_forget_freed(const void *p, uint64_t n)
{
	drop_held(p, n);
	near__lockdep_drop(p, n);
}

/* Before a fork, in the handlers that were registered: those of one copy of the library. */
static bool was_one_thread;

static void before_fork(void)
{
	was_one_thread = lockdep_current() && near__is_one_thread();
}

/* In the child of a fork. */
static void lockdep_forked(void)
{
	struct near__lockdep *d = lockdep_current();

	if (!d)
		return;
	if (near__locks_thread_peek()->lockdep)
		near__locks_thread_peek()->lockdep->owner = near__owner_from_kernel();
	if (was_one_thread)
		return;
	if (d->lock.word) {
		d->nodes_used = d->nodes_free = d->nodes_destroyed = d->edges_used = 0;
		memset(d->node_heads, 0, sizeof(d->node_heads));
		memset(d->edge_heads, 0, sizeof(d->edge_heads));
	}
	memset(&d->lock, 0, sizeof(d->lock));
	memset(&d->report_lock, 0, sizeof(d->report_lock));
	d->used = 0;
}

__attribute__((constructor)) static void lockdep_watch_forks(void)
{
	near__fork_register(&near__locks.lockdep_watches_forks, before_fork, NULL, lockdep_forked);
}
