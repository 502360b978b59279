/* SPDX-License-Identifier: MIT */
/* The state of all locks of a process, see ground/unique.h. */
#ifndef NEARCPU_LOCKS_STATE_H
#define NEARCPU_LOCKS_STATE_H

#include <nearcpu/lock.h>
#include <stdint.h>

#define NEAR__OWNER_FORMER 16 /* forks over which a mutex can stay held by the thread that forks */

struct near__lockdep;
struct near__lockdep_thread;

/* Zero is valid. */
struct near__locks {
	union {
		struct {
			/* owner.c */
			uint32_t owner_watches_forks;
			uint32_t process; /* its pid; not that of a vfork child */
			/* The id of the thread that forked: in this process, and in the processes
			 * before, as far back as it was that thread which forked. */
			uint32_t owner_here, owner_formers, owner_former[NEAR__OWNER_FORMER];
			/* lockdep.c */
			uint32_t lockdep_watches_forks;
			uint32_t lockdep_reported;
			struct near__lockdep *lockdep; /* NULL until the first use */
			/* mutex_unlock.c */
			uint32_t unlocks_per_fence; /* 0: not yet decided */
			uint64_t fences;
		};
		char room[256]; /* for later fields */
	};
};
extern NEAR_API struct near__locks near__locks;

/* The id of this thread while near__owner stays NEAR__NO_OWNER; 0: it has none yet. */
extern NEAR_API __thread uint32_t near__owner_checked __attribute__((tls_model("initial-exec")));

/* What the lock-order checker records of this thread; NULL: the thread is not checked. */
extern NEAR_API __thread struct near__lockdep_thread *near__lockdep_self
	__attribute__((tls_model("initial-exec")));

#endif
