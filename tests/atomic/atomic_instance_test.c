/* SPDX-License-Identifier: MIT */
/* One table of locks in a process, however many of its objects contain libatomic: this program has
 * the static one in it (atomic_instance_bare_test does not), two plugins have it, one is linked
 * with the shared one, and GCC's name for it is opened as well. */
#include <dlfcn.h>

#include "team.h"

#include "instance/plugin.h"

#define THREADS 4u
#define SIZE 24u
#define MAX_COPIES 5u

/* A bare program has none. */
extern const struct atomic_plugin program __attribute__((weak));

static const char *const paths[] = {ATOMIC_PLUGIN_A, ATOMIC_PLUGIN_B, ATOMIC_PLUGIN_SHARED};

static const struct atomic_plugin *copies[MAX_COPIES];
static unsigned n_copies;

/* ---- opening ---- */

static void *open_one(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(handle);
	return handle;
}

/* GCC's name: its functions one by one. */
static void open_named(void)
{
	static struct atomic_plugin named;
	void *handle = open_one(ATOMIC_NAMED);

	named.table = dlsym(handle, "near__atomic_locks");
	*(void **)&named.load = dlsym(handle, "__atomic_load");
	*(void **)&named.store = dlsym(handle, "__atomic_store");
	*(void **)&named.cas = dlsym(handle, "__atomic_compare_exchange");
	CHECK(named.table && named.load && named.store && named.cas);
	copies[n_copies++] = &named;
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
static void add_by_turns(unsigned turn)
{
	for (unsigned i = 0; i < times; i++, turn++) {
		uint64_t *object = objects[i % 2], old[3], new[3];

		copies[turn % n_copies]->load(SIZE, object, old, __ATOMIC_SEQ_CST);
		do {
			CHECK(old[0] == old[1] && old[1] == old[2]);
			for (unsigned k = 0; k < 3; k++)
				new[k] = old[k] + 1;
		} while (!copies[(turn + 1 + i / 64) % n_copies]->cas(
			SIZE, object, old, new, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
	}
}

static void use_all(void *first)
{
	open_all(*(unsigned *)first);
	for (unsigned i = 1; i < n_copies; i++)
		CHECK(copies[i]->table == copies[0]->table);
	times = unit_scale(40000);
	team_run(THREADS, add_by_turns);
	for (unsigned i = 0; i < 2; i++)
		CHECK(objects[i][0] == THREADS * times / 2 && objects[i][2] == objects[i][0]);
}

static void all_copies_have_the_same_locks(void **state)
{
	for (unsigned first = 0; first <= LENGTH(paths); first++)
		unit_in_child(use_all, &first);
}

UNIT_MAIN(all_copies_have_the_same_locks)
