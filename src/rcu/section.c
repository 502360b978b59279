/* SPDX-License-Identifier: MIT */
/* near_rcu_read_lock: what a thread remembers of its sections, and what is wrong with them.
 *
 * The count of a section is taken before its depth is set, and given back after the depth is
 * cleared. A signal handler in between finds the depth 0, counts a section of its own, and leaves
 * the depth 0; the interrupted code has its own token in a register. */
#include "rcu/rcu.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/tsan.h"

#define BARRIER __atomic_signal_fence(__ATOMIC_SEQ_CST)

/* ---- registration: the first read_lock of a thread ---- */

static void check_exit(struct near__rcu_thread *t)
{
	char line[160];

	for (unsigned n = 0; n < NEAR__RCU_NUMBERS; n++)
		if (t->sections[n].depth) {
			snprintf(line, sizeof(line),
				 "near_rcu: thread %u ends within a section, begun by %p", t->tid,
				 t->sections[n].site);
			near__die(line);
		}
	near__rcu_check_records(NULL, "near_rcu: the end of a thread");
}

/* With signals blocked, so that a handler does not wait for its own thread; a handler within fork
 * has the lock. */
void near__rcu_with_lock(struct near_lock *lock, void (*change)(void *arg), void *arg)
{
	sigset_t old;

	if (near__fork_is_mine(&near__rcu.turn)) {
		change(arg);
		return;
	}
	near__signals_block(&old);
	near_lock_lock(lock);
	change(arg);
	near_lock_unlock(lock);
	near__signals_restore(&old);
}

/* The key's destructor. The second time, so that destructors of other keys may still read. */
static void thread_leave(void *thread)
{
	struct near__rcu_thread *t = thread;

	if (!t->exits++) {
		pthread_setspecific(near__rcu.exit_key, t);
		return;
	}
	check_exit(t);
	t->known = 0;
	t->exits = 0;
}

static void add_thread(void *thread)
{
	struct near__rcu_thread *t = thread;
	pthread_key_t key;

	if (t->known)
		return; /* by a handler */
	if (!near__rcu.has_exit_key && pthread_key_create(&key, thread_leave) == 0) {
		near__rcu.exit_key = key;
		near__rcu.has_exit_key = 1;
	}
	t->tid = (uint32_t)syscall(SYS_gettid);
	if (near__rcu.has_exit_key)
		pthread_setspecific(near__rcu.exit_key, t);
	t->known = NEAR__RCU_NO_SECTION;
}

/* The domain has none afterwards if all are in use. */
static void add_number(void *domain)
{
	struct near_rcu *d = domain;
	unsigned n = 0;

	if (d->section != NEAR__RCU_NO_SECTION)
		return;
	while (near__rcu.used_numbers >> n & 1)
		n++;
	if (n == NEAR__RCU_NUMBERS)
		return;
	near__rcu.used_numbers |= 1u << n;
	__atomic_store_n(&d->section, NEAR__RCU_SECTION(n), __ATOMIC_RELAXED);
}

void near__rcu_drop_number(struct near_rcu *d)
{
	for (unsigned n = 0; n < NEAR__RCU_NUMBERS; n++)
		if (d->section == NEAR__RCU_SECTION(n))
			near__rcu.used_numbers &= ~(1u << n);
}

static struct near__rcu_thread *thread_add(struct near_rcu *d)
{
	struct near__rcu_thread *t = near__rcu_thread_own();

	if (!t)
		near__die("near_rcu_read_lock: no memory to record the section; near_rcu_enter "
			  "needs none");
	if (!t->known && near__storage_is_own())
		near__rcu_with_lock(&near__rcu.lock, add_thread, t);
	if (__atomic_load_n(&d->section, __ATOMIC_RELAXED) == NEAR__RCU_NO_SECTION)
		near__rcu_with_lock(&near__rcu.lock, add_number, d);
	if (__atomic_load_n(&d->section, __ATOMIC_RELAXED) == NEAR__RCU_NO_SECTION)
		/* without the lock: a handler of SIGABRT may fork */
		near__die("near_rcu_read_lock: of more than eight domains; use near_rcu_enter");
	return t;
}

/* ---- sections ---- */

/* The functions below make calls only where they return what these return: so they save no
 * registers. */

static void section_begin(struct near__rcu_section *s, uint64_t token, const void *site)
{
	BARRIER;
	s->depth = 1;
	BARRIER;
	s->token = token;
	s->site = site;
}

