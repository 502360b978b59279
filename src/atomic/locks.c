/* SPDX-License-Identifier: MIT */
/* Several locks at once. They are taken in ascending order, by any object's the same. That alone
 * would not do: a handler holds what the code has taken that it interrupted, out of any order. So
 * nobody keeps a lock while it waits for another but for some pauses: it lets go of all, sleeps
 * until that one is free, and starts again. */
#define _GNU_SOURCE
#include "locks.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* After a writer met another so many loads take the lock. */
#define CROWD 64

/* So many rounds for a holder that runs. Few looks and long pauses: whoever is away for a while
 * leaves the cache lines to one who makes progress. With 16 pauses instead of 64, two threads that
 * add to one object took 1.6 times as long. */
#define ROUNDS 4
#define PAUSES 64

/* So often a fork gives its CPU away, before it lets go of all for so long. */
#define PATIENCE 300
#define NAP_NS 100000

/* So long a handler that has lent waits before it looks for signals. */
#define SIGNALS_NS 5000000

void near__locks_of_many(struct near__locks *out, uintptr_t line, size_t lines)
{
	uint64_t set[NEAR__ATOMIC_LOCKS / 64] = {0};

	for (size_t i = 0; i < lines; i++) {
		unsigned lock = near__atomic_hash(line + i);

		set[lock / 64] |= (uint64_t)1 << lock % 64;
	}
	out->count = 0;
	for (unsigned word = 0; word < NEAR__ATOMIC_LOCKS / 64; word++)
		for (uint64_t left = set[word]; left; left &= left - 1)
			out->list[out->count++] = (uint8_t)(64 * word + __builtin_ctzll(left));
}

static bool take_soon(struct near__atomic_lock *l, unsigned long mine)
{
	int rounds = 0;

	for (; !near__take_at_once(l, mine); rounds++) {
		if (rounds == ROUNDS)
			return false;
		near__pauses(PAUSES);
	}
	if (rounds)
		near__count(&l->spun);
	return true;
}

/* *waited: the lock that was waited for last. */
static void wait_next(struct near__atomic_lock *l, struct near__atomic_lock **waited,
		      const struct timespec *at_most)
{
	if (*waited && *waited != l)
		near__pass_on(*waited);
	*waited = l;
	near__atomic_wait(l, at_most);
}

bool near__take_from(const struct near__locks *locks, unsigned long mine, bool writes, unsigned i)
{
	struct near__atomic_lock *waited = NULL;

	if (writes)
		__atomic_store_n(&near__nth(locks, 0)->crowded, CROWD, __ATOMIC_RELAXED);
	for (; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);
		bool own = near__holds(l, mine);

		if (!own && take_soon(l, mine))
			continue;
		near__let_go_of(locks, i, NEAR__DROPPED);
		if (own || near__is_lent(l) || near__holds_any(mine)) {
			if (waited)
				near__pass_on(waited);
			return false;
		}
		wait_next(l, &waited, NULL);
		i = -1U;
	}
	return true;
}

static void give_back_all(const struct near__locks *borrowed)
{
	for (unsigned i = 0; i < borrowed->count; i++)
		near__give_back(near__nth(borrowed, i));
}

void near__let_go_holding(const struct near__holding *h, enum near__purpose purpose)
{
	give_back_all(&h->borrowed);
	near__let_go_of(&h->taken, h->taken.count, purpose);
}

static void add(struct near__locks *list, uint8_t lock)
{
	for (unsigned i = 0; i < list->count; i++)
		if (list->list[i] == lock)
			return;
	list->list[list->count++] = lock;
}

/* A section is taken back by who has all its locks: its object may lie under more than one. */
static void add_those_of(struct near__locks *list, const struct near__section *s)
{
	struct near__locks more;

	if (!near__is_open(s))
		return;
	near__locks_of(&more, s->object, s->size);
	for (unsigned i = 0; i < more.count; i++)
		add(list, more.list[i]);
}

