/* SPDX-License-Identifier: MIT */
/* The word of near_rwlock, and the argument for its paths.
 *
 * Readers are counted in the word and, while the word is BIASED, in the copies of the slots. One
 * count alone means nothing and may be negative: a reader that was counted on a slot can leave by
 * another slot or by the word. The sum of all counts is the number of readers.
 *
 * A mutex, `writers`, admits one writer at a time. A writer
 *     claims     word: writers + 1, reads since the last claim 0. From here on a reader enters by
 *                the word only if no writer can be inside: the word is BIASED or counts readers.
 *                (With the policy "writers first", only a nested reader does.)
 *     revokes    if the word was BIASED: closes the gates, fences, adds the counts of the copies to
 *                the word and clears BIASED, in one change. From here on the word counts all
 *                readers.
 *     drains     until the word is not BIASED and has no readers and one writer, itself.
 * It leaves by unlocking the mutex, then by one change of the word: writers - 1, and all sleeping
 * readers are counted. That is its last access to the lock, so the memory can be freed as soon as
 * the last user's unlock has returned. The next writer may have claimed in between: it drains until
 * the one before has left. A writer that gives up changes the word first, and admits no reader
 * while the writer before has not left: that reader might free the lock.
 *
 * Flags: WRITER_WAITING, a writer sleeps until the word is drained; the change that drains it
 * clears the flag, and its thread then wakes the writer, using only the lock's address. PARKED,
 * readers sleep, or did. A thread sets either flag under the lock of the bucket, as it enters the
 * queue, if it still has to wait.
 *
 * A reader restores the bias that holds the lock by the word, if `rebias_after` reads were counted
 * since the last claim. Under the lock of the gates it sets BIASED if there is no writer, fences,
 * and opens the gates. A writer that claims later finds BIASED, and waits for the lock of the gates
 * to revoke.
 *
 * What can interleave, and what orders it (models/rwlock.pml, models/rwlock.cc):
 *
 * - A reader in its sequence that has loaded an open gate, and a writer that closes the gate. The
 *   writer's fence aborts the sequence, or finds it committed, and then the writer loads its count.
 *   On a weakly ordered CPU the reader can have read what the lock guards ahead of its commit: the
 *   fence interrupts it before the commit, and it reads again; or after the commit, and the writer
 *   waits for it.
 * - A reader that leaves by a sequence. The sequence aborts, and the reader leaves by the word; or
 *   it committed before the fence, which is a full barrier on its CPU after all that it has read.
 * - A reader on a weakly ordered CPU that loads the count, or what the lock guards, ahead of the
 *   gate, and then finds the gate open again. The fence before the gates are opened was in between:
 *   after a writer no gate is opened without it, since the first opening of a gate takes the lock
 *   of the gates, too.
 * - A thread that is not live, or was aborted too often, counts in the word, by a CAS that fails if
 *   a writer has claimed: no fence has to stop it.
 * - A thread that opens a gate for the first time. It does so under the lock of the gates if the
 *   word is BIASED, which changes only under that lock: no revocation overlooks the gate. If it
 *   does not get the lock it counts in the word instead. The gate can be that of a slot which the
 *   thread has just left: harmless.
 * - A reader while a writer claims, revokes, drains. If the word is BIASED, no writer is inside,
 *   since it has not revoked yet; nor if the word counts readers. While readers hold the lock, one
 *   of the two is true, since a revocation changes both in one step. So with the policy "readers
 *   first" a reader enters by the word, and one that waits for another reader makes progress: it
 *   sleeps only if a writer is inside or will be next, and each change that adds readers while
 *   writers have claimed (a writer leaves, or becomes a reader) admits all sleeping readers.
 * - The same with the policy "writers first". Only a nested reader enters, which is already counted
 *   somewhere. Its thread knows this from its list of holds; or it knows only that it reads further
 *   locks (`others`): then it enters as above. If it is nested indeed, one of the two is true; if
 *   not, no writer is inside either.
 * - A reader that gives up while a writer admits it: the bucket's lock decides, as in lot.c.
 * - Another thread that closes gates: the lock of the gates, a near_lock that is held for a fence.
 * - A signal handler must not use the lock: it may have interrupted the holder of a bucket.
 * - fork, which takes the lock of the gates, so that no revocation is in progress. In the child
 *   each thread's first use of the lock calls near__rwlock_check, since no hold names the lock: the
 *   holds of the thread that forked are marked. The first such call resets the lock before another
 *   thread of the child uses it: the readers beyond the holds of this thread were lost at the fork
 *   (LOST_READERS). A lock that the child creates is checked, too, even at an address that a hold
 *   names: its gates are not open before.
 * - The child of a vfork is never live; it uses its parent's holds, and balances them. If it is
 *   killed in between, it stays counted for ever: it must only call exec or _exit.
 * - A killed thread ends the process. A thread that ends while it reads stays counted.
 *
 * Each wait sleeps after a bounded number of loads: a waiter of higher real-time priority does not
 * keep the CPU from the thread that it waits for. */
