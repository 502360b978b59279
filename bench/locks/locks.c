/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-locks. */
#include "rows.h"

const struct window_row *const window_rows[] = {&row_pthread,
						&row_adaptive,
						&row_mutex,
						&row_lock,
						&row_nsync,
						&row_absl,
						&row_ck,
						&row_parking_lot,
						&row_rust_std,
						&row_unlocked,
						&row_recursive,
						&row_near_recursive,
						&row_sem_t,
						&row_sem,
						&row_pthread_barrier,
						&row_near_barrier,
						&row_pthread_cond,
						&row_near_cond,
						&row_pthread_signal,
						&row_near_signal,
						0};
