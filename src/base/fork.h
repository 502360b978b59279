/* SPDX-License-Identifier: MIT */
/* fork: how the handlers of the library's parts take and release their locks.
 *
 * Each part (kernel, percpu, malloc) has its locks held while the process is copied, so that the
 * child finds what they guard whole. Three things complicate this.
 *
 * The C library's locks. After the prepare handlers, and before the copy, glibc's fork locks the
 * list of all streams. A thread in fflush(NULL) holds that list and waits for a stream; one in
 * getline() holds the stream and allocates. With a lock of ours held by fork, the three would wait
 * in a cycle. So the list is locked before any lock of a part, as glibc takes the locks of its own
 * malloc after it. That lock is recursive: fork and every part lock it once more. In the parent
 * each unlocks it; in the child glibc has reset it, whatever the count, before the handlers run.
 *
 * The only thread, as far as the C library knows (glibc still counts threads that have ended). If
 * it finds a lock held, a signal handler forks that interrupted the holder, which goes on when the
 * handler returns, in the parent and in the child. No other thread can be in the middle of a
 * change: nothing is locked, and nothing is reset in the child. glibc does the same.
 *
 * A fork within a fork, by a signal handler: the part records the thread from when that holds all
 * locks of the part until it releases the first, with signals blocked at both ends. The inner fork
 * leaves them to the outer one, in the parent and in the child. */
#ifndef NEARCPU_FORK_H
#define NEARCPU_FORK_H

#include <nearcpu/lock.h>
#include <stdbool.h>
#include <stdint.h>

/* False: there may be other threads. */
bool near__is_one_thread(void);

/* glibc's list of streams; nothing elsewhere. Only where there may be other threads: with one, a
 * signal handler may have interrupted what holds the list, and the child must find it held. */
void near__streams_lock(void);
void near__streams_unlock(void);
void near__streams_reset_in_child(void);

/* Registers handlers, unless another copy of the library in this process has set *watched. */
void near__fork_register(uint32_t *watched, void (*prepare)(void), void (*parent)(void),
			 void (*child)(void));

/* What fork does to each lock of a part, and a function that does so in the order in which they
 * nest. */
typedef void near__fork_step(struct near_lock *lock);
typedef void near__fork_visit(near__fork_step *step);

/* Which thread holds the locks of a part, in order to fork. Zero: none. */
struct near__fork_turn {
	uintptr_t thread; /* the address of its near__self; the same in the child */
	uint32_t depth;   /* forks within each other, of that thread */
};
bool near__fork_is_mine(const struct near__fork_turn *t);

/* A part's handlers. */
void near__fork_prepare(struct near__fork_turn *t, near__fork_visit *visit);
void near__fork_in_parent(struct near__fork_turn *t, near__fork_visit *visit);
void near__fork_in_child(struct near__fork_turn *t, near__fork_visit *visit);

/* Defines them: part_before_fork, part_after_fork and part_in_child, which first calls `child`.
 * `down` visits the locks in the order in which they nest, `up` may differ. */
#define NEAR__FORK_HANDLERS(part, turn, down, up, child)                                           \
	static void part##_before_fork(void)                                                       \
	{                                                                                          \
		near__fork_prepare(turn, down);                                                    \
	}                                                                                          \
	static void part##_after_fork(void)                                                        \
	{                                                                                          \
		near__fork_in_parent(turn, up);                                                    \
	}                                                                                          \
	static void part##_in_child(void)                                                          \
	{                                                                                          \
		child();                                                                           \
		near__fork_in_child(turn, up);                                                     \
	}

static inline void near__fork_nothing(void)
{
}

#define NEAR__FORK_REGISTER(part, watched)                                                         \
	near__fork_register(watched, part##_before_fork, part##_after_fork, part##_in_child)

#endif
