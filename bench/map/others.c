/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-maps that modules have. */
#include "map/rows.h"

/* The C library loads no module whose thread-local variables are more aligned than the program's;
 * liburcu's are. */
__attribute__((used, aligned(LINE))) static __thread char aligned_variable = 1;

#define MAP_MODULE(name, package)                                                                  \
	static MODULE_ROW(row_##name, #name, "nearcpu-maps-" #name ".so", "map_row",               \
			  "not installed: ./dev bench has it (package " package ")",               \
			  .choose = map_choose, .check = map_check)

MAP_MODULE(urcu, "liburcu-dev")
MAP_MODULE(ck, "libck-dev")
MAP_MODULE(papaya, "cargo-web, rustc 1.72 or newer")

const struct window_row *const window_rows[] = {&row_urcu,   &row_ck,   &row_papaya, &row_mutex,
						&row_rwlock, &row_near, &row_near64, 0};
