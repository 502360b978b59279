/* SPDX-License-Identifier: MIT */
/* near_rwlock: the counts of the slots, how bias is revoked and restored; src/locks/rwlock.h has
 * the argument. */
#include "locks/rwlock.h"
#include "percpu/gate.h"

/* The bias returns when the reads by the word since the last write have cost as much time as the
 * revocation did and the next one will: a read by the word takes EXTRA_NS more than one by a slot,
 * or longer if threads compete for the word's line (rwlock_read.c). So whatever the writers do,
 * revocations cost at most twice what reads by the word alone would.
 *
 * Million locks and unlocks per second of 2 and 8 threads, with one write in 10,000: 142 and 98,
 * instead of 62 and 46 if the bias returned after ten times as many reads; in 1,000: 111 and 55, 47
 * and 43; in 100: the same (Intel Xeon, Granite Rapids class, 2 CPUs: a revocation takes 5 to 14
 * us). */
#define EXTRA_NS 20
#define REVOCATIONS 2
#define REBIAS_MIN 250

static bool is_biased(const void *l)
{
	return near__rwlock_is_biased(l);
}

bool near__rwlock_count_on_slot(struct near_rwlock *l, int64_t n)
{
	if (!l->copies)
		return false;
	NEAR__TRY_WHILE(is_biased(l)) {
		if (near__add_behind_gate(l->copies, n))
			return true;
		if (!near__gated_open_local(l->copies, is_biased, l))
			return false;
	}
	return false;
}

/* Exact under the lock of the gates, when they are closed. */
int64_t near__rwlock_sum(const struct near_rwlock *l, bool clear)
{
	int64_t sum = 0;

	for (unsigned s = 0; l->copies && near_percpu_next(l->copies, &s); s++) {
		int64_t *count = &near__gated_count(l->copies, s)->count;

		sum += __atomic_load_n(count, __ATOMIC_RELAXED);
		if (clear && __atomic_load_n(count, __ATOMIC_RELAXED))
			__atomic_store_n(count, 0, __ATOMIC_RELAXED);
	}
	return sum;
}

static uint32_t rebias_after(int64_t ns)
{
	uint64_t reads = (uint64_t)(ns < 0 ? 0 : ns) * REVOCATIONS / EXTRA_NS;

	return reads < REBIAS_MIN ? REBIAS_MIN
				  : (uint32_t)(reads < WORD_READS_MAX ? reads : WORD_READS_MAX);
}

void near__rwlock_revoke(struct near_rwlock *l)
{
	uint64_t readers, seen;
	int64_t began;

	near__gates_lock();
	began = near__now(CLOCK_MONOTONIC);
	near__gated_close(l->copies);
	readers = (uint64_t)near__rwlock_sum(l, true) * READER;
	/* Relaxed: a hint for readers by the word. */
	__atomic_store_n(&l->rebias_after, rebias_after(near__now(CLOCK_MONOTONIC) - began),
			 __ATOMIC_RELAXED);
	seen = NEAR__LOAD_RELAXED(&l->word);
	/* Relaxed: for this writer the fence orders it. */
	while (!NEAR__CAS(&l->word, &seen, (seen & ~BIASED) + readers, __ATOMIC_RELAXED))
		;
	near__gates_unlock();
}

void near__rwlock_restore_bias(struct near_rwlock *l)
{
	uint64_t seen;

	if (!near__gates_try_lock())
		return;
	seen = NEAR__LOAD_RELAXED(&l->word);
	/* Relaxed: this thread reads, so it has acquired what the last writer released. */
	while (!writers_of(seen) && !(seen & BIASED))
		if (NEAR__CAS(&l->word, &seen, (seen & ~(WORD_READS_MAX * WORD_READ)) | BIASED,
			      __ATOMIC_RELAXED)) {
			near__gated_reopen(l->copies);
			break;
		}
	near__gates_unlock();
}