static __attribute__((noinline)) void lock_slow(struct near_rcu *d, const void *site)
{
	struct near__rcu_section *s;

	s = near__rcu_section(d, thread_add(d));
	if (s->depth)
		s->depth++;
	else
		section_begin(s, near__rcu_count_in(d), site);
}

void near_rcu_read_lock(struct near_rcu *d)
{
	struct near__rcu_thread *t = near__rcu_thread_peek();
	struct near__rcu_section *s = near__rcu_section(d, t);
	const void *site = __builtin_return_address(0);
	uint64_t token;

	if (NEAR__UNLIKELY(__atomic_load_n(&d->section, __ATOMIC_RELAXED) >= t->known))
		lock_slow(d, site);
	else if (s->depth)
		s->depth++;
	else if (NEAR__UNLIKELY(!near__rcu_try_enter(d, &token)))
		lock_slow(d, site);
	else
		section_begin(s, token, site);
}

static __attribute__((noinline)) void unlock_nested(struct near__rcu_section *s)
{
	if (!s->depth)
		near__die("near_rcu_read_unlock: this thread is in no section of the domain");
	s->depth--;
}

static __attribute__((noinline)) void unlock_watched(struct near_rcu *d)
{
	struct near__rcu_section *s = near__rcu_section(d, near__rcu_thread_peek());
	uint64_t token = s->token;

	NEAR__TSAN_RELEASE(&d->slots);
	s->depth = 0;
	BARRIER;
	near__rcu_count_out(d, token);
}

/* A domain that has no section yet finds one that was never begun. */
void near_rcu_read_unlock(struct near_rcu *d)
{
	struct near__rcu_section *s = near__rcu_section(d, near__rcu_thread_peek());
	uint64_t token = s->token;

	if (NEAR__UNLIKELY(s->depth != 1)) {
		unlock_nested(s);
		return;
	}
	if (NEAR__TSAN_HERE) {
		unlock_watched(d);
		return;
	}
	s->depth = 0;
	BARRIER;
	if (NEAR__UNLIKELY(!near__rcu_try_exit(token)))
		near__rcu_exit_slow(d, token);
	else if (NEAR__UNLIKELY(__atomic_load_n(&d->sleeps, __ATOMIC_RELAXED)))
		near__rcu_wake(d);
}

bool near_rcu_is_reading(const struct near_rcu *d)
{
	return near__rcu_section(d, near__rcu_thread_peek())->depth;
}

void near__rcu_check_outside(const struct near_rcu *d, const char *what)
{
	char line[160];

	if (near_rcu_is_reading(d)) {
		snprintf(line, sizeof(line), "%s: within a section of this domain, begun by %p",
			 what, near__rcu_section(d, near__rcu_thread_peek())->site);
		near__die(line);
	}
	near__rcu_check_records(d, what);
}

/* ---- a reader that delays a grace period ---- */

/* Of another thread, which may change it now. */
static __attribute__((noinline, no_sanitize("thread"))) struct near__rcu_section
section_of(const struct near_rcu *d, const struct near__rcu_thread *t)
{
	return *(const volatile struct near__rcu_section *)near__rcu_section(d, t);
}

/* Of a thread that is not known the domain has no section: the number may be another's. */
static __attribute__((noinline, no_sanitize("thread"))) bool
is_registered(const struct near__rcu_thread *t)
{
	return ((const volatile struct near__rcu_thread *)t)->known;
}

struct delay {
	const struct near_rcu *d;
	uint64_t phase; /* as tokens have it */
	uint64_t left;  /* sections of it; those of tokens, once those of threads are subtracted */
};

static void thread_report(const struct near__block *b, void *delay)
{
	const struct near__rcu_thread *t = (const void *)b->rcu;
	struct delay *w = delay;
	struct near__rcu_section s;
	char line[160];

	if (!is_registered(t))
		return;
	s = section_of(w->d, t);
	if (!s.depth || s.token != w->phase)
		return;
	snprintf(line, sizeof(line),
		 "near_rcu: a grace period waits for thread %u, in a section begun by %p", t->tid,
		 s.site);
	near__warn(line);
	w->left -= w->left > 0;
}

void near__rcu_report(const struct near_rcu *d, unsigned phase, uint64_t sections)
{
	struct delay w = {d, (uintptr_t)&d->slots->out[phase], sections};

	near__blocks_visit(thread_report, &w);
	if (w.left && !near__rcu_checks())
		near__warn("near_rcu: a grace period waits for a section of near_rcu_enter; "
			   "NEAR_CONF=rcu_check:1 finds its caller");
	near__rcu_report_records(d);
}
