/* SPDX-License-Identifier: MIT */
/* near_shared in one process: counts, sizes, errors. shared_more_test.c has damaged files, full
 * disks and several processes. */
#include "regions.h"

#include <fcntl.h>
#include <sys/stat.h>

/* ---- one process ---- */

static void counts_outlive_the_processes_that_add(void **state)
{
	struct near_shared s = opened(path, 4 * sizeof(int64_t)), again;

	assert_int_equal(s.size, 4 * sizeof(int64_t));
	assert_true(s.fd >= 0);
	assert_int_equal(fcntl(s.fd, F_GETFD), FD_CLOEXEC);
	errno = UNIT_ERRNO;
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(near_shared_read(&s, i * 8), 0);
		near_shared_add(&s, i * 8, (int64_t)i + 1);
		near_shared_add(&s, i * 8, -100);
	}
	near_shared_add(&s, 16, INT64_MAX);
	assert_int_equal(errno, UNIT_ERRNO);
	for (unsigned i = 0; i < 4; i++)
		if (i != 2)
			assert_int_equal(near_shared_read(&s, i * 8), (int64_t)i - 99);
	assert_int_equal(near_shared_read(&s, 16), INT64_MAX - 97);
	close_region(&s);
	assert_int_equal(files(directory), 1);
	again = opened(path, 0);
	assert_int_equal(again.size, 4 * sizeof(int64_t));
	assert_int_equal(near_shared_read(&again, 0), -99);
	assert_int_equal(near_shared_reset(&again, 0), -99);
	assert_int_equal(near_shared_read(&again, 0), 0);
	assert_int_equal(near_shared_reset(&again, 0), 0);
	assert_int_equal(near_shared_read(&again, 24), -96);
	close_region(&again);
	again = opened(path, 4 * sizeof(int64_t));
	assert_int_equal(near_shared_read(&again, 0), 0);
	close_region(&again);
}

static void every_size_has_room(void **state)
{
	static const size_t sizes[] = {8, 16, 56, 64, 72, 1000, 4096, 100000, NEAR_SHARED_MAX_SIZE};
	struct near_shared s;

	for (unsigned i = 0; i < LENGTH(sizes); i++) {
		assert_int_equal(create_region(&s, sizes[i]), 0);
		for (unsigned n = 0; unit_pin(n, NULL); n++) {
			near_shared_add(&s, 0, 1);
			near_shared_add(&s, sizes[i] - 8, 2);
		}
		unit_unpin();
		near_shared_reset(&s, 0);
		if (sizes[i] > 8) {
			assert_int_equal(near_shared_read(&s, 0), 0);
			assert_true(near_shared_read(&s, sizes[i] - 8) >= 2);
		}
		if (sizes[i] > 16)
			assert_int_equal(near_shared_read(&s, 8), 0);
		close_region(&s);
	}
}

/* ---- errors ---- */

static void bad_sizes_are_refused(void **state)
{
	static const struct {
		size_t size;
		int error;
	} table[] = {
		{1, EINVAL},           {7, EINVAL},
		{12, EINVAL},          {NEAR_SHARED_MAX_SIZE + 8, E2BIG},
		{SIZE_MAX - 7, E2BIG}, {SIZE_MAX, EINVAL},
	};
	struct near_shared s;

	for (unsigned i = 0; i < LENGTH(table); i++) {
		assert_int_equal(open_region(&s, path, table[i].size), -table[i].error);
		assert_int_equal(create_region(&s, table[i].size), -table[i].error);
		assert_int_equal(files(directory), 0);
	}
	assert_int_equal(near_shared_create(&s, 0), -EINVAL);
	assert_int_equal(open_region(&s, path, 0), -ENOENT);
	open_and_close(path, 16);
	assert_int_equal(open_region(&s, path, 24), -EINVAL);
	assert_int_equal(open_region(&s, path, 12), -EINVAL);
	assert_int_equal(open_region(&s, path, NEAR_SHARED_MAX_SIZE * 2), -EINVAL);
	open_and_close(path, 16);
}

static void attach_fails(int fd, int error)
{
	struct near_shared s;

	assert_int_equal(near_shared_attach(&s, fd), error);
	close(fd);
}

static void what_open_says_is_passed_on(void **state)
{
	struct near_shared s;
	char file[128], long_name[5000];

	snprintf(file, sizeof(file), "%s/none/region", directory);
	assert_int_equal(open_region(&s, file, 8), -ENOENT);
	snprintf(file, sizeof(file), "%s/region/below", directory);
	open_and_close(path, 8);
	assert_int_equal(open_region(&s, file, 8), -ENOTDIR);
	assert_int_equal(open_region(&s, directory, 8), -EISDIR);
	assert_int_equal(open_region(&s, "", 8), -ENOENT);
	memset(long_name, 'x', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(open_region(&s, long_name, 8), -ENAMETOOLONG);
	memcpy(long_name, "/tmp/", 5);
	long_name[300] = '\0';
	assert_int_equal(open_region(&s, long_name, 8), -ENAMETOOLONG);
	attach_fails(-1, -EBADF);
	attach_fails(open(path, O_RDONLY), -EACCES);
	attach_fails(open("/dev/null", O_RDWR), -EBADMSG);
	assert_int_equal(open_region(&s, "/dev/zero", 8), -EBADMSG);
	assert_int_equal(files(directory), 1);
}

/* A name that leaves room for itself, but not for a longer one next to it. */
static void a_long_name_is_as_good(void **state)
{
	char file[512];
	size_t used = (size_t)snprintf(file, sizeof(file), "%s/", directory);

	memset(file + used, 'n', 255);
	file[used + 255] = '\0';
	open_and_close(file, 8);
	assert_int_equal(files(directory), 1);
}

static void the_path_may_be_relative_or_a_link(void **state)
{
	struct near_shared s, same;
	char before[512], link_name[128];
	struct stat st;
	mode_t mask = umask(027);

	assert_non_null(getcwd(before, sizeof(before)));
	assert_int_equal(chdir(directory), 0);
	assert_int_equal(open_region(&s, "region", 8), 0);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_nlink, 1);
	near_shared_add(&s, 0, 5);
	snprintf(link_name, sizeof(link_name), "%s/link", directory);
	assert_int_equal(symlink("region", link_name), 0);
	assert_int_equal(open_region(&same, link_name, 8), 0);
	assert_int_equal(near_shared_read(&same, 0), 5);
	assert_int_equal(files(directory), 2);
	close_region(&same);
	close_region(&s);
	assert_int_equal(chdir(before), 0);
}

static void descriptors_run_out(void **state)
{
	struct near_shared s = opened(path, 8), more;
	struct rlimit limit, none;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(open_region(&more, path, 8), -EMFILE);
	assert_int_equal(near_shared_attach(&more, s.fd), -EMFILE);
	assert_int_equal(near_shared_create(&more, 8), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	close_region(&s);
}

REGION_MAIN(counts_outlive_the_processes_that_add, every_size_has_room, bad_sizes_are_refused,
	    what_open_says_is_passed_on, a_long_name_is_as_good, the_path_may_be_relative_or_a_link,
	    descriptors_run_out)
