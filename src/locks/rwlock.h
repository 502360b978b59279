/* SPDX-License-Identifier: MIT */
/* The word of near_rwlock, and the argument why its paths are right.
 *
 * Readers are counted in the word and, while it says BIASED, in the copies of the slots. The count
 * of one place means nothing alone, and may be negative: who came by a slot may leave by another
 * one or by the word. The sum of all counts is the number of readers.
 *
 * Writers are one at a time by the mutex `writers`. A writer
 *     claims     word: writers + 1, peace 0. From here on a reader comes by the word only if no
 *                writer can be inside: the word is BIASED or counts readers. (With the policy
 *                "writers first" not even then, unless it is nested.)
 *     revokes    if the word was BIASED: closes the gates, fences, adds the copies up into the word
 *                and clears BIASED, in one change. From here on the word counts all readers.
 *     drains     until the word is not BIASED and has no readers and one writer, itself.
 * It leaves by letting go of the mutex, then by one change of the word: writers - 1, and all
 * readers that sleep are counted in. That is its last access to the lock, so the memory may go as
 * soon as the last user's unlock has returned. The next writer may have claimed in between: it
 * drains until the one before has left. A writer that gives up changes the word first, and lets no
 * reader in while the one before has not left: that reader might free the lock.
 *
 * Flags: DRAINER, a writer sleeps until it is drained; whoever makes it so clears the flag in that
 * change and then wakes the writer by the lock's address alone. PARKED, readers sleep, or did. Both
 * are set under the lock of the bucket, together with entering the queue, if the reason still
 * holds.
 *
 * Bias comes back by a reader that holds the lock by the word, and counted `calm` reads since the
 * last claim. Under the lock of the gates: it sets BIASED if there is no writer, fences, opens the
 * gates. A writer that claims later finds BIASED, and waits for the gates' lock to revoke.
 *
 * Who can be where, and what stops each (models/rwlock.pml, models/rwlock.cc):
 *
 * - A reader in its sequence. It loaded the gate OPEN, and a writer closes it. The writer's fence
 *   aborts it, or finds it committed, and then the writer sees the count. A reader on a weakly
 *   ordered CPU that has read what the lock guards ahead of its commit: the fence interrupts it
 *   before the commit, and it reads again, or after it, and the writer waits for it.
 * - A reader that leaves by a sequence. It aborts, and leaves by the word; or committed before the
 *   fence, which on its CPU is a full barrier behind all it has read.
 * - A reader on a weakly ordered CPU that loads the count, or what the lock guards, ahead of the
 *   gate, which it then finds open again. The fence before the gates are opened came in between,
 *   for no gate is opened after a writer but after that fence: those that were never opened wait
 *   for the gates' lock, too.
 * - A thread that is not live, or was aborted too often. It counts in the word, by a CAS that fails
 *   where a writer has claimed: no fence needs to stop it.
 * - Who opens a gate for the first time. It does so under the gates' lock, if the word is BIASED,
 *   which changes only under that lock: no revocation overlooks it. If the lock is not to be had it
 *   counts in the word, which is as good. The gate may be that of a slot which the thread has just
 *   left: harmless.
 * - A reader while a writer claims, revokes, drains. If the word is BIASED no writer is inside,
 *   since it has not revoked yet; nor if the word counts readers. While readers hold the lock one
 *   of the two is true, since a revocation changes both in one step. So with the policy "readers
 *   first" a reader enters by the word then, and one that waits for another reader makes progress:
 *   it sleeps only if a writer is inside or will be next, and whichever change counts readers while
 *   writers have claimed (a writer leaves, or becomes a reader) counts in all that sleep.
 * - The same with the policy "writers first". Only a nested reader enters: it is counted already,
 *   in whatever place. Its thread knows this by name; or only that it reads other locks (`others`):
 *   then it enters as above. If it is nested indeed, it finds one of the two true; if not, no
 *   writer is inside either.
 * - A reader that gives up while a writer admits it: the bucket's lock decides, as in lot.c.
 * - Another closer of gates: the gates' lock. It is held for a fence, and waiting for it sleeps.
 * - A signal handler must not come here: it may have interrupted the holder of a bucket.
 * - fork. The gates' lock is held, so no revocation is under way. The child's first use of the lock
 *   by each thread comes to near__rwlock_check, as no thread's hold names it: the holds of the
 *   thread that forked are marked. There the lock is adopted, before anybody else of the child uses
 *   it: the counts minus what this thread held are readers that did not come along (ORPHANS). A
 *   lock that the child makes comes there, too, even where another one was that a hold names: its
 *   gates are not open before.
 * - The child of a vfork is never live; it uses its parent's holds, and balances them. Killed in
 *   between, it stays counted for ever: it is to call exec or _exit alone.
 * - A killed thread takes the process with it. One that ends while it reads stays counted.
 *
 * All waits sleep after a bounded number of looks: a waiter of higher real-time priority gets out
 * of the way of whom it waits for. */
