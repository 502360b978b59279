/* SPDX-License-Identifier: MIT */
/* One table of locks in a process, however many of its objects contain libatomic: this program has
 * the static one in it (atomic_instance_bare_test does not), two plugins have it, one is linked
 * with the shared one, and GCC's name for it is opened as well. */
#include "unit.h"

#include <dlfcn.h>

#include "instance/plugin.h"

#define THREADS 4u
#define SIZE 24u
#define MAX_COPIES 5u

/* A bare program has none. */
extern const struct atomic_plugin program __attribute__((weak));

static const char *const paths[] = {ATOMIC_PLUGIN_A, ATOMIC_PLUGIN_B, ATOMIC_PLUGIN_SHARED};

static const struct atomic_plugin *copies[MAX_COPIES];
static unsigned n_copies;

/* ---- GCC's name ---- */

static struct {
	void *table;
	void (*load)(size_t, const void *, void *, int);
	void (*store)(size_t, void *, void *, int);
	bool (*cas)(size_t, void *, void *, void *, int, int);
} named;

static void *named_table(void)
{
	return named.table;
}

static void named_load(size_t n, const void *object, void *result)
{
	named.load(n, object, result, __ATOMIC_SEQ_CST);
}

static void named_store(size_t n, void *object, void *value)
{
	named.store(n, object, value, __ATOMIC_SEQ_CST);
}

static bool named_cas(size_t n, void *object, void *expected, void *desired)
{
	return named.cas(n, object, expected, desired, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static const struct atomic_plugin by_name = {
	.table = named_table, .load = named_load, .store = named_store, .cas = named_cas};

/* ---- opening ---- */

static void *open_one(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	return handle;
}

static void open_named(void)
{
	void *handle = open_one(ATOMIC_NAMED);

	named.table = dlsym(handle, "near__atomic_table");
	named.load = (void (*)(size_t, const void *, void *, int))dlsym(handle, "__atomic_load");
	named.store = (void (*)(size_t, void *, void *, int))dlsym(handle, "__atomic_store");
	named.cas = (bool (*)(size_t, void *, void *, void *, int,
			      int))dlsym(handle, "__atomic_compare_exchange");
	CHECK(named.table && named.load && named.store && named.cas);
	copies[n_copies++] = &by_name;
}

/* Beginning with any of them. */
static void open_all(unsigned first)
{
	for (unsigned i = 0; i <= LENGTH(paths); i++) {
		unsigned which = (first + i) % (LENGTH(paths) + 1);

		if (which == LENGTH(paths)) {
			open_named();
			continue;
		}
		copies[n_copies] = dlsym(open_one(paths[which]), "plugin");
		CHECK(copies[n_copies++]);
	}
	if (&program)
		copies[n_copies++] = &program;
}

/* ---- use ---- */

static uint64_t objects[2][SIZE / 8] __attribute__((aligned(64)));
static unsigned times;

/* Each step by another copy. */
static void *add_by_turns(void *number)
{
	unsigned turn = *(unsigned *)number;

	for (unsigned i = 0; i < times; i++, turn++) {
		uint64_t *object = objects[i % 2], old[3], new[3];

		copies[turn % n_copies]->load(SIZE, object, old);
		do {
			CHECK(old[0] == old[1] && old[1] == old[2]);
			for (unsigned k = 0; k < 3; k++)
				new[k] = old[k] + 1;
		} while (!copies[(turn + 1 + i / 64) % n_copies]->cas(SIZE, object, old, new));
	}
	return NULL;
}

static void use_all(void *first)
{
	unsigned numbers[THREADS] = {0, 1, 2, 3};

	open_all(*(unsigned *)first);
	for (unsigned i = 1; i < n_copies; i++)
		CHECK(copies[i]->table() == copies[0]->table());
	times = unit_scale(40000);
	unit_run(add_by_turns, numbers, sizeof(numbers[0]), THREADS);
	for (unsigned i = 0; i < 2; i++)
		CHECK(objects[i][0] == THREADS * times / 2 && objects[i][2] == objects[i][0]);
}

static void all_copies_have_the_same_locks(void **state)
{
	for (unsigned first = 0; first <= LENGTH(paths); first++)
		unit_in_child(use_all, &first);
}

UNIT_MAIN(all_copies_have_the_same_locks)
