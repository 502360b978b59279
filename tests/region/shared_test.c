/* SPDX-License-Identifier: MIT */
/* near_shared_counters: counts, options, errors; then among processes: concurrent adds, resets,
 * deaths, forks, races to make the region. shared_files_test.c has damaged files and full disks. */
#include "regions.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "live.h"
#include "team.h"

/* ---- one process ---- */

static void counts_outlive_the_processes_that_add(void **state)
{
	struct near_shared_counters s = opened(path, 4), again;

	assert_int_equal(s.count, 4);
	assert_true(s.region.fd >= 0);
	assert_int_equal(fcntl(s.region.fd, F_GETFD), FD_CLOEXEC);
	errno = UNIT_ERRNO;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(near_shared_counters_read(&s, i), 0);
		near_shared_counters_add(&s, i, (int64_t)i + 1);
		near_shared_counters_add(&s, i, -100);
	}
	near_shared_counters_add(&s, 2, INT64_MAX);
	assert_int_equal(errno, UNIT_ERRNO);
	for (unsigned i = 0; i < 4; i++)
		if (i != 2)
			assert_int_equal(near_shared_counters_read(&s, i), (int64_t)i - 99);
	assert_int_equal(near_shared_counters_read(&s, 2), INT64_MAX - 97);
	close_region(&s);
	assert_int_equal(files(directory), 1);
	again = opened(path, 0);
	assert_int_equal(again.count, 4);
	assert_int_equal(near_shared_counters_read(&again, 0), -99);
	assert_int_equal(near_shared_counters_reset(&again, 0), -99);
	assert_int_equal(near_shared_counters_read(&again, 0), 0);
	assert_int_equal(near_shared_counters_reset(&again, 0), 0);
	assert_int_equal(near_shared_counters_read(&again, 3), -96);
	close_region(&again);
	again = opened(path, 4);
	assert_int_equal(near_shared_counters_read(&again, 0), 0);
	close_region(&again);
}

static void every_count_has_room(void **state)
{
	static const size_t counts[] = {1, 2, 7, 8, 9, 125, 512, 12500, 131072};
	struct near_shared_counters s;

	for (unsigned i = 0; i < LENGTH(counts); i++) {
		assert_int_equal(create_region(&s, counts[i]), 0);
		for (unsigned n = 0; unit_pin(n, NULL); n++) {
			near_shared_counters_add(&s, 0, 1);
			near_shared_counters_add(&s, counts[i] - 1, 2);
		}
		unit_unpin();
		near_shared_counters_reset(&s, 0);
		if (counts[i] > 1) {
			assert_int_equal(near_shared_counters_read(&s, 0), 0);
			assert_true(near_shared_counters_read(&s, counts[i] - 1) >= 2);
		}
		if (counts[i] > 2)
			assert_int_equal(near_shared_counters_read(&s, 1), 0);
		close_region(&s);
	}
}

static void a_region_has_several_of_them(void **state)
{
	const struct near_shared_counters_options three = {.count = 3}, four = {.count = 4};
	struct near_region r = opened_region(&defaults);
	struct near_shared_counters a, b, same;

	assert_int_equal(near_shared_counters_open(&a, &r, "hits", "code=\"200\"", &three), 0);
	assert_int_equal(near_shared_counters_open(&b, &r, "hits", "code=\"500\"", NULL), 0);
	assert_int_equal(a.count, 3);
	assert_int_equal(b.count, 1);
	near_shared_counters_add(&a, 2, 5);
	near_shared_counters_add(&b, 0, 7);
	assert_int_equal(near_shared_counters_open(&same, &r, "hits", "code=\"200\"", &four),
			 -EEXIST);
	near_shared_counters_close(&same); /* does nothing */
	assert_int_equal(near_shared_counters_open(&same, &r, "hits", "code=\"200\"", &three), 0);
	near_shared_counters_close(&a);
	assert_int_equal(near_shared_counters_read(&same, 2), 5);
	assert_int_equal(near_shared_counters_read(&b, 0), 7);
	near_shared_counters_close(&same);
	near_shared_counters_close(&b);
	near_region_close(&r);
}

/* ---- errors ---- */

