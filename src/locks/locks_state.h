/* SPDX-License-Identifier: MIT */
/* The state of all locks of a process, see base/unique.h. */
#ifndef NEARCPU_LOCKS_STATE_H
#define NEARCPU_LOCKS_STATE_H

#include <nearcpu/rwlock.h>
#include <stdint.h>

#include "base/block.h"

#define NEAR__OWNER_FORMER 16 /* forks over which a mutex can stay held by the thread that forks */

struct near__lockdep;
struct near__lockdep_thread;

/* Zero is valid. */
struct near__locks {
	union {
		struct {
			/* owner.c */
			uint32_t owner_watches_forks;
			uint32_t process; /* its number, see base/identity.h */
			/* The id of the thread that forked: in this process, and in the processes
			 * before, as far back as it was that thread which forked. */
			uint32_t owner_here, owner_formers, owner_former[NEAR__OWNER_FORMER];
			/* lockdep.c */
			uint32_t lockdep_watches_forks;
			uint32_t lockdep_reported;
			struct near__lockdep *lockdep; /* NULL until the first use */
			/* mutex.c */
			uint32_t unlocks_per_fence; /* 0: not yet decided */
			uint64_t fences;
		};
		char room[256]; /* for later fields */
	};
};
extern NEAR__DATA struct near__locks near__locks NEAR__STATE(near__locks);

/* What the locks store in a thread's block, each in the file that it names. */
struct near__locks_thread {
	/* rwlock_held.c: the locks that the thread holds for reading, after near__more.reads. */
	struct near__hold holds[NEAR__HOLDS - 1];
	/* tuning.c */
	struct near__timed {
		const struct near_mutex *mutex; /* whose next unlocks are measured */
		int64_t first;                  /* the time of the first of them; 0: not yet */
		int64_t clock_ns;               /* the shortest time of a reading of the clock */
		uint32_t skip;                  /* waits until the next measurement */
	} timed;
	/* rwlock_read.c: when stay_away last returned, and how often the thread has entered
	 * since. */
	struct near__recent {
		int64_t since;
		uint32_t entries;
	} recent;
	uint32_t atomic_unlocks, unlocks; /* mutex.c */
	uint32_t posts;                   /* sem.c */
	/* The id of this thread while near__more.owner stays NEAR__NO_OWNER; 0: it has none yet. */
	uint32_t owner_checked;
	/* What the lock-order checker records of this thread; NULL: the thread is not checked. */
	struct near__lockdep_thread *lockdep;
	struct near__slice {
		uint8_t state;     /* enum near__slice_state, slice.h */
		uint8_t requested; /* and not ended yet */
	} slice;
};
NEAR__BLOCK_PART(near__locks_thread, struct near__locks_thread, locks);

/* The part of a thread without a block is a copy, of which nothing is kept: for hints. */
static inline struct near__locks_thread *near__locks_thread_or(struct near__locks_thread *instead)
{
	struct near__locks_thread *t = near__locks_thread_own();

	return t ? t : instead;
}

#endif
