/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-locks that are written in other languages, or why they are missing. */
#define _GNU_SOURCE
#include "rows.h"

#ifdef HAVE_ABSL
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* absl's row is in a module, which is not installed, so that the program does not link absl. */
static const struct window_row *absl;

static void absl_init(struct window *w)
{
	char path[PATH_MAX + 32] = "";
	void *module;

	if (readlink("/proc/self/exe", path, PATH_MAX - 1) > 0)
		strcpy(strrchr(path, '/') + 1, "nearcpu-locks-absl.so");
	module = dlopen(path, RTLD_NOW);
	absl = module ? dlsym(module, "window_row") : NULL;
	if (!absl)
		window_give_up("missing",
			       "not installed: ./dev bench has it (package libabsl-dev)");
	absl->init(w);
}

static void absl_work(struct window_thread *t)
{
	absl->work(t);
}

static void absl_timed(struct window_thread *t)
{
	absl->timed(t);
}

FUNCTION_ROW(row_absl, "absl", absl_init, absl_work, absl_timed)
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

FUNCTION_ROW(row_parking_lot, "parking_lot", near_bench_parking_lot_init,
	     near_bench_parking_lot_work, near_bench_parking_lot_timed)
FUNCTION_ROW(row_rust_std, "rust-std", near_bench_rust_std_init, near_bench_rust_std_work,
	     near_bench_rust_std_timed)
#else
#define NO_RUST "built without Rust (package cargo; cmake -DNEAR_BENCH_RUST=ON)"
MISSING_ROW(row_parking_lot, "parking_lot", NO_RUST)
MISSING_ROW(row_rust_std, "rust-std", NO_RUST)
#endif
