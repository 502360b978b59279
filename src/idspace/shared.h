/* SPDX-License-Identifier: MIT */
/* shared: what the files about near_shared_ids share.
 *
 * The object in the region: counts | a word per seat | bitmap | a line per CPU | a line per id.
 *
 * The owner word of an id is the truth: 0 or LEFT, or the seat and the worker that have it. A
 * compare-exchange from one of the first two to the last takes the id; its owner stores 0. All
 * else is a hint: a bit of the bitmap may be clear though the id is in use, and is set by the
 * next thread that fails to take it; it may be set though the id is free and in no cache, and is
 * found by the search through all owner words. So a process that is killed between any two stores
 * leaves nothing that must be mended except for owner words with its seat.
 *
 * Seats. The lock on a seat's byte is of the description of s->fd, which this process opened for
 * itself: the kernel releases it when the last thread that has the descriptor has ended, and none
 * of them stores anything from then on. The seat's word is not 0 from before the first id is taken
 * until after the last one was taken back. A thread that gets the lock on the byte of such a seat
 * has found a process that ended: it stores LEFT to the owner words with that seat, then 0 to the
 * seat's word, and only then releases the lock, or has the seat for its own process. If it is
 * killed before that, the next one does the same again.
 *
 * Which thread may be between which two instructions, and what stops it:
 * - Another process that takes back the same seat, or takes it: has not got the lock.
 * - Another thread of this process, whose locks are of the same description: near__seats.lock.
 * - A thread that takes an id which is being taken back: its compare-exchange expects 0 or LEFT.
 * - A worker of the ended process: there is none, see above.
 * - A child of fork, whose descriptor would keep the seat from being free when its parent ends: its
 *   fork handler closes it. In a child of vfork that is killed nothing is lost: its parent has the
 *   seat.
 * models/seat.pml checks it. */
#ifndef NEARCPU_IDSPACE_SHARED_H
#define NEARCPU_IDSPACE_SHARED_H

#include <nearcpu/shared_ids.h>

#include "base/bits.h"
#include "base/fork.h"
#include "base/reason.h"
#include "percpu/percpu.h"

#define LEFT UINT64_C(1) /* the last owner was killed */
#define SEAT_SHIFT 48

enum shared_count { EVICTIONS, DISCARDS, ALLOCATIONS, EXITS, FOREIGN, SHARED_COUNTS = 8 };

/* Of the process. */
struct near__seats {
	uint32_t watches_forks;
	struct near_lock lock; /* of `open`, and of what follows from a seat's lock */
	struct near_shared_ids *open;
};
extern NEAR__DATA struct near__seats near__seats NEAR__STATE(near__seats);

static inline void shared_count(const struct near_shared_ids *s, enum shared_count which,
				uint64_t n)
{
	/* Relaxed: statistics. */
	__atomic_fetch_add(&s->counts[which], n, __ATOMIC_RELAXED);
}

/* Of the bitmap. Relaxed: a hint. */
static inline void shared_clear_bit(const struct near_shared_ids *s, uint64_t id)
{
	NEAR__BIT_CLEAR(s->bitmap, id, __ATOMIC_RELAXED);
}

/* seats.c. With near__seats.lock. */

/* Takes a seat, if there is none yet. Returns 0, or an error and its reason. */
int near__seat_take(struct near_shared_ids *s);

/* Takes back the ids of processes that ended. Stops the program if the seat is not its own any
 * more; so does near__seat_leave. */
void near__seats_search(struct near_shared_ids *s);

/* Gives the seat back. */
void near__seat_leave(struct near_shared_ids *s);

#endif
