/* SPDX-License-Identifier: MIT */
/* near_shared among processes: concurrent adds, resets, deaths, forks, races to make the region. */
#include "regions.h"

#include <sys/socket.h>

#include "live.h"
#include "team.h"

/* ---- several processes ---- */

#define PROCESSES 6

static unsigned adds;

static void add_by_name(void *arg)
{
	unsigned number = *(unsigned *)arg;
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
	unsigned numbers[PROCESSES], rounds = unit_scale(40);
	pid_t children[PROCESSES];
	struct near_shared s;

	for (unsigned k = 0; k < rounds; k++) {
		adds = k % 10 == 0 ? unit_scale(50000) : 10;
		for (unsigned i = 0; i < PROCESSES; i++) {
			numbers[i] = i;
			children[i] = unit_fork(add_by_name, &numbers[i]);
		}
		for (unsigned i = 0; i < PROCESSES; i++)
			assert_int_equal(unit_wait(children[i], NULL), 0);
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

struct shares {
	struct near_shared region;
	int64_t *taken; /* by resets, in shared memory */
	bool *stop;
};

static void reset_until_stop(void *arg)
{
	struct shares *sh = arg;

	while (!__atomic_load_n(sh->stop, __ATOMIC_ACQUIRE)) {
		int64_t n = near_shared_reset(&sh->region, 0);

		CHECK(n >= 0);
		__atomic_add_fetch(sh->taken, n, __ATOMIC_RELAXED);
		sched_yield();
	}
}

static void add_inherited(void *arg)
{
	struct shares *sh = arg;

	for (unsigned i = 0; i < adds; i++)
		near_shared_add(&sh->region, 0, 1);
}

/* The child of a fork goes on with the same region; so does one without rseq. */
static void add_inherited_without_rseq(void *arg)
{
	play_dead();
	add_inherited(arg);
}

static void resets_of_one_process_lose_no_add_of_another(void **state)
{
	int64_t *page = unit_map(4096, MAP_SHARED);
	struct shares sh = {.taken = page, .stop = (bool *)(page + 1)};
	pid_t adders[PROCESSES], resetters[2];

	assert_int_equal(near_shared_create(&sh.region, 8), 0);
	adds = unit_scale(100000);
	for (unsigned i = 0; i < LENGTH(resetters); i++)
		resetters[i] = unit_fork(reset_until_stop, &sh);
	for (unsigned i = 0; i < PROCESSES; i++)
		adders[i] = unit_fork(i % 3 ? add_inherited : add_inherited_without_rseq, &sh);
	for (unsigned i = 0; i < PROCESSES; i++)
		assert_int_equal(unit_wait(adders[i], NULL), 0);
	__atomic_store_n(sh.stop, true, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < LENGTH(resetters); i++)
		assert_int_equal(unit_wait(resetters[i], NULL), 0);
	assert_int_equal(*sh.taken + near_shared_read(&sh.region, 0), PROCESSES * (int64_t)adds);
	close_region(&sh.region);
	munmap(page, 4096);
}

static void add_until_killed(void *arg)
{
	struct shares *sh = arg;

	for (;;) {
		near_shared_add(&sh->region, 0, 1);
		/* Recorded after the add: at most one of them is not yet recorded. */
		__atomic_add_fetch(sh->taken, 1, __ATOMIC_RELAXED);
	}
}

static void a_killed_process_loses_nothing(void **state)
{
	int64_t *page = unit_map(4096, MAP_SHARED);
	struct shares sh = {.taken = page};
	unsigned rounds = unit_scale(50);

	assert_int_equal(near_shared_create(&sh.region, 8), 0);
	for (unsigned k = 1; k <= rounds; k++) {
		pid_t child = unit_fork(add_until_killed, &sh);
		int signal = 0;

		while (__atomic_load_n(page, __ATOMIC_RELAXED) < 10 * k)
			usleep(100);
		usleep(k * 10);
		kill(child, SIGKILL);
		assert_int_equal(unit_wait(child, &signal), -1);
		assert_int_equal(signal, SIGKILL);
		assert_in_range(near_shared_read(&sh.region, 0), *page, *page + k);
	}
	close_region(&sh.region);
	munmap(page, 4096);
}

/* One byte and a descriptor, as sendmsg and recvmsg pass them. */
struct parcel {
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec data;
	struct msghdr message;
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
