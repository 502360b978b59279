/* SPDX-License-Identifier: MIT */
/* Regions of near_shared_counters and files: damaged and unrelated ones, a full disk, limits,
 * signals while it is made. */
#include "region/region.h"
#include "regions.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "filter.h"

/* ---- files that are something else ---- */

#define COUNT 8
#define SIZE (COUNT * 8)
#define MANY (1u << 17) /* counters: a MiB */

static size_t read_file(const char *file, char *content, size_t room)
{
	int fd = open(file, O_RDONLY);
	ssize_t n = read(fd, content, room);

	assert_true(fd >= 0 && n >= 0 && (size_t)n < room);
	close(fd);
	return (size_t)n;
}

static void write_file(const char *file, const char *content, size_t size)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, content, size), size);
	close(fd);
}

/* Refuses `content` with `error`, by name and by descriptor, and leaves it as it is. */
static void check_refused(const char *content, size_t size, int error)
{
	static char after[1 << 20];
	struct near_shared_counters s;
	int fd;

	write_file(path, content, size);
	assert_int_equal(open_region(&s, path, COUNT), -error);
	assert_int_equal(open_region(&s, path, 0), -error);
	fd = open(path, O_RDWR);
	KEEPS_ERRNO(assert_int_equal(open_region_fd(&s, fd), -error));
	close(fd);
	assert_int_equal(read_file(path, after, sizeof(after)), size);
	assert_memory_equal(after, content, size);
	assert_int_equal(files(directory), 1);
	unlink(path);
}

static size_t good_region(char *content, size_t room)
{
	struct near_shared_counters s = opened(path, COUNT);
	size_t size;

	near_shared_counters_add(&s, 0, 1);
	close_region(&s);
	size = read_file(path, content, room);
	unlink(path);
	return size;
}

static void unrelated_files_are_refused_and_left_alone(void **state)
{
	static char text[100000];

	check_refused("", 0, EBADMSG);
	check_refused("hello", 5, EBADMSG);
	check_refused(text, sizeof(text), EBADMSG);
	memset(text, 'x', sizeof(text));
	check_refused(text, sizeof(text), EBADMSG);
}

static void damaged_regions_are_refused_and_left_alone(void **state)
{
	static char good[1 << 20], bad[1 << 20];
	size_t size = good_region(good, sizeof(good));
	/* By 8 bytes: magic, (version, cpus), size, stride, total, (objects, pad). */
	const uint64_t cpus = near_cpus();
	const struct {
		unsigned word;
		uint64_t value;
		int error;
	} damage[] = {
		{0, 0, EBADMSG},
		{1, cpus << 32, EPROTO},
		{1, cpus << 32 | 2, EPROTO},
		{1, 1, EXDEV},
		{1, (cpus + 1) << 32 | 1, EXDEV},
		{2, 0, EBADMSG},
		{2, 12, EBADMSG},
		{2, SIZE * 4, EBADMSG},
		{2, UINT64_MAX, EBADMSG},
		{2, UINT64_MAX - 7, EBADMSG},
		{3, 0, EBADMSG},
		{3, 64, EBADMSG},
		{4, 0, EBADMSG},
		{4, 1 << 30, EBADMSG},
		{5, 0, EBADMSG},
		{5, 0xffffffff, EBADMSG},
	};

	for (size_t cut = 0; cut < size; cut += cut < 64 ? 1 : 977)
		check_refused(good, cut, EBADMSG);
	for (unsigned i = 0; i < LENGTH(damage); i++) {
		memcpy(bad, good, size);
		memcpy(bad + damage[i].word * 8, &damage[i].value, 8);
		check_refused(bad, size, damage[i].error);
	}
}

/* An open slot for threads that are not live would let them write without protection, and one that
 * is elsewhere would let all write what is no copy. */
static void wrong_slots_are_refused(void **state)
{
	static char content[1 << 20];
	size_t size = good_region(content, sizeof(content));
	struct near_shared_counters s;
	uint64_t *slots, *nobody, copy;

	assert_int_equal(create_region(&s, COUNT), 0);
	slots = (uint64_t *)(content + ((char *)s.region.slots - (char *)s.region.header));
	copy = (uint64_t)(s.region.copies - s.region.base);
	nobody = &slots[near_cpus()];
	assert_in_range((char *)nobody - content, REGION_DIRECTORY, size);
	*nobody = copy + near_cpus() * s.region.stride;
	check_refused(content, size, EBADMSG);
	*nobody = 0;
	for (unsigned i = 0; i < 3; i++) {
		slots[0] = copy + (const uint64_t[]){8, UINT64_MAX, s.region.stride}[i];
		check_refused(content, size, EBADMSG);
	}
	close_region(&s);
}

