/* SPDX-License-Identifier: MIT */
/* What each thread reads, and what of it a fork leaves behind; src/locks/rwlock.h has the
 * argument. */
#include <pthread.h>
#include <string.h>

#include "ground/unique.h"
#include "percpu/gate.h"
#include "order.h"
#include "rwlock.h"

/* In a hold: the inline paths, which do not find the lock by it, must not be taken. The thread
 * forked, and this process has not looked at the lock yet; or the thread's locks are checked. */
#define MARK ((uintptr_t)1)

/* Of the process: what the last fork left. */
struct near__read_forks {
	uint32_t watches, pad;
	struct near__reads held;
};
extern NEAR_API struct near__read_forks near__read_forks;

#define READS_SIZE 72
_Static_assert(sizeof(void *) != 8 || sizeof(struct near__reads) == READS_SIZE, "near__reads");
_Static_assert(sizeof(struct near__read_forks) <= 128, "near__read_forks");

NEAR__UNIQUE(near__read_forks, 128);
NEAR__UNIQUE_TLS_ZERO(near__reads, READS_SIZE);

static uintptr_t name_of(const struct near_rwlock *l)
{
	return (uintptr_t)l | (near__order_is_on() ? MARK : 0);
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

/* Into the first free hold: what the fast path looks at is the first of all. */
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
	r->holds[i].lock = name_of(l);
	r->holds[i].depth++;
}

bool near__held_remove(const struct near_rwlock *l)
{
	struct near__reads *r = &near__reads;
	unsigned i = find(r, l);
	bool by_name = i < NEAR__HOLDS;

	if (!by_name && !r->others)
		return false;
	if (by_name) {
		r->holds[i].lock = name_of(l);
		r->holds[i].depth--;
	} else {
		r->others--;
	}
	return true;
}

uintptr_t near__held_at_fork(const struct near_rwlock *l, uintptr_t *others)
{
	const struct near__reads *r = &near__read_forks.held;
	unsigned i = find(r, l);

	*others = r->others;
	return i < NEAR__HOLDS ? r->holds[i].depth : 0;
}

/* In the child. A page that nobody wrote to is left alone. */
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

/* Of several copies of the library in a process one does it. */
__attribute__((constructor)) static void watch_forks(void)
{
	uint32_t no = 0;

	if (__atomic_compare_exchange_n(&near__read_forks.watches, &no, 1, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		pthread_atfork(NULL, NULL, remember);
}

/* Of those who claimed in the parent only the thread that forked may be here: if it writes. Who
 * writes is alone, whether it came along or not; who was not alone only waited. */
static uint64_t writer_that_stays(const struct near_rwlock *l, uint64_t word, int64_t readers)
{
	uint32_t owner = __atomic_load_n(&l->writers.word, __ATOMIC_RELAXED) & NEAR__MUTEX_OWNER;

	return owner && readers == 0 && is_drained(word) ? WRITER : 0;
}

/* Nobody else of this process has come as far, so that nothing here need be atomic. The bias stays
 * as it was. */
void near__rwlock_adopt(struct near_rwlock *l)
{
	near__gates_lock();
	if (l->forks != near__lot.forks) {
		uintptr_t others, mine = near__held_at_fork(l, &others);
		int64_t readers = readers_of(look(l)) + near__rwlock_sum(l, true);
		uint64_t writer = writer_that_stays(l, look(l), readers);
		uint64_t word = (look(l) & BIASED) | writer | (uint64_t)readers * READER;

		if (readers > (int64_t)mine && !others)
			word |= ORPHANS;
		if (!writer)
			l->writers.word = 0;
		__atomic_store_n(&l->word, word, __ATOMIC_RELAXED);
		/* Release: pairs with the acquire in near__rwlock_check. */
		__atomic_store_n(&l->forks, near__lot.forks, __ATOMIC_RELEASE);
	}
	near__gates_unlock();
}
