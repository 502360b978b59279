/* SPDX-License-Identifier: MIT */
/* rows: the locks that are compared. */
#ifndef BENCH_LOCKS_ROWS_H
#define BENCH_LOCKS_ROWS_H

#include "locks/window.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct window_row row_unlocked, row_pthread, row_adaptive, row_mutex, row_lock,
	row_nsync, row_ck, row_absl, row_parking_lot, row_rust_std, row_recursive,
	row_near_recursive, row_sem_t, row_sem, row_pthread_barrier, row_near_barrier,
	row_pthread_cond, row_near_cond, row_pthread_signal, row_near_signal;

/* Of a function row##_loop(t, whether waits are timed). */
#define TWO_LOOPS(row)                                                                             \
	static void row##_work(struct window_thread *t) { row##_loop(t, false); }                  \
	static void row##_timed(struct window_thread *t) { row##_loop(t, true); }
#define GROUP_ROW(row, label)                                                                      \
	WINDOW_ROW(row, label, row##_init, row##_work, row##_timed, .choose = choose)

#ifdef __cplusplus
}
#endif

#endif
