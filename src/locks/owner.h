/* SPDX-License-Identifier: MIT */
/* Who holds a mutex: the thread's number in the kernel, which no two threads have at once, above
 * the bits of the word that tell of waiters. It fits: Linux numbers threads below 2^22. */
#ifndef NEARCPU_OWNER_H
#define NEARCPU_OWNER_H

#include <nearcpu/mutex.h>
#include <stdbool.h>
#include <stdint.h>

#define NEAR__OWNER_SHIFT 10

/* This thread's number as it stands in words: near__owner, or the checker's note (order.h). */
uint32_t near__owner_now(void);

/* The same, from the kernel. */
uint32_t near__owner_ask(void);

/* In the child of a fork. */
void near__owner_forked(void);

/* This thread has it from the kernel, which may have given it before: to the one that forked, in a
 * process before. That one is then not known by it any more. */
void near__owner_given(uint32_t owner);

/* Whether `owner` is what the thread that forked was called before. */
bool near__owner_came_along(uint32_t owner);

/* Whether this thread is `owner`, or was before a fork. */
bool near__owner_is_me(uint32_t owner);

/* False: this is a forked child, and `owner` a thread that did not come along. */
bool near__owner_exists(uint32_t owner);

/* Whether a word names such a thread. */
bool near__owner_was_left_behind(const uint32_t *word);

/* Whether a word names a thread that does not exist. Makes system calls. False where in doubt: in
 * the child of a vfork or of a bare clone(), where a filter of system calls answers, or if another
 * process has a thread of this number, which may run in this memory. */
bool near__owner_has_ended(const uint32_t *word);

/* Before a thread sleeps on: stops the program with a line that begins with `whose`, if so. */
void near__owner_check(const uint32_t *word, const char *whose);

#endif