/* Held by a section that this thread's handler interrupted, and not lent. */
static bool is_own(const struct near__atomic_lock *l, unsigned long mine)
{
	return near__holds(l, mine) && __atomic_load_n(&l->lent, __ATOMIC_SEQ_CST) == NEAR__KEPT;
}

/* What is waited for may take as long as it likes, and may itself wait for this thread's answer to
 * a signal. A handler must find nothing lent. So, if a signal has come, the loan ends, and the
 * handler comes; else it goes on, so that who needs it has all the time. */
static void serve_signals(struct near__loan *loan, struct near__blocked *b)
{
	if (!near__signal_waits(b))
		return;
	near__claim_all(loan);
	memset(loan, 0, sizeof(*loan));
	near__unblock_signals(b);
	*b = near__block_signals();
}

/* With signals blocked only where this thread has lent what a handler of its own would need. */
static void lend_and_wait(struct near__atomic_lock *l, struct near__atomic_lock **waited,
			  unsigned long mine, struct near__loan *loan, struct near__blocked *b)
{
	static const struct timespec a_while = {.tv_nsec = SIGNALS_NS};

	if (near__lend_all(loan, mine)) {
		wait_next(l, waited, &a_while);
		near__pass_on(l); /* a handler may take its time */
		serve_signals(loan, b);
	} else {
		near__unblock_signals(b);
		wait_next(l, waited, NULL);
		*b = near__block_signals();
	}
}

void near__take_or_borrow(struct near__locks *locks, unsigned long mine, struct near__blocked *b,
			  struct near__holding *out)
{
	struct near__atomic_lock *waited = NULL;

	memset(&out->loan, 0, sizeof(out->loan));
	out->taken.count = out->borrowed.count = 0;
	for (unsigned i = 0; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);

		if (is_own(l, mine))
			continue;
		if (near__borrow(l)) {
			add(&out->borrowed, locks->list[i]);
			add_those_of(locks, l->section);
			continue;
		}
		if (take_soon(l, mine)) {
			add(&out->taken, locks->list[i]);
			continue;
		}
		near__let_go_holding(out, NEAR__DROPPED);
		out->taken.count = out->borrowed.count = 0;
		lend_and_wait(l, &waited, mine, &out->loan, b);
		i = -1U;
	}
}

/* As take_soon, for one who has 255 others and would lose them. Bounded, as ever. */
static bool take_patiently(struct near__atomic_lock *l, unsigned long mine)
{
	for (int i = 0; !near__take_at_once(l, mine); i++) {
		if (i == PATIENCE)
			return false;
		syscall(SYS_sched_yield);
	}
	return true;
}

/* Not one of those who are woken: it does not borrow, and would eat the wake-up of somebody who
 * does. */
static void nap(void)
{
	struct timespec a_while = {.tv_nsec = NAP_NS};
	int saved_errno = errno;

	syscall(SYS_nanosleep, &a_while, NULL);
	errno = saved_errno;
}

static void lend_and_nap(struct near__loan *loan, unsigned long mine, struct near__blocked *b)
{
	if (near__lend_all(loan, mine)) {
		nap();
		serve_signals(loan, b);
	} else {
		near__unblock_signals(b);
		nap();
		*b = near__block_signals();
	}
}

void near__take_others(const struct near__locks *locks, unsigned long mine, struct near__blocked *b,
		       struct near__locks *taken)
{
	struct near__loan loan = {0};

	taken->count = 0;
	for (unsigned i = 0; i < locks->count; i++) {
		struct near__atomic_lock *l = near__nth(locks, i);

		if (near__holds(l, mine))
			continue;
		if (take_patiently(l, mine)) {
			taken->list[taken->count++] = locks->list[i];
			continue;
		}
		near__let_go_of(taken, taken->count, NEAR__DROPPED);
		taken->count = 0;
		lend_and_nap(&loan, mine, b);
		i = -1U;
	}
	near__claim_all(&loan);
}
