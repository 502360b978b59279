/* SPDX-License-Identifier: MIT */
/* near_shared_ids: seats. There is none left; its descriptor is closed; pid namespaces. */
#include "few_ids.h"

#include "aborts.h"

#include <fcntl.h>

static void take_one(void *unused)
{
	CHECK(shared_acquire(&ids, &w[0]) >= 0);
}

/* After a search the next process may take it. */
static void a_dead_seat_is_free_again(void **state)
{
	struct near_region same = opened_region(NULL);
	struct near_shared_ids next;

	assert_int_equal(shared_open(&ids, &region, NAME, &few), 0);
	for (unsigned i = 0; i < 3; i++) {
		shared_kill(shared_start(take_one, NULL));
		assert_int_equal(__builtin_popcountll(shared_all(&ids)), 1);
		assert_int_equal(shared_stats(&ids).taken, 1);
		assert_int_equal(shared_open(&next, &same, NAME, NULL), 0);
		near_shared_ids_close(&next);
	}
	near_shared_ids_close(&ids);
	near_region_close(&same);
}

static void each_seat_is_taken(void **state)
{
	const char *why = "each seat has a process that lives; make the space with more seats";
	struct near_shared_ids one, two;
	struct near_region same = opened_region(NULL);

	assert_int_equal(shared_open(&one, &region, NAME, &few), 0);
	assert_int_equal(shared_open(&two, &same, NAME, NULL), 0);
	assert_int_equal(shared_open(&ids, &region, NAME, NULL), -EUSERS);
	assert_string_equal(near_shared_ids_error(&ids), why);
	near_shared_ids_close(&ids); /* of one that is not open: nothing */
	/* In a child it is the first acquire that needs a seat. */
	IN_CHILD() {
		CHECK(shared_acquire(&one, &w[0]) == -EUSERS);
		CHECK(strcmp(near_shared_ids_error(&one), why) == 0);
	}
	near_shared_ids_close(&two);
	IN_CHILD() {
		CHECK(shared_acquire(&one, &w[0]) == 0);
	}
	assert_int_equal(shared_open(&two, &same, NAME, NULL), 0);
	assert_int_equal(shared_all(&two), 1);
	near_shared_ids_close(&two);
	near_shared_ids_close(&one);
	near_region_close(&same);
}

/* ---- descriptors ---- */

static void open_here(void)
{
	CHECK(shared_open(&ids, &region, NAME, &few) == 0);
}

static void use_all_ids(void)
{
	for (unsigned i = 0; i < 5; i++)
		near_shared_ids_acquire(&ids, &w[i]);
}

static void close_and_search(void *unused)
{
	open_here();
	for (int fd = 3; fd < 100; fd++)
		close(fd);
	use_all_ids();
}

static void close_and_leave(void *unused)
{
	open_here();
	close(ids.fd);
	near_shared_ids_close(&ids);
}

static void another_file(void *unused)
{
	open_here();
	CHECK(dup2(open("/dev/null", O_RDWR), ids.fd) == ids.fd);
	use_all_ids();
}

/* The same file again, but another process has found the seat without its lock. */
static void another_description(void *unused)
{
	struct near_shared_ids next;
	struct near_worker theirs = {0};

	open_here();
	CHECK(near_shared_ids_acquire(&ids, &w[0]) == 0);
	CHECK(dup2(region.fd, ids.fd) == ids.fd);
	CHECK(shared_open(&next, &region, NAME, NULL) == 0);
	CHECK(near_shared_ids_acquire(&next, &theirs) == 0);
	near_shared_ids_close(&ids);
}

static void a_closed_descriptor_stops_the_program(void **state)
{
	const char *line =
		"near_shared_ids: the program has closed the descriptor that has its seat";

	unit_dies(close_and_search, NULL, line);
	unit_dies(close_and_leave, NULL, line);
	unit_dies(another_file, NULL, line);
	unit_dies(another_description, NULL, line);
	open_here();
	shared_all(&ids);
	assert_int_equal(shared_all(&ids), 0);
	near_shared_ids_close(&ids);
}

/* A handler may fork: the lock of the seats is not held. */
static void use_nothing(void)
{
}

static void close_and_fork(void *unused)
{
	abort_begin(use_nothing);
	close_and_search(unused);
}

static void leave_and_fork(void *unused)
{
	abort_begin(use_nothing);
	close_and_leave(unused);
}

static void after_which_a_handler_may_fork(void **state)
{
	char text[200];

	assert_int_equal(unit_capture(close_and_fork, NULL, text, sizeof(text), NULL),
			 ABORT_HANDLED);
	assert_int_equal(unit_capture(leave_and_fork, NULL, text, sizeof(text), NULL),
			 ABORT_HANDLED);
}

/* The fork handler closes no file of the program. */
static void a_child_keeps_other_files(void **state)
{
	int null = open("/dev/null", O_RDWR);

	assert_int_equal(shared_open(&ids, &region, NAME, &few), 0);
	IN_CHILD() {
		int number = ids.fd;

		CHECK(fcntl(number, F_GETFD) < 0);
		CHECK(shared_acquire(&ids, &w[0]) == 0);
		CHECK(dup2(null, ids.fd) == ids.fd);
		number = ids.fd;
		if (fork() == 0)
			_exit(fcntl(number, F_GETFD) < 0);
		CHECK(unit_wait(-1, NULL) == 0);
	}
	close(null);
	near_shared_ids_close(&ids);
}

/* ---- pid namespaces ---- */

/* In a namespace of its own, where it has number 1. */
static void be_killed_elsewhere(int end)
{
	CHECK(getpid() == 1);
	CHECK(shared_acquire(&ids, &w[1]) == 1);
	CHECK(write(end, "", 1) == 1);
	for (;;)
		pause();
}

static void seats_need_no_pid(void **state)
{
	int ends[2];
	char byte;

	assert_int_equal(pipe(ends), 0);
	IN_CHILD() {
		pid_t child;

		open_here();
		CHECK(shared_acquire(&ids, &w[2]) == 0);
		if (unshare(CLONE_NEWPID))
			_exit(77);
		child = fork();
		if (child == 0)
			be_killed_elsewhere(ends[1]);
		CHECK(read(ends[0], &byte, 1) == 1);
		CHECK(shared_stats(&ids).used == 2);
		shared_kill(child);
		shared_release(&ids, &w[2]);
		CHECK(shared_all(&ids) == 2);
	}
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	struct unit_fixtures f = {set_up, make_region, remove_region, tear_down};

	return UNIT_TESTS_IN(f, a_dead_seat_is_free_again, each_seat_is_taken,
			     a_closed_descriptor_stops_the_program, after_which_a_handler_may_fork,
			     a_child_keeps_other_files, seats_need_no_pid);
}
