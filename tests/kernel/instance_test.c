/* SPDX-License-Identifier: MIT */
/* One library in a process, however many objects contain it: this program and two plugins have the
 * static one in them, a third is linked with the shared one. Each test runs in a child that has not
 * opened any yet. */
#include "unit.h"

#include <dlfcn.h>
#include <semaphore.h>

#include "instance/plugin.h"
#include "team.h"

extern const struct plugin program;

#define PLUGINS 3u
#define COPIES (PLUGINS + 1)
static const char *const paths[PLUGINS] = {INSTANCE_A, INSTANCE_B, INSTANCE_SHARED};

static struct {
	void *handles[PLUGINS];
	const struct plugin *copies[COPIES]; /* the last one is the program's */
} opened;

static void open_plugin(unsigned i)
{
	opened.handles[i] = dlopen(paths[i], RTLD_NOW | RTLD_LOCAL);
	if (!opened.handles[i])
		fprintf(stderr, "%s\n", dlerror());
	CHECK(opened.handles[i]);
	opened.copies[i] = dlsym(opened.handles[i], "plugin");
	CHECK(opened.copies[i]);
}

static void open_plugins(void)
{
	for (unsigned i = 0; i < PLUGINS; i++)
		open_plugin(i);
	opened.copies[PLUGINS] = &program;
}

/* ---- one of each ---- */

static void check_thread(unsigned number)
{
	unsigned registration = opened.copies[1]->registration();

	for (unsigned i = 0; i < COPIES; i++) {
		CHECK(opened.copies[i]->registration() == registration);
		CHECK(opened.copies[i]->address(SELF) == opened.copies[0]->address(SELF));
		CHECK(opened.copies[i]->address(SELF));
	}
}

static void compare_addresses(void)
{
	open_plugins();
	for (unsigned i = 1; i < COPIES; i++)
		for (unsigned k = 0; k < PLUGIN_PARTS; k++)
			CHECK(opened.copies[i]->address(k) == opened.copies[0]->address(k));
	check_thread(0);
	for (int i = 0; i < 10; i++)
		team_run(1, check_thread);
}

static void a_process_has_one_of_each(void **state)
{
	IN_CHILD()
		compare_addresses();
	IN_CHILD() {
		program.registration();
		compare_addresses();
	}
	IN_CHILD() {
		open_plugin(1);
		opened.copies[1]->registration();
		compare_addresses();
	}
}

/* ---- objects ---- */

static struct {
	struct near_counter count;
	struct near_refcount ref;
	struct near_stack stack;
} objects;

#define THREADS 8
static unsigned rounds;

static void use_by_turns(unsigned number)
{
	struct near_stack_node node, *popped;

	for (unsigned i = 0; i < rounds; i++) {
		const struct plugin *here = opened.copies[i % COPIES];
		const struct plugin *there = opened.copies[i * 7 % COPIES];

		here->add(&objects.count, 1);
		there->get(&objects.ref);
		here->put(&objects.ref);
	}
	opened.copies[0]->push(&objects.stack, &node);
	do
		popped = opened.copies[1]->pop(&objects.stack);
	while (!popped);
	/* Another thread's node may be popped here; ours must not go while it is on the stack. */
	if (popped != &node) {
		opened.copies[2]->push(&objects.stack, popped);
		while ((popped = opened.copies[3]->pop(&objects.stack)) != &node)
			if (popped)
				opened.copies[0]->push(&objects.stack, popped);
	}
}

static void use_objects(unsigned maker)
{
	open_plugins();
	CHECK(opened.copies[maker]->open_all(&objects.count, &objects.ref, &objects.stack) == 0);
	rounds = unit_scale(20000);
	team_run(THREADS, use_by_turns);
	for (unsigned i = 0; i < COPIES; i++)
		CHECK(opened.copies[i]->read(&objects.count) == (int64_t)THREADS * rounds);
	CHECK(!near_refcount_is_zero(&objects.ref));
	opened.copies[2]->kill(&objects.ref);
	CHECK(near_refcount_is_zero(&objects.ref));
}

