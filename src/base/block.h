/* SPDX-License-Identifier: MIT */
/* block: the state of a thread that no inline code uses, in memory of the library's own.
 *
 * Thread-local storage is scarce: a library that dlopen() loads takes it from a reserve of about
 * 1,600 bytes, which all libraries of the process share. So near__self (rseq.h) has what sequences
 * need, and the address of a block, which a thread takes when it first has something to store. Not
 * the C library's dynamic thread-local storage, which calls malloc: signal handlers and our malloc
 * call this library.
 *
 * A thread without a block reads zeros in near__no_block. Where there is no memory for one, it
 * remains without: each user of a part has a way to do without it, and states which.
 *
 * A block is taken by storing the thread's id (tid) as its owner. A block whose owner does not
 * exist is free. No destructor gives blocks back: those of other keys, which run later, may use
 * one, threads may end without destructors, and the kernel stores to the area in it until the
 * thread has ended. So when all blocks have owners, a thread that needs one searches for owners
 * that have ended, by tgkill(2) without a signal, and this is repeated only when half as many
 * blocks were taken as there are: two system calls for each block taken. A filter of system calls
 * that forbids tgkill(2) makes blocks of ended threads unusable, and answers for the calling thread
 * as well, so that this is detected.
 *
 * - Two threads take one block: the owner is set by a CAS.
 * - A thread id is given to a new thread while another thread searches: the new thread takes
 *   another block, as only the search makes this one free. There is one search at a time, with
 *   signals blocked.
 * - A signal handler while the thread takes its block: signals are blocked.
 * - Children of vfork() and of clone() that run on their parent's storage use its block. If it has
 *   none, they take one that stays taken: its owner is not known to the child. They hold no lock
 *   here when they are killed.
 * - A child of fork() has one thread. The handler frees all other blocks and makes the child's
 *   thread id the owner of its own. A child that was made without the handlers finds that it is
 *   another process: blocks that it takes stay taken.
 */
#ifndef NEARCPU_BLOCK_H
#define NEARCPU_BLOCK_H

#include <stdint.h>

#include "base/compiler.h"
#include "base/self.h"

/* The rooms of the layers, each with a struct of its own: NEAR__BLOCK_PART. */
struct near__block {
	char own_area[64] __attribute__((aligned(64))); /* kernel/area.c; the kernel stores to it */
	char dead_area[32];
	char kernel[16];
	char lock[8];    /* base/lock.c */
	char lot[16];    /* parking/lot.c */
	char locks[144]; /* locks/locks_state.h */
	char queue[32];  /* queue/queue.h */
	char rcu[256];   /* rcu/rcu.h */
	char trace[64];  /* trace/trace.h */
	char reason[24]; /* base/reason.c */
	char malloc[32]; /* malloc/diagnostics/profile.c */
};
extern NEAR__DATA const struct near__block near__no_block NEAR__STATE(near__no_block);

/* Takes a block for this thread; NULL: there is no memory. */
struct near__block *near__block_take(void);

/* This thread's block, NULL: there is no memory. */
static inline struct near__block *near__block(void)
{
	struct near__block *b = near__self.block;

	return NEAR__LIKELY(b != &near__no_block) ? b : near__block_take();
}

/* Defines NAME_peek(), this thread's part to read, never NULL; and NAME_own(), the part to change,
 * or NULL. What was read in it as not 0 is in the thread's own block. */
#define NEAR__BLOCK_PART(name, type, room)                                                         \
	_Static_assert(sizeof(type) <= sizeof(((struct near__block *)0)->room), #room);            \
	_Static_assert(offsetof(struct near__block, room) % _Alignof(type) == 0, #room);           \
	__attribute__((unused)) static inline type *name##_peek(void)                              \
	{                                                                                          \
		return (type *)(void *)near__self.block->room;                                     \
	}                                                                                          \
	__attribute__((unused)) static inline type *name##_own(void)                               \
	{                                                                                          \
		struct near__block *b = near__block();                                             \
                                                                                                   \
		return b ? (type *)(void *)b->room : NULL;                                         \
	}                                                                                          \
	_Static_assert(1, "")

/* Calls visit(block, arg) for each block that a thread has, or had until it ended. The threads may
 * change them concurrently. */
void near__blocks_visit(void (*visit)(const struct near__block *b, void *arg), void *arg);

/* Before the program's first fork, and in each child. */
void near__blocks_begin(void);
void near__blocks_fork_child(void);

#endif
