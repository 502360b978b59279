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

#endif
