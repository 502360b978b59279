/* SPDX-License-Identifier: MIT */
/* Loads the library that is measured from its file. */
#include "atomic/library.h"

#include "locks/window.h"

#include <stdlib.h>

#define NAME "libatomic.so.1"

struct library library;

static void *symbol_find(void *file, const char *name)
{
	void *f = dlsym(file, name);

	if (!f)
		window_give_up("error", "the library lacks a function");
	return f;
}

/* A function pointer has the size of the result of dlsym. */
static void set(void *pointer, void *f) { memcpy(pointer, &f, sizeof(f)); }

#define FIND_SIZED(n, type)                                                                        \
	set(&library.load_##n, symbol_find(file, "__atomic_load_" #n));                            \
	set(&library.store_##n, symbol_find(file, "__atomic_store_" #n));                          \
	set(&library.exchange_##n, symbol_find(file, "__atomic_exchange_" #n));                    \
	set(&library.cas_##n, symbol_find(file, "__atomic_compare_exchange_" #n));                 \
	set(&library.add_##n, symbol_find(file, "__atomic_fetch_add_" #n));

static void library_take(void *file)
{
	set(&library.load, symbol_find(file, "__atomic_load"));
	set(&library.store, symbol_find(file, "__atomic_store"));
	set(&library.exchange, symbol_find(file, "__atomic_exchange"));
	set(&library.cas, symbol_find(file, "__atomic_compare_exchange"));
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
	library_take(file);
}

/* Searches the build tree, then the installation, both relative to this program. */
static void *open_own(void)
{
	const char *installed = NEAR_ATOMIC_DIR "/" NAME;
	void *file = dlopen(beside("../libatomic/" NAME), RTLD_NOW | RTLD_LOCAL);

	if (file)
		return file;
	return dlopen(*installed == '/' ? installed : beside(installed), RTLD_NOW | RTLD_LOCAL);
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
	library_take(file);
}
