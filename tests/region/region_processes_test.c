/* SPDX-License-Identifier: MIT */
/* near_region: threads and processes that define objects, forks, cancellation, other namespaces.
 * region_kill_test.c kills processes at any moment. */
#include "regions.h"

#include <fcntl.h>
#include <sys/mount.h>

#include "team.h"

/* ---- several threads and processes ---- */

#define NAMES 20

static struct near_region shared_region;
static uint64_t offsets[8][NAMES];

static void define_all(struct near_region *r, uint64_t *out, unsigned first)
{
	for (unsigned i = 0; i < NAMES; i++) {
		unsigned n = (first + i) % NAMES;
		char name[] = {'n', (char)('a' + n), 0};
		struct near_region_object o = counter_named(name, NULL);

		CHECK(near_region_open_object(r, &o) == 0);
		out[n] = o.offset;
	}
}

static void define_in_order(unsigned number)
{
	define_all(&shared_region, offsets[number], number * 3);
}

static void check_directory(const struct near_region *r, unsigned count)
{
	struct near_region_object o;
	unsigned i;

	for (i = 0; near_region_object(r, i, &o) == 0; i++)
		assert_int_equal(o.offset, i * 8);
	assert_int_equal(i, count);
}

static void threads_define_the_same_objects(void **state)
{
	for (unsigned k = 0; k < unit_scale(10); k++) {
		shared_region = opened_region(&defaults);
		team_run(8, define_in_order);
		check_directory(&shared_region, NAMES);
		for (unsigned i = 1; i < 8; i++)
			assert_memory_equal(offsets[i], offsets[0], sizeof(offsets[0]));
		near_region_close(&shared_region);
		unlink(path);
	}
}

static void make_define_and_remove(unsigned number)
{
	for (unsigned k = 0; k < unit_scale(100); k++) {
		struct near_region r = opened_region(&defaults);

		define_all(&r, offsets[number], number);
		near_region_close(&r);
		if (k % 8 == number)
			unlink(path);
	}
}

static void they_make_it_while_others_remove_it(void **state)
{
	team_run(4, make_define_and_remove);
	assert_in_range(files(directory), 0, 1);
	unlink(path);
}

/* What one of them holds is released when it dies. */
static void nobody_waits_for_the_dead(void **state)
{
	struct near_region r = opened_region(&defaults);
	struct near_region_object o = counter_named("a", NULL);
	struct flock first = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	int ready[2];
	pid_t child;
	char c;

	assert_int_equal(pipe(ready), 0);
	child = unit_fork_here();
	if (child == 0) {
		CHECK(fcntl(open(path, O_RDWR), F_OFD_SETLKW, &first) == 0);
		CHECK(write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	kill(child, SIGKILL);
	assert_int_equal(define(&r, &o), 0);
	unit_wait(child, NULL);
	near_region_close(&r);
}

/* ---- fork and cancellation ---- */

#define CHILDREN 8
#define ADDED 60

static void define_many(unsigned number)
{
	for (unsigned i = 0; i < ADDED; i++) {
		struct near_region_object o;
		char name[16];

		snprintf(name, sizeof(name), "n%u", i);
		o = counter_named(name, NULL);
		CHECK(near_region_open_object(&shared_region, &o) == 0);
	}
}

/* Children that live on have no lock of the thread that adds objects. Each adds one, too. */
static void children_do_not_inherit_the_lock(void **state)
{
	unsigned *added = unit_shared(sizeof(*added));
	struct near_region_object o;
	pid_t children[CHILDREN];
	struct team team;
	char name[16];

	shared_region = opened_region(&(struct near_region_options){.max_objects = 100});
	team_start(&team, 1, define_many);
	for (unsigned i = 0; i < CHILDREN; i++) {
		snprintf(name, sizeof(name), "child%u", i);
		o = counter_named(name, NULL);
		children[i] = unit_fork_here();
		if (children[i] == 0) {
			CHECK(near_region_open_object(&shared_region, &o) == 0);
			__atomic_fetch_add(added, 1, __ATOMIC_RELAXED);
			for (;;)
				pause();
		}
	}
	team_join(&team);
	UNTIL(__atomic_load_n(added, __ATOMIC_RELAXED) == CHILDREN);
	munmap(added, sizeof(*added));
	for (unsigned i = 0; i < CHILDREN; i++) {
		kill(children[i], SIGKILL);
		unit_wait(children[i], NULL);
	}
	check_directory(&shared_region, ADDED + CHILDREN);
	near_region_close(&shared_region);
}

/* It would keep the lock, or end within an add. */
static void use_while_cancelled(unsigned number)
{
	uint32_t sparse = NEAR_REGION_COMMON | NEAR_REGION_SPARSE;
	struct near_region_object o = {
		.name = "rings", .kind = NEAR_REGION_PRIVATE, .flags = sparse, .size = 8192};
	struct near_region r, again;
	struct near_shared_counters s;

	pthread_cancel(pthread_self());
	r = opened_region(&defaults);
	CHECK(near_region_open_fd(&again, r.fd) == 0);
	CHECK(near_shared_counters_open(&s, &r, "x", NULL, NULL) == 0);
	near_shared_counters_add(&s, 0, 1);
	CHECK(near_region_open_object(&r, &o) == 0);
	CHECK(near_region_populate(&r, &o, 0, o.size) == 0);
	near_region_close(&again);
	near_region_close(&r);
	CHECK(near_region_open(&r, NULL, NULL) == 0);
	near_region_close(&r);
	__atomic_store_n(&offsets[0][0], 1, __ATOMIC_RELAXED);
	pthread_testcancel();
	CHECK(false);
}

static void nothing_is_a_cancellation_point(void **state)
{
	offsets[0][0] = 0;
	team_run(1, use_while_cancelled);
	assert_int_equal(offsets[0][0], 1);
}

/* ---- namespaces ---- */

/* The first process of a new pid namespace, with a /proc of its own. */
static void use_in_namespace(void)
{
	struct near_region r;
	struct near_shared_counters s;

	CHECK(getpid() == 1);
	if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL))
		_exit(77);
	r = opened_region(NULL);
	CHECK(near_shared_counters_open(&s, &r, "other", NULL, NULL) == 0);
	CHECK(near_shared_counters_open(&s, &r, "x", NULL, NULL) == 0);
	for (unsigned i = 0; i < 1000; i++)
		near_shared_counters_add(&s, 0, 1);
	_exit(0);
}

static void enter_namespaces(void *unused)
{
	int spaces = CLONE_NEWPID | CLONE_NEWNS, status;
	pid_t child;

	if (unshare(spaces) && unshare(CLONE_NEWUSER | spaces))
		_exit(77);
	child = unit_fork_here();
	if (child == 0)
		use_in_namespace();
	CHECK(child > 0);
	status = unit_wait(child, NULL);
	CHECK(status == 0 || status == 77);
	_exit(status);
}

static void processes_in_other_namespaces_share_it(void **state)
{
	struct near_region r;
	struct near_shared_counters s;

	if (unit_emulated())
		skip();
	r = opened_region(&defaults);
	assert_int_equal(near_shared_counters_open(&s, &r, "x", NULL, NULL), 0);
	for (unsigned i = 1; i <= 2; i++) {
		unit_in_child(enter_namespaces, NULL);
		assert_int_equal(near_shared_counters_read(&s, 0), 1000 * i);
	}
	near_region_close(&r);
}

REGION_MAIN(threads_define_the_same_objects, they_make_it_while_others_remove_it,
	    nobody_waits_for_the_dead, children_do_not_inherit_the_lock,
	    nothing_is_a_cancellation_point, processes_in_other_namespaces_share_it)
