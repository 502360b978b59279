/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-atomics: the same loops, through the functions of different libraries. */
#include "atomic/cases.h"

#define DEFAULT_CASE "24-load"

static void atomic_begin(struct window *w)
{
	if (!selected.loops.work)
		cases_choose(DEFAULT_CASE);
	w->alone = selected.place == AT_ALONE;
	cases_begin(w);
}

static void atomic_work(struct window_thread *t) { selected.loops.work(t); }
static void timed(struct window_thread *t) { selected.loops.timed(t); }

#define ROW(name, label, how)                                                                      \
	static void name##_init(struct window *w)                                                  \
	{                                                                                          \
		how;                                                                               \
		atomic_begin(w);                                                                   \
	}                                                                                          \
	static WINDOW_ROW(name##_row, label, name##_init, atomic_work, timed,                      \
			  .choose = cases_choose, .check = cases_check)

ROW(gcc, "gcc", library_take_gcc())
ROW(spin, "compiler-rt", library = library_spin)
ROW(near, "near-atomic", library_take_near())
ROW(mutex, "mutex", library = library_mutex)

const struct window_row *const window_rows[] = {&gcc_row, &spin_row, &near_row, &mutex_row, 0};
