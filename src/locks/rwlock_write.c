/* SPDX-License-Identifier: MIT */
/* near_rwlock's writers; src/locks/rwlock.h has the argument. */
#define _GNU_SOURCE
#include "mutex_at.h"
#include "order.h"
#include "rwlock.h"
#include "ground/tsan.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in src/ground/lock.c, where the numbers are explained. */
#define PAUSES 16
#define YIELDS 7

/* ---- claim, drain ---- */

uint64_t near__rwlock_claim(struct near_rwlock *l)
{
	uint64_t seen = look(l), next;

	do
		next = (seen & ~(PEACE_MAX * PEACE)) + WRITER;
	/* Acquire: pairs with the releases of readers and of the writer before. */
	while (!change(l, &seen, next, __ATOMIC_ACQUIRE));
	return next;
}

/* Acquire: as the claim's, of those who were still inside then. */
static bool has_drained(struct near_rwlock *l)
{
	return is_drained(__atomic_load_n(&l->word, __ATOMIC_ACQUIRE));
}

static bool drain_by_spinning(struct near_rwlock *l)
{
	near__pauses(PAUSES);
	for (int i = 0; i < YIELDS && !has_drained(l); i++)
		syscall(SYS_sched_yield);
	return has_drained(l);
}

/* Goes to sleep if somebody is still inside, who will wake it when leaving. */
static bool enter_queue(struct near_rwlock *l, struct near__waiter *w)
{
	struct near__bucket *b = near__lot_lock(l);
	uint64_t seen = look(l);
	bool still;

	do
		still = !is_drained(seen);
	while (still && !(seen & DRAINER) && !change(l, &seen, seen | DRAINER, __ATOMIC_RELAXED));
	if (still)
		near__lot_append(b, w);
	near__lot_unlock(b);
	return still;
}

static int drain_by_sleeping(struct near_rwlock *l, const struct near__limit *limit)
{
	struct near__waiter w = {
		.address = l, .space = NEAR__SPACE_RWLOCK, .kind = SLEEPING_WRITER};
	int r = 0;

	while (!has_drained(l)) {
		if (r)
			return r;
		if (look(l) & ORPHANS)
			near__die("near_rwlock_write_lock: a reader is a thread of the parent "
				  "process, which the fork did not copy");
		if (enter_queue(l, &w))
			r = near__lot_sleep(&w, limit);
	}
	return 0;
}

void near__rwlock_wake_drainer(const struct near_rwlock *l)
{
	struct near__bucket *b = near__lot_lock(l);
	struct near__waiter *w = near__lot_first(b, l, NEAR__SPACE_RWLOCK);

	while (w && w->kind != SLEEPING_WRITER)
		w = near__lot_next(w);
	if (w)
		near__lot_take(b, w);
	near__lot_unlock(b);
	if (w)
		near__lot_wake(w);
}

/* ---- leave ---- */

/* Takes all readers out of the queue; *n: how many. They are linked by `next`. */
static struct near__waiter *take_readers(struct near__bucket *b, struct near_rwlock *l, uint64_t *n)
{
	struct near__waiter *w = near__lot_first(b, l, NEAR__SPACE_RWLOCK), *next;
	struct near__waiter *taken = NULL, **end = &taken;

	for (*n = 0; w; w = next) {
		next = near__lot_next(w);
		if (w->kind != SLEEPING_READER)
			continue;
		near__lot_take(b, w);
		w->next = NULL;
		*end = w;
		end = &w->next;
		++*n;
	}
	return taken;
}

/* Release: pairs with the acquire of who enters by the word; near__lot_wake has its own. `flags`
 * are cleared. */
static void leave_by_queue(struct near_rwlock *l, uint64_t readers, uint64_t flags)
{
	struct near__bucket *b = near__lot_lock(l);
	uint64_t n, seen = look(l), next;
	struct near__waiter *taken = take_readers(b, l, &n);
	bool wake;

	do {
		next = (seen & ~flags) - WRITER + (readers + n) * READER;
		wake = ends_drain(&next);
	} while (!change(l, &seen, next, __ATOMIC_RELEASE));
	/* From here on the lock may be gone; its address is only a name. */
	near__lot_unlock(b);
	near__lot_wake_all(taken);
	if (wake)
		near__rwlock_wake_drainer(l);
}