static void bad_options_are_refused(void **state)
{
	static const struct {
		struct near_shared_counters_options options;
		int error;
	} table[] = {
		{{.count = 1 << 20}, ENOSPC},
		{{.count = NEAR_REGION_MAX_SIZE / 8 + 1}, E2BIG},
		{{.count = SIZE_MAX / 8 + 2}, E2BIG},
		{{.count = SIZE_MAX}, E2BIG},
		{{.reserved = {1}}, EINVAL},
		{{.reserved = {0, 0, 0, 1}}, EINVAL},
	};
	struct near_region r = opened_region(&defaults);
	struct near_region_object o;
	struct near_shared_counters s;

	for (unsigned i = 0; i < LENGTH(table); i++) {
		KEEPS_ERRNO(assert_int_equal(near_shared_counters_open(&s, &r, "hits", NULL,
								       &table[i].options),
					     -table[i].error));
		assert_non_null(near_region_error(&r));
	}
	assert_int_equal(near_shared_counters_open(&s, &r, "no name", NULL, NULL), -EINVAL);
	assert_int_equal(near_region_object(&r, 0, &o), -ENOENT);
	near_region_close(&r);
}

static void open_fd_fails(int fd, int error)
{
	struct near_shared_counters s;

	assert_int_equal(open_region_fd(&s, fd), error);
	close(fd);
}

static void what_open_returns_is_passed_on(void **state)
{
	struct near_shared_counters s;
	char file[128], long_name[5000];

	snprintf(file, sizeof(file), "%s/none/region", directory);
	assert_int_equal(open_region(&s, file, 1), -ENOENT);
	snprintf(file, sizeof(file), "%s/region/below", directory);
	open_and_close(path, 1);
	assert_int_equal(open_region(&s, file, 1), -ENOTDIR);
	assert_int_equal(open_region(&s, directory, 1), -EISDIR);
	assert_int_equal(open_region(&s, "", 1), -ENOENT);
	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(open_region(&s, long_name, 1), -ENAMETOOLONG);
	memcpy(long_name, "/tmp/", 5);
	long_name[300] = '\0';
	assert_int_equal(open_region(&s, long_name, 1), -ENAMETOOLONG);
	open_fd_fails(-1, -EBADF);
	open_fd_fails(open("/dev/null", O_RDWR), -EBADMSG);
	assert_int_equal(open_region(&s, "/dev/zero", 1), -EBADMSG);
	assert_int_equal(files(directory), 1);
}

/* A name that leaves room for itself, but not for a longer one next to it. */
static void a_long_name_is_as_good(void **state)
{
	char file[512];
	size_t used = (size_t)snprintf(file, sizeof(file), "%s/", directory);

	memset(file + used, 'n', 255);
	file[used + 255] = '\0';
	open_and_close(file, 1);
	assert_int_equal(files(directory), 1);
}

static void the_path_may_be_relative_or_a_link(void **state)
{
	struct near_shared_counters s, same;
	char before[512], link_name[128];
	struct stat st;
	mode_t mask = umask(027);

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(directory), 0);
	assert_int_equal(open_region(&s, "region", 1), 0);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_nlink, 1);
	near_shared_counters_add(&s, 0, 5);
	snprintf(link_name, sizeof(link_name), "%s/link", directory);
	assert_int_equal(symlink("region", link_name), 0);
	assert_int_equal(open_region(&same, link_name, 1), 0);
	assert_int_equal(near_shared_counters_read(&same, 0), 5);
	assert_int_equal(files(directory), 2);
	close_region(&same);
	close_region(&s);
	assert_int_equal(chdir(before), 0);
}

static void descriptors_run_out(void **state)
{
	struct near_shared_counters s = opened(path, 1), more;
	struct rlimit limit, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(open_region(&more, path, 1), -EMFILE);
	assert_int_equal(open_region_fd(&more, s.region.fd), -EMFILE);
	assert_int_equal(create_region(&more, 1), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	close_region(&s);
}

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
	struct near_shared_counters s = opened(path, 3);

	for (unsigned i = 0; i < adds; i++) {
		near_shared_counters_add(&s, 0, 1);
		near_shared_counters_add(&s, 1, number);
		near_shared_counters_add(&s, 2, i % 2 ? 5 : -5);
	}
	close_region(&s);
}

