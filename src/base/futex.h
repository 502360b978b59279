/* SPDX-License-Identifier: MIT */
/* futex(2): the one place of the library and its tools that calls it (tests/lint), with the
 * kernel's numbers of the operations: its headers are not part of every C library. */
#ifndef NEARCPU_FUTEX_H
#define NEARCPU_FUTEX_H

#include <stdbool.h>
#include <stdint.h>

#define NEAR__FUTEX_WAIT 0
#define NEAR__FUTEX_WAKE 1
#define NEAR__FUTEX_WAIT_BITSET 9
#define NEAR__FUTEX_PRIVATE 128
#define NEAR__FUTEX_WAIT_PRIVATE 128
#define NEAR__FUTEX_WAKE_PRIVATE 129
#define NEAR__FUTEX_WAKE_OP_PRIVATE 133
#define NEAR__FUTEX_CLOCK_REALTIME 256

#define NEAR__FOREVER INT64_MAX /* no limit */

/* The result of the system call, or a negative errno. errno is left alone. The time in ns is
 * relative or absolute, as the operation has it. Waits match every wake-up. */
int near__futex(const uint32_t *word, int op, uint32_t value, int64_t ns);

/* FUTEX_WAKE_OP: changes *word by `change`, and wakes n sleepers at `word` at most. */
int near__futex_wake_op(uint32_t *word, int n, uint32_t change);

/* Sleeps while *word is `value`, for `ns` at most. 0 after a wake-up, or -EAGAIN, -EINTR,
 * -ETIMEDOUT. `shared`: the word is in memory that processes share. */
int near__futex_sleep(const uint32_t *word, uint32_t value, int64_t ns, bool shared);

/* Wakes n sleepers at most. Returns how many. */
int near__futex_wake(uint32_t *word, int n, bool shared);

#endif
