/* SPDX-License-Identifier: MIT */
/* The owner of a lock: the kernel's id of the thread (tid), which no two threads have at the same
 * time, above the flags of the lock's word. Linux uses ids below 2^22, so that they fit. */
#ifndef NEARCPU_LOCKS_OWNER_H
#define NEARCPU_LOCKS_OWNER_H

#include <nearcpu/mutex.h>
#include <stdbool.h>
#include <stdint.h>

#define NEAR__OWNER_SHIFT 10

/* The id of this thread, as words contain it. The first call stores it in near__more.owner; or in
 * `owner_checked` (locks_state.h), if the library must see every lock and unlock of the thread
 * (lock_check, valgrind): near__more.owner stays NEAR__NO_OWNER then, so that the inline paths
 * fail. */
uint32_t near__owner_now(void);

/* Lets this thread, which is not checked after all, use the inline paths. */
void near__owner_uncheck(void);

/* The same id, from the kernel. */
uint32_t near__owner_from_kernel(void);

/* The kernel has given `owner` to this thread. If the thread that forked had it in a process
 * before, it is no longer known by it. */
void near__owner_drop_former(uint32_t owner);

/* Whether this thread is `owner`, or was before a fork. */
bool near__owner_is_me(uint32_t owner);

/* False: this is a forked child, and `owner` a thread that fork did not copy. */
bool near__owner_exists(uint32_t owner);

/* Whether a word names such a thread. */
bool near__owner_lost_at_fork(const uint32_t *word);

/* Whether a word names a thread that does not exist. Makes system calls. False where it cannot be
 * decided: in the child of a vfork or of a bare clone(), where a filter of system calls answers, or
 * if another process has a thread of this id, which may run in this memory. */
bool near__owner_has_ended(const uint32_t *word);

/* Called before a thread continues to sleep: stops the program if the word names a thread that does
 * not exist. The line begins with `whose`. */
void near__owner_check(const uint32_t *word, const char *whose);

#endif
