/* SPDX-License-Identifier: MIT */
/* The rows in other languages, or why they are not there. */
#include "rows.h"

#ifndef HAVE_ABSL
MISSING_ROW(row_absl, "absl", "built without absl (package libabsl-dev, and a C++ compiler)")
#endif

#ifdef HAVE_RUST
void near_bench_parking_lot_init(struct window *w);
void near_bench_parking_lot_work(struct window_thread *t);
void near_bench_parking_lot_timed(struct window_thread *t);
void near_bench_rust_std_init(struct window *w);
void near_bench_rust_std_work(struct window_thread *t);
void near_bench_rust_std_timed(struct window_thread *t);

const struct window_row row_parking_lot = {"parking_lot",
					   0,
					   near_bench_parking_lot_init,
					   near_bench_parking_lot_work,
					   near_bench_parking_lot_timed,
					   false,
					   0,
					   0,
					   0,
					   0};
const struct window_row row_rust_std = {"rust-std",
					0,
					near_bench_rust_std_init,
					near_bench_rust_std_work,
					near_bench_rust_std_timed,
					false,
					0,
					0,
					0,
					0};
#else
#define NO_RUST "built without Rust (package cargo; cmake -DNEAR_BENCH_RUST=ON)"
MISSING_ROW(row_parking_lot, "parking_lot", NO_RUST)
MISSING_ROW(row_rust_std, "rust-std", NO_RUST)
#endif