#ifndef NEARCPU_RWLOCK_INTERNAL_H
#define NEARCPU_RWLOCK_INTERNAL_H

#include <nearcpu/rwlock.h>

#include "base/cas.h"
#include "locks/owner.h"
#include "parking/lot.h"
#include "percpu/percpu.h"

#define BIASED NEAR__RWLOCK_BIASED /* the copies count readers, too */
#define WRITER_WAITING UINT64_C(2)
#define PARKED UINT64_C(4)
#define LOST_READERS UINT64_C(8) /* the count has readers of the parent process */
#define DESTROYED UINT64_C(16)
/* Bits 5 to 19: writers that have claimed and not left; 20 to 39: reads by the word since the last
 * claim; the rest: readers, a signed number. */
#define WRITER (UINT64_C(1) << 5)
#define WRITERS (0x7fff * WRITER)
#define WORD_READ (UINT64_C(1) << 20)
#define WORD_READS_MAX UINT64_C(0xfffff)
#define READER (UINT64_C(1) << 40)
#define FLAGS (WRITER - 1)

/* For the lock-order checker both sides of the lock are one: the address of the mutex. */
_Static_assert(offsetof(struct near_rwlock, writers) == 0, "the address of the mutex");

/* Kinds of waiters, and the token of a reader that was admitted. */
enum { SLEEPING_READER, SLEEPING_WRITER };
#define ADMITTED 1

/* Whether this thread reads the lock: perhaps, if it reads more locks than it has holds. */
enum near__nesting { NOT_NESTED, MAYBE_NESTED, NESTED };
enum near__nesting near__held(const struct near_rwlock *l);
void near__held_add(const struct near_rwlock *l);
/* False: it reads no such lock. */
bool near__held_remove(const struct near_rwlock *l);

/* Counts by a sequence on the local slot, and opens that if needed. False: use the word. */
bool near__rwlock_count_on_slot(struct near_rwlock *l, int64_t n);
int64_t near__rwlock_sum(const struct near_rwlock *l, bool clear);
/* Called by the writer that claimed the lock while it was BIASED. */
void near__rwlock_revoke(struct near_rwlock *l);
/* Called by a reader. */
void near__rwlock_restore_bias(struct near_rwlock *l);

void near__rwlock_reset_in_child(struct near_rwlock *l);
/* Called before a wait for the writer: stops the program if that is this thread, or was lost at a
 * fork. */
void near__rwlock_check_writer(const struct near_rwlock *l, bool for_reading);

/* Adds the claim of a writer that holds the mutex. Returns the new word. */
uint64_t near__rwlock_claim(struct near_rwlock *l);
/* A writer that has unlocked the mutex leaves, and becomes `readers` readers. */
void near__rwlock_leave(struct near_rwlock *l, uint64_t readers);
/* Called by the thread that has cleared WRITER_WAITING. */
void near__rwlock_wake_writer(const struct near_rwlock *l);

static inline int64_t readers_of(uint64_t word)
{
	return (int64_t)word >> 40;
}

static inline unsigned writers_of(uint64_t word)
{
	return (word & WRITERS) / WRITER;
}

static inline uint64_t word_reads_of(uint64_t word)
{
	return word / WORD_READ & WORD_READS_MAX;
}

/* Whether the writer whose claim the word has can enter. */
static inline bool is_drained(uint64_t word)
{
	return readers_of(word) == 0 && writers_of(word) == 1 && !(word & BIASED);
}

/* Clears WRITER_WAITING if the word that will be stored is drained, and returns whether it did. */
static inline bool ends_drain(uint64_t *next)
{
	bool ends = *next & WRITER_WAITING && is_drained(*next);

	if (ends)
		*next &= ~WRITER_WAITING;
	return ends;
}

/* Acquire: pairs with the release in near__rwlock_reset_in_child. */
static inline bool near__rwlock_is_current(const struct near_rwlock *l)
{
	return NEAR__LIKELY(__atomic_load_n(&l->forks, __ATOMIC_ACQUIRE) == near__lot.forks);
}

static inline void near__rwlock_check(struct near_rwlock *l)
{
	if (NEAR__LOAD_RELAXED(&l->word) & DESTROYED)
		near__die("near_rwlock: the lock was destroyed");
	if (!near__rwlock_is_current(l))
		near__rwlock_reset_in_child(l);
}

#endif
