/* SPDX-License-Identifier: MIT */
/* The rows in other languages, or why they are not there. */
#include "rows.h"

#ifndef HAVE_ABSL
const struct window_row row_absl = {"absl", "libabsl-dev was not there", 0, 0, 0};
#endif

#ifdef HAVE_RUST
void near_bench_parking_lot_init(struct window *w);
void near_bench_parking_lot_work(struct window_thread *t);
void near_bench_parking_lot_timed(struct window_thread *t);
void near_bench_rust_std_init(struct window *w);
void near_bench_rust_std_work(struct window_thread *t);
void near_bench_rust_std_timed(struct window_thread *t);

const struct window_row row_parking_lot = {"parking_lot", 0, near_bench_parking_lot_init,
					   near_bench_parking_lot_work,
					   near_bench_parking_lot_timed};
const struct window_row row_rust_std = {"rust std", 0, near_bench_rust_std_init,
					near_bench_rust_std_work, near_bench_rust_std_timed};
#else
const struct window_row row_parking_lot = {"parking_lot", "built without NEAR_BENCH_RUST", 0, 0, 0};
const struct window_row row_rust_std = {"rust std", "built without NEAR_BENCH_RUST", 0, 0, 0};
#endif
