/* SPDX-License-Identifier: MIT */
/* rows: the locks that are compared. */
#ifndef BENCH_LOCKS_ROWS_H
#define BENCH_LOCKS_ROWS_H

#include "window.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct window_row row_unlocked, row_pthread, row_adaptive, row_mutex, row_lock,
	row_nsync, row_ck, row_absl, row_parking_lot, row_rust_std, row_recursive,
	row_near_recursive, row_sem_t, row_sem, row_pthread_barrier, row_near_barrier,
	row_pthread_cond, row_near_cond, row_pthread_signal, row_near_signal;

#ifdef __cplusplus
}
#endif

#endif
