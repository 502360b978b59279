/* SPDX-License-Identifier: MIT */
/* The rows of nearcpu-maps that modules have. */
#define _GNU_SOURCE
#include "rows.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The C library loads no module whose thread-local variables are more aligned than the program's;
 * liburcu's are. */
__attribute__((used, aligned(LINE))) static __thread char aligned_variable = 1;

static const struct window_row *loaded;

static void load(const char *name, const char *missing, struct window *w)
{
	char path[PATH_MAX + 32] = "";
	void *module;

	if (readlink("/proc/self/exe", path, PATH_MAX - 1) > 0)
		sprintf(strrchr(path, '/') + 1, "nearcpu-maps-%s.so", name);
	module = loaded ? NULL : dlopen(path, RTLD_NOW);
	if (module)
		loaded = dlsym(module, "map_row");
	if (!loaded)
		window_give_up("missing", missing);
	loaded->init(w);
}

static void loaded_work(struct window_thread *t)
{
	loaded->work(t);
}

static void loaded_timed(struct window_thread *t)
{
	loaded->timed(t);
}

#define MODULE_ROW(name, missing)                                                                  \
	static void name##_init(struct window *w)                                                  \
	{                                                                                          \
		load(#name, missing, w);                                                           \
	}                                                                                          \
	static const struct window_row row_##name = {                                              \
		#name, 0, name##_init, loaded_work, loaded_timed,                                  \
		false, 0, 0,           map_choose,  map_check};

MODULE_ROW(urcu, "not installed: ./dev bench has it (package liburcu-dev)")
MODULE_ROW(ck, "not installed: ./dev bench has it (package libck-dev)")
MODULE_ROW(papaya, "not installed: ./dev bench has it (package cargo-web, rustc 1.72 or newer)")

const struct window_row *const window_rows[] = {
	&row_urcu, &row_ck, &row_papaya, &row_mutex, &row_rwlock, &row_near, 0};
