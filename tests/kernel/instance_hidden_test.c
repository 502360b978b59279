/* SPDX-License-Identifier: MIT */
/* A program that contains the library and does not export its state (nearcpu::export), with plugins
 * that contain it or are linked with the shared one: their copies take the portable path and give
 * the reason, since the program's vfork would not reach their threads. */
#include "unit.h"

#include <dlfcn.h>

#include "instance/plugin.h"

extern const struct plugin program;

static const struct plugin *open_plugin(const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const struct plugin *p = handle ? dlsym(handle, "plugin") : NULL;

	if (!p)
		fail_msg("%s", dlerror());
	return p;
}

static void *check_thread(void *plugin)
{
	const struct plugin *p = plugin;
	bool live = program.registration() & 1;

	CHECK(p->registration() == 0);
	if (live)
		CHECK(strstr(p->why(), "does not export its state"));
	return NULL;
}

static void check_plugin(const char *path)
{
	const struct plugin *p = open_plugin(path);

	assert_ptr_not_equal(p->address(PROCESS), program.address(PROCESS));
	assert_ptr_not_equal(p->address(SELF), program.address(SELF));
	check_thread((void *)(uintptr_t)p);
	for (int i = 0; i < 10; i++)
		unit_join(unit_start(check_thread, (void *)(uintptr_t)p));
}

static void plugins_leave_the_sequences_to_the_program(void **state)
{
	check_plugin(INSTANCE_A);
	check_plugin(INSTANCE_SHARED);
}

/* Each adds in the child of a vfork, which runs on its parent's thread. */
static void children_count(void **state)
{
	const struct plugin *copies[2] = {&program, open_plugin(INSTANCE_B)};

	for (unsigned i = 0; i < LENGTH(copies); i++) {
		struct near_counter count;
		struct near_refcount ref;
		struct near_stack stack;
		int status;
		pid_t child;

		assert_int_equal(copies[i]->open_all(&count, &ref, &stack), 0);
		copies[i]->add(&count, 1);
		child = vfork();
		if (child == 0) {
			for (int n = 0; n < 1000; n++)
				copies[i]->add(&count, 1);
			_exit(copies[i]->registration() & 1);
		}
		assert_true(child > 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		assert_int_equal(copies[i]->read(&count), 1001);
	}
}

UNIT_MAIN(plugins_leave_the_sequences_to_the_program, children_count)