/* Any bytes in the header: an error or a region that works. */
static void random_headers_do_no_harm(void **state)
{
	static char good[1 << 20], bad[1 << 20];
	size_t size = good_region(good, sizeof(good));
	unsigned rounds = unit_scale(2000), opened = 0;
	uint64_t seed = 6;

	for (unsigned i = 0; i < rounds; i++) {
		struct near_shared_counters s;
		int r;

		memcpy(bad, good, size);
		for (unsigned n = 1 + unit_random(&seed) % 3; n; n--)
			bad[8 + unit_random(&seed) % 56] ^= (char)(1 << unit_random(&seed) % 8);
		write_file(path, bad, size);
		r = open_region(&s, path, 0);
		if (r == 0) {
			opened++;
			near_shared_counters_add(&s, 0, 1);
			near_shared_counters_read(&s, COUNT - 1);
			close_region(&s);
		} else {
			assert_true(r == -EBADMSG || r == -EXDEV || r == -EPROTO);
		}
		unlink(path);
	}
	assert_true(opened < rounds);
}

/* ---- a full disk ---- */

static char mounted[64];

static void write_line(const char *file, const char *line)
{
	int fd = open(file, O_WRONLY);

	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		_exit(77);
	close(fd);
}

/* Without a name in its namespace of users a process makes no files there. */
static int enter_user_namespace(void)
{
	unsigned user = geteuid(), group = getegid();
	char line[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return -1;
	write_line("/proc/self/setgroups", "deny");
	snprintf(line, sizeof(line), "0 %u 1", user);
	write_line("/proc/self/uid_map", line);
	snprintf(line, sizeof(line), "0 %u 1", group);
	write_line("/proc/self/gid_map", line);
	return 0;
}

static void fill_disk(const char *file)
{
	static const char block[4096];
	int fd = open(file, O_WRONLY | O_CREAT | O_EXCL, 0600);

	CHECK(fd >= 0);
	while (write(fd, block, sizeof(block)) > 0)
		;
	CHECK(errno == ENOSPC);
	close(fd);
}

static int64_t add_on_each_cpu(struct near_shared_counters *s)
{
	unsigned n = 0;

	for (; unit_pin(n, NULL); n++)
		near_shared_counters_add(s, 6249, 1);
	unit_unpin();
	return n;
}

/* The copies of CPUs that find no room are missing, not their adds; a process that opens it later
 * tries again. */
static void add_on_a_full_disk(struct near_shared_counters *s)
{
	char file[128];
	struct near_shared_counters again;
	int64_t n;

	snprintf(file, sizeof(file), "%s/rest", mounted);
	fill_disk(file);
	n = add_on_each_cpu(s);
	n += add_on_each_cpu(s);
	CHECK(near_shared_counters_read(s, 6249) == n);
	unlink(file);
	CHECK(open_region_fd(&again, s->region.fd) == 0);
	n += add_on_each_cpu(&again);
	CHECK(near_shared_counters_read(s, 6249) == n);
	CHECK(near_shared_counters_reset(&again, 6249) == n);
	CHECK(near_shared_counters_read(s, 6249) == 0);
	close_region(&again);
}

/* No object without its blocks; a snapshot needs none. */
static void define_on_a_full_disk(const char *file)
{
	uint32_t sparse = NEAR_REGION_COMMON | NEAR_REGION_SPARSE;
	struct near_region_object a = {.name = "a", .kind = 256, .flags = NEAR_REGION_COMMON},
				  b = {.name = "b", .kind = 256, .flags = sparse}, found;
	const struct near_region_options options = {
		.flags = NEAR_CREATE, .size = 8, .common_size = 1 << 20};
	size_t page = (size_t)sysconf(_SC_PAGESIZE); /* the first may have blocks by a neighbour */
	struct near_region r, view;
	char rest[128];
	int fd;

	a.size = b.size = 4 * page;
	CHECK(near_region_open(&r, file, &options) == 0);
	snprintf(rest, sizeof(rest), "%s/rest", mounted);
	fill_disk(rest);
	CHECK(near_region_open_object(&r, &a) == -ENOSPC);
	CHECK(near_region_open_object(&r, &b) == 0);
	CHECK(near_region_populate(&r, &b, page, 2 * page) == -ENOSPC);
	fd = open(file, O_RDONLY);
	CHECK(near_region_open_fd(&view, fd) == 0);
	CHECK(near_region_populate(&view, &b, page, 2 * page) == 0);
	CHECK(*near_region_common(&view, b.offset + page) == 0);
	near_region_close(&view);
	unlink(rest);
	CHECK(near_region_open_object(&r, &a) == 0);
	CHECK(near_region_populate(&r, &b, page, 2 * page) == 0);
	*near_region_common(&r, b.offset + page) = 1;
	CHECK(near_region_object(&r, 1, &found) == 0 && near_region_object(&r, 2, &found) != 0);
	near_region_close(&r);
	close(fd);
}

static void fill_small_disk(void *unused)
{
	size_t least = (size_t)16 * (size_t)sysconf(_SC_PAGESIZE); /* files take whole pages */
	struct near_shared_counters s, other;
	char file[128], size[32];

	snprintf(size, sizeof(size), "size=%zu", least > 262144 ? least : 262144);
	if ((unshare(CLONE_NEWNS) && enter_user_namespace()) ||
	    mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", mounted, "tmpfs", 0, size))
		_exit(77);
	snprintf(file, sizeof(file), "%s/region", mounted);
	CHECK(open_region(&s, file, MANY) == -ENOSPC);
	CHECK(files(mounted) == 0);
	CHECK(open_region(&s, file, 1) == 0); /* a small one has room */
	near_shared_counters_add(&s, 0, 1);
	CHECK(near_shared_counters_read(&s, 0) == 1);
	snprintf(file, sizeof(file), "%s/other", mounted);
	CHECK(open_region(&other, file, 62500) == -ENOSPC);
	CHECK(files(mounted) == 1);
	near_shared_counters_add(&s, 0, 1);
	CHECK(near_shared_counters_read(&s, 0) == 2);
	close_region(&s);
	CHECK(open_region(&other, file, 6250) == 0);
	add_on_a_full_disk(&other);
	close_region(&other);
	unlink(file);
	define_on_a_full_disk(file);
}

static void a_full_disk_is_reported_and_nothing_left(void **state)
{
	snprintf(mounted, sizeof(mounted), "%s/mnt", directory);
	assert_int_equal(mkdir(mounted, 0700), 0);
	unit_in_child(fill_small_disk, NULL); /* skips where mounting is not allowed */
}

UNIT_CHILD(a_limit_of_file_sizes_is_reported, unit_emulated())
{
	struct rlimit limit = {65536, 65536};
	struct near_shared_counters s;

	signal(SIGXFSZ, SIG_IGN);
	CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	CHECK(open_region(&s, path, MANY) == -EFBIG);
	CHECK(files(directory) == 0);
	CHECK(create_region(&s, MANY) == -EFBIG);
}

static void do_nothing(int signal)
{
}

static void signals_do_not_keep_it_from_being_made(void **state)
{
	unit_timer(200, do_nothing);
	for (unsigned i = 0; i < unit_scale(40); i++) {
		struct near_shared_counters s;

		CHECK(create_region(&s, i % 2 ? 50000 : MANY) == 0);
		close_region(&s);
	}
	unit_timer(0, NULL);
}

/* Where a file system has no files without a name, or there is no /proc. */
static void make_with_a_name(void *unused)
{
	struct near_shared_counters s;

	if (!filter_out(SYS_linkat, ENOENT))
		_exit(77);
	s = opened(path, COUNT);
	near_shared_counters_add(&s, 0, 4);
	close_region(&s);
	CHECK(files(directory) == 1);
	s = opened(path, 0);
	CHECK(near_shared_counters_read(&s, 0) == 4);
	close_region(&s);
}

static void a_region_can_be_made_by_name_too(void **state)
{
#ifndef SYS_link
	skip(); /* the C library uses linkat() itself */
#endif
	if (unit_emulated())
		skip();
	unit_in_child(make_with_a_name, NULL);
}

REGION_MAIN(unrelated_files_are_refused_and_left_alone, damaged_regions_are_refused_and_left_alone,
	    wrong_slots_are_refused, random_headers_do_no_harm,
	    a_full_disk_is_reported_and_nothing_left, a_limit_of_file_sizes_is_reported,
	    signals_do_not_keep_it_from_being_made, a_region_can_be_made_by_name_too)
