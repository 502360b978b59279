/* SPDX-License-Identifier: MIT */
/* Loads the library that is measured from its file. */
#define _GNU_SOURCE
#include "library.h"

#include "../locks/window.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libatomic.so.1"

struct library library;

static void *find(void *file, const char *name)
{
	void *f = dlsym(file, name);

	if (!f)
		window_give_up("error", "the library lacks a function");
	return f;
}

/* A function pointer has the size of the result of dlsym. */
static void set(void *pointer, void *f)
{
	memcpy(pointer, &f, sizeof(f));
}

#define FIND_SIZED(n, type)                                                                        \
	set(&library.load_##n, find(file, "__atomic_load_" #n));                                   \
	set(&library.store_##n, find(file, "__atomic_store_" #n));                                 \
	set(&library.exchange_##n, find(file, "__atomic_exchange_" #n));                           \
	set(&library.cas_##n, find(file, "__atomic_compare_exchange_" #n));                        \
	set(&library.add_##n, find(file, "__atomic_fetch_add_" #n));

static void take(void *file)
{
	set(&library.load, find(file, "__atomic_load"));
	set(&library.store, find(file, "__atomic_store"));
	set(&library.exchange, find(file, "__atomic_exchange"));
	set(&library.cas, find(file, "__atomic_compare_exchange"));
	LIBRARY_SIZES(FIND_SIZED)
}

/* On a machine where this library replaces GCC's for all programs, this would load it, too. */
void library_take_gcc(void)
{
	void *file = dlopen(NAME, RTLD_NOW | RTLD_LOCAL);

	if (!file)
		window_give_up("missing", NAME " was not found (package libatomic1)");
	if (dlsym(file, "near__atomic_locks"))
		window_give_up("missing", NAME " is this library here, not GCC's");
	take(file);
}

static void *open_beside(const char *from, const char *dir)
{
	char path[2 * PATH_MAX];

	snprintf(path, sizeof(path), "%s%s%s/" NAME, from, *from ? "/" : "", dir);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* Searches the build tree, then the installation, both relative to this program. */
static void *open_own(void)
{
	char dir[PATH_MAX] = ".";
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	void *file;

	if (n > 0) {
		dir[n] = 0;
		*strrchr(dir, '/') = 0;
	}
	file = open_beside(dir, "../libatomic");
	return file ? file : open_beside(NEAR_ATOMIC_DIR[0] == '/' ? "" : dir, NEAR_ATOMIC_DIR);
}

void library_take_near(void)
{
	const char *other = getenv("NEAR_BENCH_ATOMIC");
	void *file = other ? dlopen(other, RTLD_NOW | RTLD_LOCAL) : open_own();

	if (!file)
		window_give_up("missing", other ? "the file that NEAR_BENCH_ATOMIC names cannot be "
						  "loaded"
						: NAME " of this library was not found where this "
						       "command is");
	take(file);
}
