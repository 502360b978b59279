/* SPDX-License-Identifier: MIT */
/* Two versions of the library in a process: plugins whose shared state has the names of this
 * version, and plugins where it has those of another; they contain the static library, or are
 * linked with the shared one. Only the version that came first
 * runs sequences, the other one takes the portable path and gives the reason; both work. This
 * program does not contain the library. Each test runs in a child. */
#include "unit.h"

#include <dlfcn.h>

#include "instance/plugin.h"

/* The first of a pair contains the static library or is linked with the shared one; the second is
 * the other version. */
static const char *const pairs[][2] = {
	{INSTANCE_A, INSTANCE_OTHER},
	{INSTANCE_SHARED, INSTANCE_OTHER},
#ifdef INSTANCE_OTHER_SHARED
	{INSTANCE_A, INSTANCE_OTHER_SHARED},
	{INSTANCE_SHARED, INSTANCE_OTHER_SHARED},
#endif
};

static const struct plugin *open_plugin(const char *path, int scope)
{
	void *handle = dlopen(path, RTLD_NOW | scope);
	const struct plugin *p = handle ? dlsym(handle, "plugin") : NULL;

	if (!p)
		fprintf(stderr, "%s\n", dlerror());
	CHECK(p);
	return p;
}

static struct {
	const struct plugin *first, *second;
	struct near_counter counts[2];
	bool live; /* the first one */
} both;

static void *use_both(void *unused)
{
	CHECK((both.first->registration() & 1) == both.live);
	CHECK((both.second->registration() & 1) == 0);
	for (int i = 0; i < 1000; i++) {
		both.first->add(&both.counts[0], 1);
		both.second->add(&both.counts[1], 1);
	}
	return NULL;
}

static void check_both(void)
{
	struct near_refcount ref;
	struct near_stack stack;
	pthread_t threads[4];

	both.live = both.first->registration() & 1;
	CHECK(both.first->open_all(&both.counts[0], &ref, &stack) == 0);
	CHECK(both.second->open_all(&both.counts[1], &ref, &stack) == 0);
	for (unsigned i = 0; i < PLUGIN_PARTS; i++)
		CHECK(both.first->address(i) != both.second->address(i));
	for (size_t i = 0; i < LENGTH(threads); i++)
		threads[i] = unit_start(use_both, NULL);
	for (size_t i = 0; i < LENGTH(threads); i++)
		unit_join(threads[i]);
	CHECK(both.first->read(&both.counts[0]) == 4000);
	CHECK(both.second->read(&both.counts[1]) == 4000);
	CHECK(!both.live || strstr(both.second->why(), "another version"));
}

/* In scopes of their own, or in one, where the names of functions are the same. */
static void check_order(const char *const pair[2], unsigned first, int scope)
{
	IN_CHILD() {
		both.first = open_plugin(pair[first], scope);
		CHECK(both.first->registration() < 4);
		both.second = open_plugin(pair[!first], scope);
		check_both();
	}
}

static void versions_share_nothing(void **state)
{
	for (unsigned first = 0; first < 2; first++) {
		check_order(pairs[0], first, RTLD_LOCAL);
		check_order(pairs[0], first, RTLD_GLOBAL);
		for (size_t i = 1; i < LENGTH(pairs); i++)
			check_order(pairs[i], first, RTLD_LOCAL);
#ifdef INSTANCE_OTHER_SHARED
		/* The versions of their symbols keep two shared libraries apart in one scope. */
		check_order(pairs[LENGTH(pairs) - 1], first, RTLD_GLOBAL);
#endif
	}
}

/* ---- loaded with the program ---- */

/* INSTANCE_A decides early, before its constructors and those of the other one. */
static void run_preloaded(void *libraries)
{
	setenv("LD_PRELOAD", libraries, 1);
	setenv("INSTANCE_EARLY", "1", 1);
	execl("/proc/self/exe", "versions_test", "preloaded", (char *)NULL);
	CHECK(!"execl");
}

/* The version whose vfork the process calls is the one that runs sequences. */
static void the_one_that_serves_is_live(void **state)
{
	if (unit_emulated())
		skip();
	unit_in_child(run_preloaded, (char[]){INSTANCE_A ":" INSTANCE_OTHER});
	unit_in_child(run_preloaded, (char[]){INSTANCE_OTHER ":" INSTANCE_A});
}

static void check_preloaded(void)
{
	Dl_info serves;
	bool is_other;

	CHECK(dladdr(dlsym(RTLD_DEFAULT, "vfork"), &serves));
	is_other = strcmp(serves.dli_fname, INSTANCE_OTHER) == 0;
	both.first = open_plugin(pairs[0][is_other], RTLD_LOCAL);
	both.second = open_plugin(pairs[0][!is_other], RTLD_LOCAL);
	/* Where no sequences are known, the library has no vfork. */
	CHECK(is_other || strcmp(serves.dli_fname, INSTANCE_A) == 0 ||
	      !(both.first->registration() & 1));
	check_both();
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		check_preloaded();
	return UNIT_TESTS(versions_share_nothing, the_one_that_serves_is_live);
}
