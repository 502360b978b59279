/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-atomics: the same loops, through the functions of different libraries. */
#include "cases.h"

#define DEFAULT_CASE "24-load"

static void begin(struct window *w)
{
	if (!selected.loops.work)
		cases_choose(DEFAULT_CASE);
	w->alone = selected.place == AT_ALONE;
	cases_begin(w);
}

static void work(struct window_thread *t)
{
	selected.loops.work(t);
}

static void timed(struct window_thread *t)
{
	selected.loops.timed(t);
}

#define ROW(name, label, how)                                                                      \
	static void name##_init(struct window *w)                                                  \
	{                                                                                          \
		how;                                                                               \
		begin(w);                                                                          \
	}                                                                                          \
	static const struct window_row name##_row = {                                              \
		label, 0, name##_init, work, timed, false, 0, 0, cases_choose, cases_check};

ROW(gcc, "gcc", library_take_gcc())
ROW(spin, "compiler-rt", library = library_spin)
ROW(near, "near-atomic", library_take_near())
ROW(mutex, "mutex", library = library_mutex)

const struct window_row *const window_rows[] = {&gcc_row, &spin_row, &near_row, &mutex_row, 0};