#ifndef NEARCPU_RWLOCK_INTERNAL_H
#define NEARCPU_RWLOCK_INTERNAL_H

#include <nearcpu/rwlock.h>

#include "parking/lot.h"
#include "percpu/internal.h"
#include "owner.h"

#define BIASED UINT64_C(1) /* the copies count, too */
#define DRAINER UINT64_C(2)
#define PARKED UINT64_C(4)
#define ORPHANS UINT64_C(8) /* readers of the parent process are counted */
#define DESTROYED UINT64_C(16)
/* Bits 5 to 19: writers who have claimed and not left; 20 to 39: reads by the word since the last
 * claim; the rest: readers, a signed number. */
#define WRITER (UINT64_C(1) << 5)
#define WRITERS (0x7fff * WRITER)
#define PEACE (UINT64_C(1) << 20)
#define PEACE_MAX UINT64_C(0xfffff)
#define READER (UINT64_C(1) << 40)
#define FLAGS (WRITER - 1)

/* To the checker of lock order both kinds of locks are one: that of the mutex. */
_Static_assert(offsetof(struct near_rwlock, writers) == 0, "the lock's name");

/* Kinds of waiters, and what a reader is told. */
enum { SLEEPING_READER, SLEEPING_WRITER };
#define ADMITTED 1

struct copy {
	int64_t count;
	uint32_t gate;
	uint32_t pad;
};
_Static_assert(offsetof(struct copy, gate) == 8, "the sequence in rwlock.h");

/* Whether this thread reads the lock: it may, if it reads more locks than it knows by name. */
enum near__nesting { NOT_NESTED, MAYBE_NESTED, NESTED };
enum near__nesting near__held(const struct near_rwlock *l);
void near__held_add(const struct near_rwlock *l);
/* False: it reads no such lock. */
bool near__held_remove(const struct near_rwlock *l);
/* What the thread that forked last held, as far as it knew it by name; `others`, what not. */
uintptr_t near__held_at_fork(const struct near_rwlock *l, uintptr_t *others);

/* Counts by a sequence, on the own slot, opened if need be. False: use the word. */
bool near__rwlock_count_on_slot(struct near_rwlock *l, int64_t n);
int64_t near__rwlock_sum(const struct near_rwlock *l, bool clear);
/* By the writer that claimed the lock when it was BIASED. */
void near__rwlock_revoke(struct near_rwlock *l);
/* By a thread that reads. */
void near__rwlock_restore_bias(struct near_rwlock *l);

void near__rwlock_adopt(struct near_rwlock *l);
/* Before waiting for the writer: stops if it is this thread, or none of this process. */
void near__rwlock_check_writer(const struct near_rwlock *l, bool for_reading);

/* Adds the claim of a writer that holds the mutex; what the word was. */
uint64_t near__rwlock_claim(struct near_rwlock *l);
/* A writer leaves, having let go of the mutex, as so many readers itself. */
void near__rwlock_leave(struct near_rwlock *l, uint64_t readers);
/* By whoever has cleared DRAINER. */
void near__rwlock_wake_drainer(const struct near_rwlock *l);

static inline uint64_t look(const struct near_rwlock *l)
{
	return __atomic_load_n(&l->word, __ATOMIC_RELAXED);
}

/* Replaces *seen by next, or else brings *seen up to date. */
static inline bool change(struct near_rwlock *l, uint64_t *seen, uint64_t next, int order)
{
	return __atomic_compare_exchange_n(&l->word, seen, next, true, order, __ATOMIC_RELAXED);
}

static inline int64_t readers_of(uint64_t word)
{
	return (int64_t)word >> 40;
}

static inline unsigned writers_of(uint64_t word)
{
	return (word & WRITERS) / WRITER;
}

static inline uint64_t peace_of(uint64_t word)
{
	return word / PEACE & PEACE_MAX;
}

/* Of a word with one's own claim: whether one may write. */
static inline bool is_drained(uint64_t word)
{
	return readers_of(word) == 0 && writers_of(word) == 1 && !(word & BIASED);
}

/* If the word that is to be stored lets a sleeping writer in: clears the flag, and says so. */
static inline bool ends_drain(uint64_t *next)
{
	bool ends = *next & DRAINER && is_drained(*next);

	if (ends)
		*next &= ~DRAINER;
	return ends;
}

/* Acquire: pairs with the release in near__rwlock_adopt. */
static inline bool near__rwlock_is_adopted(const struct near_rwlock *l)
{
	return NEAR__LIKELY(__atomic_load_n(&l->forks, __ATOMIC_ACQUIRE) == near__lot.forks);
}

static inline void near__rwlock_check(struct near_rwlock *l)
{
	if (look(l) & DESTROYED)
		near__die("near_rwlock: the lock was destroyed");
	if (!near__rwlock_is_adopted(l))
		near__rwlock_adopt(l);
}

#endif