/* Nobody has made the region yet: they race for it, too. */
static void processes_add_to_one_region(void **state)
{
	unsigned rounds = unit_scale(40);
	pid_t children[PROCESSES];
	struct near_shared_counters s;

	for (unsigned k = 0; k < rounds; k++) {
		adds = k % 10 == 0 ? unit_scale(50000) : 10;
		fork_all(children, PROCESSES, add_by_name);
		wait_for_all(children, PROCESSES);
		assert_int_equal(files(directory), 1);
		s = opened(path, 0);
		assert_int_equal(near_shared_counters_read(&s, 0), PROCESSES * adds);
		assert_int_equal(near_shared_counters_read(&s, 1),
				 PROCESSES * (PROCESSES - 1) / 2 * (int64_t)adds);
		assert_int_equal(near_shared_counters_read(&s, 2), 0);
		close_region(&s);
		unlink(path);
	}
}

static void open_and_add(unsigned number)
{
	struct near_shared_counters s = opened(path, 1);

	near_shared_counters_add(&s, 0, 1);
	close_region(&s);
}

/* All of one process id. */
static void threads_race_to_make_the_region(void **state)
{
	unsigned rounds = unit_scale(200);

	for (unsigned k = 0; k < rounds; k++) {
		struct near_shared_counters s;

		team_run(8, open_and_add);
		assert_int_equal(files(directory), 1);
		s = opened(path, 1);
		assert_int_equal(near_shared_counters_read(&s, 0), 8);
		close_region(&s);
		unlink(path);
	}
}

static struct near_shared_counters region; /* that children inherit */
static struct {
	int64_t n; /* that were reset, or added */
	bool stop;
} * noted; /* in shared memory */

static int make_region(void)
{
	noted = unit_map(sizeof(*noted), MAP_SHARED);
	return counters_open(&region, 1);
}

static void destroy_region(void)
{
	close_region(&region);
	munmap(noted, sizeof(*noted));
}

static void reset_until_stop(unsigned number)
{
	while (!__atomic_load_n(&noted->stop, __ATOMIC_ACQUIRE)) {
		int64_t n = near_shared_counters_reset(&region, 0);

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
		near_shared_counters_add(&region, 0, 1);
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
	assert_int_equal(noted->n + near_shared_counters_read(&region, 0),
			 PROCESSES * (int64_t)adds);
	destroy_region();
}

static void add_until_killed(unsigned number)
{
	for (;;) {
		near_shared_counters_add(&region, 0, 1);
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
		assert_in_range(near_shared_counters_read(&region, 0), noted->n, noted->n + k);
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
static void open_received(void *arg)
{
	struct near_shared_counters s;
	struct parcel parcel;
	int fd;

	CHECK(recvmsg(*(int *)arg, prepare(&parcel), 0) == 1);
	memcpy(&fd, CMSG_DATA(&parcel.control.header), sizeof(fd));
	CHECK(open_region_fd(&s, fd) == 0);
	CHECK(s.region.fd != fd && s.count == 2);
	close(fd);
	CHECK(near_shared_counters_read(&s, 1) == 7);
	near_shared_counters_add(&s, 1, 3);
	close_region(&s);
}

static void a_descriptor_can_be_passed_on(void **state)
{
	struct parcel parcel = {.byte = 'x'};
	struct near_shared_counters s;
	int ends[2];
	pid_t child;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	child = unit_fork(open_received, &ends[1]);
	assert_int_equal(create_region(&s, 2), 0);
	near_shared_counters_add(&s, 1, 7);
	prepare(&parcel);
	memcpy(CMSG_DATA(&parcel.control.header), &s.region.fd, sizeof(int));
	assert_int_equal(sendmsg(ends[0], &parcel.message, 0), 1);
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(near_shared_counters_read(&s, 1), 10);
	close_region(&s);
	close(ends[0]);
	close(ends[1]);
}

REGION_MAIN(counts_outlive_the_processes_that_add, every_count_has_room,
	    a_region_has_several_of_them, bad_options_are_refused, what_open_returns_is_passed_on,
	    a_long_name_is_as_good, the_path_may_be_relative_or_a_link, descriptors_run_out,
	    processes_add_to_one_region, threads_race_to_make_the_region,
	    resets_of_one_process_lose_no_add_of_another, a_killed_process_loses_nothing,
	    a_descriptor_can_be_passed_on)
