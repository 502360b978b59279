/* SPDX-License-Identifier: MIT */
/* The kernel's numbers of the futex operations: its headers are not part of every C library. */
#ifndef NEARCPU_FUTEX_H
#define NEARCPU_FUTEX_H

#include <sys/syscall.h>

/* The call that takes the C library's timespec. Where time_t is 64 bits wide and long is not, the
 * old call does not. */
#ifdef SYS_futex_time64
#define NEAR__SYS_FUTEX (sizeof(time_t) > sizeof(long) ? SYS_futex_time64 : SYS_futex)
#else
#define NEAR__SYS_FUTEX SYS_futex
#endif

#define NEAR__FUTEX_WAKE 1
#define NEAR__FUTEX_WAIT_BITSET 9
#define NEAR__FUTEX_PRIVATE 128
#define NEAR__FUTEX_WAIT_PRIVATE 128
#define NEAR__FUTEX_WAKE_PRIVATE 129
#define NEAR__FUTEX_WAKE_OP_PRIVATE 133
#define NEAR__FUTEX_CLOCK_REALTIME 256

#endif