static void objects_of_one_copy_serve_all(void **state)
{
	for (unsigned maker = 0; maker < COPIES; maker++)
		IN_CHILD()
			use_objects(maker);
}

/* ---- locks ---- */

static struct {
	struct near_mutex m;
	unsigned long inside; /* guarded, not atomic */
	char place;
} shared;

static void lock_by_turns(unsigned number)
{
	for (unsigned i = 0; i < rounds; i++) {
		opened.copies[i % COPIES]->lock(&shared.m);
		shared.inside++;
		if (i % 64 == 0)
			sched_yield();
		opened.copies[i * 7 % COPIES]->unlock(&shared.m);
	}
}

static void *park_by_one(void *copy)
{
	struct near_park how = {0};

	CHECK(((const struct plugin *)copy)->park(&shared.place, &how) == 0);
	CHECK(how.token == 5);
	return NULL;
}

/* A thread that sleeps by one copy is woken by another. */
UNIT_CHILD(locks_of_all_copies_meet, false)
{
	open_plugins();
	rounds = unit_scale(20000);
	team_run(THREADS, lock_by_turns);
	CHECK(shared.inside == (unsigned long)THREADS * rounds);
	for (unsigned i = 0; i < COPIES; i++) {
		pthread_t t = unit_start(park_by_one, (void *)(uintptr_t)opened.copies[i]);

		while (opened.copies[(i + 1) % COPIES]->unpark(&shared.place, 1, 5) == 0)
			usleep(100);
		unit_join(t);
	}
}

/* The first copy takes one mutex before the other, the last one the other before the first. */
static void lock_in_a_circle(void *unused)
{
	static struct near_mutex m[2];

	setenv("NEAR_CONF", "lock_check:1", 1);
	open_plugins();
	for (unsigned i = 0; i < 2; i++) {
		const struct plugin *copy = opened.copies[i ? PLUGINS : 0];

		copy->lock(&m[i]);
		opened.copies[1]->lock(&m[!i]);
		opened.copies[PLUGINS - 1]->unlock(&m[i]);
		copy->unlock(&m[!i]);
	}
}

static void the_order_of_locks_is_that_of_all_copies(void **state)
{
	char reported[4096];

	assert_int_equal(unit_capture(lock_in_a_circle, NULL, reported, sizeof(reported), NULL), 0);
	assert_non_null(strstr(reported, "lock order: 2 locks form a cycle"));
	assert_non_null(strstr(reported, "addr2line -e " INSTANCE_A " 0x"));
	assert_non_null(strstr(reported, "addr2line -e " INSTANCE_B " 0x"));
}

/* ---- unloading ---- */

static sem_t used, closed;

/* The thread's last sequence is in a plugin, and dlclose was called for the plugin. */
static const struct plugin *last;

static void live_on(unsigned number)
{
	last->registration();
	last->add(&objects.count, 1);
	sem_post(&used);
	sem_wait(&closed);
	sched_yield();
}

static void close_while_threads_live(unsigned which)
{
	struct team team;

	sem_init(&used, 0, 0);
	sem_init(&closed, 0, 0);
	open_plugins();
	CHECK(program.open_all(&objects.count, &objects.ref, &objects.stack) == 0);
	last = opened.copies[which];
	team_start(&team, THREADS, live_on);
	for (unsigned i = 0; i < THREADS; i++)
		sem_wait(&used);
	/* The last to use it first, then the others. */
	for (unsigned i = 0; i < PLUGINS; i++)
		CHECK(dlclose(opened.handles[(which + i) % PLUGINS]) == 0);
	for (unsigned i = 0; i < THREADS; i++)
		sem_post(&closed);
	team_join(&team);
	program.add(&objects.count, 1);
	CHECK(program.read(&objects.count) == THREADS + 1);
}

static void code_with_sequences_stays_loaded(void **state)
{
	for (unsigned which = 0; which < PLUGINS; which++)
		IN_CHILD()
			close_while_threads_live(which);
}

UNIT_MAIN(a_process_has_one_of_each, objects_of_one_copy_serve_all, locks_of_all_copies_meet,
	  the_order_of_locks_is_that_of_all_copies, code_with_sequences_stays_loaded)
