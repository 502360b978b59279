/* SPDX-License-Identifier: MIT */
/* The kernel's numbers of the futex operations: its headers are not part of every C library. */
#ifndef NEARCPU_FUTEX_H
#define NEARCPU_FUTEX_H

#define NEAR__FUTEX_WAKE 1
#define NEAR__FUTEX_WAIT_BITSET 9
#define NEAR__FUTEX_PRIVATE 128
#define NEAR__FUTEX_WAIT_PRIVATE 128
#define NEAR__FUTEX_WAKE_PRIVATE 129
#define NEAR__FUTEX_WAKE_OP_PRIVATE 133
#define NEAR__FUTEX_CLOCK_REALTIME 256

#endif
