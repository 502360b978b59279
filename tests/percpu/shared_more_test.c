/* SPDX-License-Identifier: MIT */
/* near_shared among processes: concurrent adds, resets, deaths, forks, races to make the region. */
#include "regions.h"

#include <sys/socket.h>

#include "live.h"
#include "team.h"

/* ---- several processes ---- */

#define PROCESSES 6

static unsigned adds;

/* Children that run this function, each with its number. */
static void fork_all(pid_t *children, unsigned n, void (*run)(unsigned number))
{
	for (unsigned i = 0; i < n; i++) {
		children[i] = unit_fork_here();
		if (children[i] == 0) {
			run(i);
			_exit(0);
		}
	}
}

static void wait_for_all(const pid_t *children, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(unit_wait(children[i], NULL), 0);
}

static void add_by_name(unsigned number)
{
	struct near_shared s = opened(path, 3 * 8);

	for (unsigned i = 0; i < adds; i++) {
		near_shared_add(&s, 0, 1);
		near_shared_add(&s, 8, number);
		near_shared_add(&s, 16, i % 2 ? 5 : -5);
	}
	close_region(&s);
}

/* Nobody has made the region yet: they race for it, too. */
static void processes_add_to_one_region(void **state)
{
	unsigned rounds = unit_scale(40);
	pid_t children[PROCESSES];
	struct near_shared s;

	for (unsigned k = 0; k < rounds; k++) {
		adds = k % 10 == 0 ? unit_scale(50000) : 10;
		fork_all(children, PROCESSES, add_by_name);
		wait_for_all(children, PROCESSES);
		assert_int_equal(files(directory), 1);
		s = opened(path, 0);
		assert_int_equal(near_shared_read(&s, 0), PROCESSES * adds);
		assert_int_equal(near_shared_read(&s, 8),
				 PROCESSES * (PROCESSES - 1) / 2 * (int64_t)adds);
		assert_int_equal(near_shared_read(&s, 16), 0);
		close_region(&s);
		unlink(path);
	}
}

static void open_and_add(unsigned number)
{
	struct near_shared s = opened(path, 8);

	near_shared_add(&s, 0, 1);
	close_region(&s);
}

/* All of one process id. */
static void threads_race_to_make_the_region(void **state)
{
	unsigned rounds = unit_scale(200);

	for (unsigned k = 0; k < rounds; k++) {
		struct near_shared s;

		team_run(8, open_and_add);
		assert_int_equal(files(directory), 1);
		s = opened(path, 8);
		assert_int_equal(near_shared_read(&s, 0), 8);
		close_region(&s);
		unlink(path);
	}
}

static struct near_shared region; /* that children inherit */
static struct {
	int64_t n; /* that were reset, or added */
	bool stop;
} * noted; /* in shared memory */

static int make_region(void)
{
	noted = unit_map(sizeof(*noted), MAP_SHARED);
	return near_shared_create(&region, 8);
}

static void destroy_region(void)
{
	close_region(&region);
	munmap(noted, sizeof(*noted));
}

static void reset_until_stop(unsigned number)
{
	while (!__atomic_load_n(&noted->stop, __ATOMIC_ACQUIRE)) {
		int64_t n = near_shared_reset(&region, 0);

		CHECK(n >= 0);
		__atomic_add_fetch(&noted->n, n, __ATOMIC_RELAXED);
		sched_yield();
	}
}

/* The child of a fork goes on with the same region; so does one without rseq. */
static void add_inherited(unsigned number)
{
	if (number % 3 == 0)
		play_dead();
	for (unsigned i = 0; i < adds; i++)
		near_shared_add(&region, 0, 1);
}

static void resets_of_one_process_lose_no_add_of_another(void **state)
{
	pid_t adders[PROCESSES], resetters[2];

	assert_int_equal(make_region(), 0);
	adds = unit_scale(100000);
	fork_all(resetters, LENGTH(resetters), reset_until_stop);
	fork_all(adders, PROCESSES, add_inherited);
	wait_for_all(adders, PROCESSES);
	__atomic_store_n(&noted->stop, true, __ATOMIC_RELEASE);
	wait_for_all(resetters, LENGTH(resetters));
	assert_int_equal(noted->n + near_shared_read(&region, 0), PROCESSES * (int64_t)adds);
	destroy_region();
}

static void add_until_killed(unsigned number)
{
	for (;;) {
		near_shared_add(&region, 0, 1);
		/* Recorded after the add: at most one of them is not yet recorded. */
		__atomic_add_fetch(&noted->n, 1, __ATOMIC_RELAXED);
	}
}

static void a_killed_process_loses_nothing(void **state)
{
	unsigned rounds = unit_scale(50);

	assert_int_equal(make_region(), 0);
	for (unsigned k = 1; k <= rounds; k++) {
		int signal = 0;
		pid_t child;

		fork_all(&child, 1, add_until_killed);
		while (__atomic_load_n(&noted->n, __ATOMIC_RELAXED) < 10 * k)
			usleep(100);
		usleep(k * 10);
		kill(child, SIGKILL);
		assert_int_equal(unit_wait(child, &signal), -1);
		assert_int_equal(signal, SIGKILL);
		assert_in_range(near_shared_read(&region, 0), noted->n, noted->n + k);
	}
	destroy_region();
}

/* One byte and a descriptor, as sendmsg and recvmsg pass them. */
struct parcel {
	char byte;
	struct iovec data;
	struct msghdr message;
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
};

static struct msghdr *prepare(struct parcel *p)
{
	p->control.header = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
					     .cmsg_level = SOL_SOCKET,
					     .cmsg_type = SCM_RIGHTS};
	p->data = (struct iovec){&p->byte, 1};
	p->message = (struct msghdr){.msg_iov = &p->data,
				     .msg_iovlen = 1,
				     .msg_control = &p->control,
				     .msg_controllen = sizeof(p->control.room)};
	return &p->message;
}

/* By a socket to a process that shares nothing else. */
static void attach_received(void *arg)
{
	struct near_shared s;
	struct parcel parcel;
	int fd;

	CHECK(recvmsg(*(int *)arg, prepare(&parcel), 0) == 1);
	memcpy(&fd, CMSG_DATA(&parcel.control.header), sizeof(fd));
	CHECK(near_shared_attach(&s, fd) == 0);
	CHECK(s.fd != fd && s.size == 16);
	close(fd);
	CHECK(near_shared_read(&s, 8) == 7);
	near_shared_add(&s, 8, 3);
	close_region(&s);
}

static void a_descriptor_can_be_passed_on(void **state)
{
	struct parcel parcel = {.byte = 'x'};
	struct near_shared s;
	int ends[2];
	pid_t child;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	child = unit_fork(attach_received, &ends[1]);
	assert_int_equal(near_shared_create(&s, 16), 0);
	near_shared_add(&s, 8, 7);
	prepare(&parcel);
	memcpy(CMSG_DATA(&parcel.control.header), &s.fd, sizeof(int));
	assert_int_equal(sendmsg(ends[0], &parcel.message, 0), 1);
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(near_shared_read(&s, 8), 10);
	close_region(&s);
	close(ends[0]);
	close(ends[1]);
}

REGION_MAIN(processes_add_to_one_region, threads_race_to_make_the_region,
	    resets_of_one_process_lose_no_add_of_another, a_killed_process_loses_nothing,
	    a_descriptor_can_be_passed_on)
