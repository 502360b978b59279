/* SPDX-License-Identifier: MIT */
/* near_rwlock: the locks that each thread reads, and what a fork makes of them; src/locks/rwlock.h
 * has the argument. */
#include <string.h>

#include "ground/fork.h"
#include "ground/unique.h"
#include "percpu/gate.h"
#include "lockdep.h"
#include "rwlock.h"

/* In a hold: makes the inline paths fail, which compare it with the lock's address. Set if the
 * thread has forked and this process has not checked the lock yet; or if the lock-order checker is
 * on. */
#define MARK ((uintptr_t)1)

/* Of the process: the holds of the thread that forked last. */
struct near__read_forks {
	uint32_t watches, pad;
	struct near__reads held;
};
extern NEAR_API struct near__read_forks near__read_forks;

#define READS_SIZE 72
_Static_assert(sizeof(struct near__reads) <= READS_SIZE, "near__reads");
NEAR__UNIQUE_TLS_ZERO(near__reads, READS_SIZE);

#define READ_FORKS_SIZE 128
_Static_assert(sizeof(struct near__read_forks) <= READ_FORKS_SIZE, "near__read_forks");
NEAR__UNIQUE(near__read_forks, READ_FORKS_SIZE);

static uintptr_t key_of(const struct near_rwlock *l)
{
	return (uintptr_t)l | (near__lockdep_is_on() ? MARK : 0);
}

static unsigned find(const struct near__reads *r, const struct near_rwlock *l)
{
	unsigned i = 0;

	while (i < NEAR__HOLDS &&
	       (!r->holds[i].depth || (r->holds[i].lock & ~MARK) != (uintptr_t)l))
		i++;
	return i;
}

enum near__nesting near__held(const struct near_rwlock *l)
{
	if (find(&near__reads, l) < NEAR__HOLDS)
		return NESTED;
	return near__reads.others ? MAYBE_NESTED : NOT_NESTED;
}

/* Uses the first free hold: the fast path checks only the first of all. */
void near__held_add(const struct near_rwlock *l)
{
	struct near__reads *r = &near__reads;
	unsigned i = find(r, l);

	if (i == NEAR__HOLDS)
		for (i = 0; i < NEAR__HOLDS && r->holds[i].depth;)
			i++;
	if (i == NEAR__HOLDS) {
		r->others++;
		return;
	}
	r->holds[i].lock = key_of(l);
	r->holds[i].depth++;
}

bool near__held_remove(const struct near_rwlock *l)
{
	struct near__reads *r = &near__reads;
	unsigned i = find(r, l);
	bool found = i < NEAR__HOLDS;

	if (!found && !r->others)
		return false;
	if (found) {
		r->holds[i].lock = key_of(l);
		r->holds[i].depth--;
	} else {
		r->others--;
	}
	return true;
}

/* How often the thread that forked last held the lock by its holds. */
static uintptr_t depth_at_fork(const struct near_rwlock *l)
{
	unsigned i = find(&near__read_forks.held, l);

	return i < NEAR__HOLDS ? near__read_forks.held.holds[i].depth : 0;
}

/* In the child of a fork. Without readers it writes nothing: the page stays shared. */
static void remember(void)
{
	struct near__reads *r = &near__reads;
	bool reads = r->others || near__read_forks.held.others;

	for (unsigned i = 0; i < NEAR__HOLDS; i++) {
		reads |= r->holds[i].depth || near__read_forks.held.holds[i].depth;
		if (r->holds[i].lock)
			r->holds[i].lock |= MARK;
	}
	if (reads)
		near__read_forks.held = *r;
}

__attribute__((constructor)) static void watch_forks(void)
{
	near__fork_register(&near__read_forks.watches, NULL, NULL, remember);
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

		if (readers > (int64_t)depth_at_fork(l) && !near__read_forks.held.others)
			word |= LOST_READERS;
		if (!writer)
			l->writers.word = 0;
		__atomic_store_n(&l->word, word, __ATOMIC_RELAXED);
		/* Release: pairs with the acquire in near__rwlock_check. */
		__atomic_store_n(&l->forks, near__lot.forks, __ATOMIC_RELEASE);
	}
	near__gates_unlock();
}
