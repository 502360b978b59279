/* SPDX-License-Identifier: MIT */
/* near_rwlock: the locks that each thread reads, and what a fork makes of them; src/locks/rwlock.h
 * has the argument. */
#include <string.h>

#include "base/fork.h"
#include "base/unique.h"
#include "locks/lockdep.h"
#include "locks/locks_state.h"
#include "locks/rwlock.h"
#include "percpu/gate.h"

/* In a hold: makes the inline paths fail, which compare it with the lock's address. Set if the
 * thread has forked and this process has not checked the lock yet; or if the lock-order checker is
 * on. */
#define MARK ((uintptr_t)1)

/* Of the process: the holds of the thread that forked last. */
struct near__read_forks {
	uint32_t watches, pad;
	struct near__hold held[NEAR__HOLDS];
};
extern NEAR__DATA struct near__read_forks near__read_forks NEAR__STATE(near__read_forks);

#define READ_FORKS_SIZE 128
_Static_assert(sizeof(struct near__read_forks) <= READ_FORKS_SIZE, "near__read_forks");
NEAR__UNIQUE(near__read_forks, READ_FORKS_SIZE);

static uintptr_t key_of(const struct near_rwlock *l)
{
	return (uintptr_t)l | (near__lockdep_is_on() ? MARK : 0);
}

/* Those of this thread. Without a block the others are zeros, which must not be written to. */
static struct near__hold *hold_at(unsigned i)
{
	return i ? &near__locks_thread_peek()->holds[i - 1] : &near__more.reads;
}

static bool is_of(const struct near__hold *h, const struct near_rwlock *l)
{
	return h->depth && (h->lock & ~MARK) == (uintptr_t)l;
}

/* NULL: no hold has the lock. */
static struct near__hold *hold_find(const struct near_rwlock *l)
{
	for (unsigned i = 0; i < NEAR__HOLDS; i++)
		if (is_of(hold_at(i), l))
			return hold_at(i);
	return NULL;
}

/* NULL: none is free, or the thread has no block and uses the first. */
static struct near__hold *find_free(void)
{
	for (unsigned i = 0; i < NEAR__HOLDS && (!i || near__block()); i++)
		if (!hold_at(i)->depth)
			return hold_at(i);
	return NULL;
}

enum near__nesting near__held(const struct near_rwlock *l)
{
	if (hold_find(l))
		return NESTED;
	return near__more.reads.others ? MAYBE_NESTED : NOT_NESTED;
}

/* Uses the first free hold: the fast path checks only the first of all. */
void near__held_add(const struct near_rwlock *l)
{
	struct near__hold *h = hold_find(l);

	if (!h)
		h = find_free();
	if (!h) {
		near__more.reads.others++;
		return;
	}
	h->lock = key_of(l);
	h->depth++;
}

bool near__held_remove(const struct near_rwlock *l)
{
	struct near__hold *h = hold_find(l);

	if (!h && !near__more.reads.others)
		return false;
	if (h) {
		h->lock = key_of(l);
		h->depth--;
	} else {
		near__more.reads.others--;
	}
	return true;
}

/* How often the thread that forked last held the lock by its holds. */
static uint32_t depth_at_fork(const struct near_rwlock *l)
{
	for (unsigned i = 0; i < NEAR__HOLDS; i++)
		if (is_of(&near__read_forks.held[i], l))
			return near__read_forks.held[i].depth;
	return 0;
}

/* In the child of a fork. Without readers it writes nothing: the page stays shared. */
static void holds_remember(void)
{
	struct near__hold *before = near__read_forks.held;
	bool reads = near__more.reads.others || before[0].others;

	for (unsigned i = 0; i < NEAR__HOLDS; i++) {
		reads |= hold_at(i)->depth || before[i].depth;
		if (hold_at(i)->lock)
			hold_at(i)->lock |= MARK;
	}
	for (unsigned i = 0; reads && i < NEAR__HOLDS; i++)
		before[i] = *hold_at(i);
}

__attribute__((constructor)) static void holds_watch_forks(void)
{
	near__fork_register(&near__read_forks.watches, NULL, NULL, holds_remember);
}

/* Of the writers that claimed in the parent, the child has at most the thread that forked, if it
 * writes. A writer inside is alone, copied by the fork or not; one with others only waited. */
static uint64_t writer_inside(const struct near_rwlock *l, uint64_t word, int64_t readers)
{
	uint32_t owner = __atomic_load_n(&l->writers.word, __ATOMIC_RELAXED) & NEAR__MUTEX_OWNER;

	return owner && readers == 0 && is_drained(word) ? WRITER : 0;
}

/* Under the lock of the gates, before another thread of this process uses the lock: nothing has to
 * be atomic. The bias stays. */
void near__rwlock_reset_in_child(struct near_rwlock *l)
{
	near__gates_lock();
	if (l->forks != near__lot.forks) {
		uint64_t before = NEAR__LOAD_RELAXED(&l->word);
		int64_t readers = readers_of(before) + near__rwlock_sum(l, true);
		uint64_t writer = writer_inside(l, before, readers);
		uint64_t word = (before & BIASED) | writer | (uint64_t)readers * READER;

		if (readers > (int64_t)depth_at_fork(l) && !near__read_forks.held[0].others)
			word |= LOST_READERS;
		if (!writer)
			l->writers.word = 0;
		__atomic_store_n(&l->word, word, __ATOMIC_RELAXED);
		/* Release: pairs with the acquire in near__rwlock_check. */
		__atomic_store_n(&l->forks, near__lot.forks, __ATOMIC_RELEASE);
	}
	near__gates_unlock();
}