void near__rwlock_leave(struct near_rwlock *l, uint64_t readers)
{
	uint64_t seen = look(l), next;
	bool wake;

	do {
		if (seen & PARKED) {
			leave_by_queue(l, readers, PARKED);
			return;
		}
		next = seen - WRITER + readers * READER;
		wake = ends_drain(&next);
	} while (!change(l, &seen, next, __ATOMIC_RELEASE));
	if (wake)
		near__rwlock_wake_drainer(l);
}

/* ---- write lock ---- */

/* The mutex last: until then nobody else claims, and DRAINER is this writer's own. If one before is
 * still to leave, it will let the readers in: it must not find the lock freed by one of them. */
static void give_up(struct near_rwlock *l)
{
	uint64_t seen = look(l);

	for (;;) {
		if (seen & PARKED && writers_of(seen) == 1) {
			leave_by_queue(l, 0, PARKED | DRAINER);
			break;
		}
		/* Relaxed: it has done nothing. */
		if (change(l, &seen, (seen & ~DRAINER) - WRITER, __ATOMIC_RELAXED))
			break;
	}
	near__mutex_let_go(&l->writers);
}

static int write_lock(struct near_rwlock *l, const struct near__limit *limit)
{
	uint64_t word = near__rwlock_claim(l);
	int r = 0, saved = errno;

	if (word & BIASED)
		near__rwlock_revoke(l);
	if (!is_drained(word) && !has_drained(l) && !drain_by_spinning(l))
		r = drain_by_sleeping(l, limit);
	if (r)
		give_up(l);
	else
		NEAR__TSAN_ACQUIRE(l);
	errno = saved;
	return r;
}

static void check_for_writing(struct near_rwlock *l)
{
	near__rwlock_check(l);
	if (near__held(l) == NESTED)
		near__die("near_rwlock_write_lock: this thread holds the lock for reading");
	near__rwlock_check_writer(l, false);
}

void near_rwlock_write_lock(struct near_rwlock *l)
{
	check_for_writing(l);
	near__mutex_lock_at(&l->writers, NEAR__SITE);
	write_lock(l, &NEAR__NO_LIMIT);
}

int near_rwlock_write_lock_until(struct near_rwlock *l, int clock, const struct timespec *deadline,
				 struct near_cancel *cancel)
{
	struct near__limit limit;
	int r = near__limit_set(&limit, clock, deadline, cancel);

	if (r)
		return r;
	check_for_writing(l);
	r = near__mutex_lock_limited_at(&l->writers, &limit, NEAR__SITE);
	return r ? r : write_lock(l, &limit);
}

/* A look before the claim keeps one that tries again and again from fencing each time. It may see a
 * reader that moves as none or as two, or as one less than none: then somebody was inside. */
bool near_rwlock_try_write_lock(struct near_rwlock *l)
{
	uint64_t word;

	near__rwlock_check(l);
	if (!near__mutex_try_lock_at(&l->writers, NEAR__SITE))
		return false;
	if (readers_of(look(l)) + near__rwlock_sum(l, false)) {
		near__mutex_let_go(&l->writers);
		return false;
	}
	word = near__rwlock_claim(l);
	if (word & BIASED)
		near__rwlock_revoke(l);
	if (!has_drained(l)) {
		give_up(l);
		return false;
	}
	NEAR__TSAN_ACQUIRE(l);
	return true;
}

/* ---- write unlock ---- */

/* The mutex first: the change of the word is the last access. */
static void end_writing(struct near_rwlock *l, uint64_t readers, const char *misuse)
{
	near__rwlock_check(l);
	if (!near_rwlock_is_mine(l))
		near__die(misuse);
	NEAR__TSAN_RELEASE(l);
	near__mutex_let_go(&l->writers);
	near__rwlock_leave(l, readers);
}

void near_rwlock_write_unlock(struct near_rwlock *l)
{
	end_writing(l, 0,
		    "near_rwlock_write_unlock: this thread does not hold the lock for writing");
}

void near_rwlock_downgrade(struct near_rwlock *l)
{
	end_writing(l, 1, "near_rwlock_downgrade: this thread does not hold the lock for writing");
	near__order_locked(l, NEAR__SITE);
	near__held_add(l);
}

bool near_rwlock_is_mine(const struct near_rwlock *l)
{
	return near_mutex_is_mine(&l->writers);
}
