/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-locks that are written in other languages, or why they are missing. */
#include "locks/rows.h"

#ifdef HAVE_ABSL
MODULE_ROW(row_absl, "absl", "nearcpu-locks-absl.so", "window_row",
	   "not installed: ./dev bench has it (package libabsl-dev)")
#else
MISSING_ROW(row_absl, "absl", "built without absl (package libabsl-dev, and a C++ compiler)")
#endif

#ifdef HAVE_RUST
void near_bench_parking_lot_init(struct window *w);
void near_bench_parking_lot_work(struct window_thread *t);
void near_bench_parking_lot_timed(struct window_thread *t);
void near_bench_rust_std_init(struct window *w);
void near_bench_rust_std_work(struct window_thread *t);
void near_bench_rust_std_timed(struct window_thread *t);

WINDOW_ROW(row_parking_lot, "parking_lot", near_bench_parking_lot_init, near_bench_parking_lot_work,
	   near_bench_parking_lot_timed)
WINDOW_ROW(row_rust_std, "rust-std", near_bench_rust_std_init, near_bench_rust_std_work,
	   near_bench_rust_std_timed)
#else
#define NO_RUST "built without Rust (package cargo; cmake -DNEAR_BENCH_RUST=ON)"
MISSING_ROW(row_parking_lot, "parking_lot", NO_RUST)
MISSING_ROW(row_rust_std, "rust-std", NO_RUST)
#endif
