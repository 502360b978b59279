/* SPDX-License-Identifier: MIT */
/* near_region: the directory, and damaged ones; file systems that lack something, programs that
 * close its descriptor or limit it. shared_files_test.c has headers and full disks,
 * region_processes_test.c several threads and processes. */
#include "regions.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "filter.h"
#include "region/region.h"

/* ---- the directory ---- */

static void objects_are_found_by_name_and_labels(void **state)
{
	static const char *const labels[] = {NULL, "a=\"1\"", "a=\"2\",b=\"x y, \\\" z\"",
					     "_=\"\""};
	struct near_region r = opened_region(&defaults), again;
	struct near_region_object o, found;

	for (unsigned i = 0; i < 2 * LENGTH(labels); i++) {
		o = counter_named(i % 2 ? "a:b_9" : "requests", labels[i / 2]);
		assert_int_equal(define(&r, &o), 0);
		assert_int_equal(o.offset, i * 8);
	}
	again = opened_region(NULL);
	for (unsigned i = 0; i < 2 * LENGTH(labels); i++) {
		o = counter_named(i % 2 ? "a:b_9" : "requests", labels[i / 2]);
		assert_int_equal(define(&again, &o), 0);
		assert_int_equal(o.offset, i * 8);
		assert_int_equal(near_region_object(&again, i, &found), 0);
		assert_string_equal(found.name, o.name);
		assert_string_equal(found.labels, o.labels);
		assert_int_equal(found.kind, NEAR_REGION_COUNTERS);
		assert_int_equal(found.size, 8);
		assert_int_equal(found.offset, o.offset);
	}
	assert_int_equal(near_region_object(&r, 2 * LENGTH(labels), &found), -ENOENT);
	near_region_close(&again);
	near_region_close(&r);
}

static void an_object_is_what_it_was_defined_as(void **state)
{
	struct near_region r = opened_region(&defaults);
	struct near_region_object o = counter_named("x", NULL);

	o.about[3] = 7;
	assert_int_equal(define(&r, &o), 0);
	assert_int_equal(define(&r, &o), 0);
	o.about[3] = 8;
	assert_int_equal(define(&r, &o), -EEXIST);
	o.about[3] = 7;
	o.size = 16;
	assert_int_equal(define(&r, &o), -EEXIST);
	o.size = 8;
	o.kind = NEAR_REGION_BYTES;
	assert_int_equal(define(&r, &o), -EEXIST);
	near_region_close(&r);
}

static void bad_objects_are_refused(void **state)
{
	static const char *const names[] = {
		NULL,  "",
		"9a",  "a b",
		"a\n", "\xc3\xa9",
		"a-b", "a234567890123456789012345678901234567890123456789012345678901234"};
	static const char *const labels[] = {"a",        "a=",     "a=1",           "a=\"",
					     "a=\"1\",", "=\"1\"", ",a=\"1\"",      "9=\"\"",
					     "a=\"\n\"", "a=\"\\", "a=\"1\"b=\"2\""};
	struct near_region r = opened_region(&defaults);
	struct near_region_object o;
	char text[NEAR_REGION_LABELS + 1];

	for (unsigned i = 0; i < LENGTH(names); i++) {
		o = counter_named(names[i], NULL);
		assert_int_equal(define(&r, &o), -EINVAL);
	}
	for (unsigned i = 0; i < LENGTH(labels); i++) {
		o = counter_named("a", labels[i]);
		assert_int_equal(define(&r, &o), -EINVAL);
	}
	snprintf(text, sizeof(text), "a=\"%*s\"", NEAR_REGION_LABELS - 4, "");
	o = counter_named("a", text);
	assert_int_equal(define(&r, &o), -EINVAL);
	snprintf(text, sizeof(text), "a=\"%*s\"", NEAR_REGION_LABELS - 5, "");
	assert_int_equal(define(&r, &o), 0);
	o = counter_named("b", NULL);
	o.size = 0;
	assert_int_equal(define(&r, &o), -EINVAL);
	o.size = 12;
	assert_int_equal(define(&r, &o), -EINVAL);
	o.size = 8;
	o.kind = 0;
	assert_int_equal(define(&r, &o), -EINVAL);
	near_region_close(&r);
}

static void what_is_full_is_reported(void **state)
{
	static const struct near_region_options small = {.size = 128, .max_objects = 3};
	struct near_region r = opened_region(&small);
	struct near_region_object o = {.name = "a", .kind = NEAR_REGION_BYTES, .size = 136};

	assert_int_equal(define(&r, &o), -ENOSPC);
	o.size = 120;
	assert_int_equal(define(&r, &o), 0);
	o = (struct near_region_object){.name = "b", .kind = NEAR_REGION_BYTES, .size = 16};
	assert_int_equal(define(&r, &o), -ENOSPC);
	o.size = 8;
	assert_int_equal(define(&r, &o), 0);
	assert_int_equal(o.offset, 120);
	near_region_close(&r);
	unlink(path);
	r = opened_region(&small);
	for (unsigned i = 0; i < 4; i++) {
		char name[] = {(char)('a' + i), 0};

		o = counter_named(name, NULL);
		assert_int_equal(define(&r, &o), i < 3 ? 0 : -ENOSPC);
	}
	near_region_close(&r);
}

static void bad_options_are_refused(void **state)
{
	static const struct {
		struct near_region_options options;
		int error;
	} table[] = {
		{{.flags = NEAR_CREATE, .size = 12}, EINVAL},
		{{.flags = NEAR_CREATE, .size = NEAR_REGION_MAX_SIZE + 8}, E2BIG},
		{{.flags = NEAR_CREATE, .size = SIZE_MAX - 7}, E2BIG},
		{{.flags = NEAR_CREATE, .max_objects = NEAR_REGION_MAX_OBJECTS + 1}, E2BIG},
		{{.flags = NEAR_CREATE | 2}, EINVAL},
		{{.flags = NEAR_CREATE, .reserved = {1}}, EINVAL},
		{{.flags = NEAR_CREATE, .reserved = {0, 0, 0, 1}}, EINVAL},
	};
	struct near_region_object firsts[] = {counter_named(NULL, NULL),
					      counter_named("x", "y"),
					      {.name = "z", .kind = 1, .size = 1 << 20}};
	struct near_region r;

	for (unsigned i = 0; i < LENGTH(table); i++) {
		assert_int_equal(near_region_open(&r, path, &table[i].options), -table[i].error);
		assert_non_null(near_region_error(&r));
		assert_int_equal(near_region_open(&r, NULL, &table[i].options), -table[i].error);
		assert_int_equal(files(directory), 0);
	}
	for (unsigned i = 0; i < LENGTH(firsts); i++) {
		struct near_region_options options = {.flags = NEAR_CREATE, .initial = &firsts[i]};

		assert_int_equal(near_region_open(&r, path, &options), i < 2 ? -EINVAL : -ENOSPC);
		assert_non_null(strstr(near_region_error(&r),
				       (const char *[]){"name", "labels", "copies"}[i]));
		assert_int_equal(r.fd, -1);
		assert_int_equal(files(directory), 0);
	}
	assert_int_equal(near_region_open(&r, path, NULL), -ENOENT);
	assert_int_equal(near_region_open(&r, path, &(struct near_region_options){0}), -ENOENT);
	assert_string_equal(near_region_error(&r), "No such file or directory");
	assert_int_equal(symlink("nothing", path), 0);
	assert_int_equal(near_region_open(&r, path, &defaults), -EEXIST);
	assert_int_equal(r.fd, -1);
	assert_string_equal(near_region_error(&r),
			    "the name is that of a symbolic link to nothing");
}

static void a_reader_changes_nothing(void **state)
{
	struct near_region r = opened_region(&defaults), view;
	struct near_region_object o = counter_named("x", NULL), other = counter_named("y", NULL);
	int fd = open(path, O_RDONLY);

	assert_int_equal(define(&r, &o), 0);
	assert_int_equal(near_region_open_fd(&view, fd), 0);
	assert_true(view.read_only);
	assert_int_equal(define(&view, &o), 0);
	assert_int_equal(define(&view, &other), -EROFS);
	near_region_close(&view);
	near_region_close(&r);
	close(fd);
}

static void the_status_is_that_of_the_file(void **state)
{
	struct near_region r = opened_region(&(struct near_region_options){.max_objects = 100});
	struct near_region_stats all, part;
	struct near_shared_counters s;
	unsigned copies = 0;

	assert_int_equal(near_shared_counters_open(&s, &r, "x", NULL, NULL), 0);
	near_shared_counters_add(&s, 0, 1);
	assert_int_equal(near_region_stats(&r, &all, 0), -EINVAL);
	assert_int_equal(near_region_stats(&r, &all, sizeof(all)), 0);
	assert_int_equal(all.creator, getpid());
	assert_true(all.created_ns > 0 && strlen(all.program) > 0);
	assert_int_equal(all.cpus, near_cpus());
	assert_int_equal(all.objects, 100);
	assert_in_range(all.cpus_used + all.fallbacks_used, 1, 3);
	assert_in_range(all.fallbacks_used, 1, 2);
	for (unsigned slot = 0; near_region_next(&r, &slot); slot++)
		copies++;
	assert_int_equal(all.cpus_used + all.fallbacks_used, copies);
	assert_int_equal(all.total, r.total);
	assert_in_range(all.allocated, 100 * 256, all.total);
	memset(&part, 0x5a, sizeof(part));
	assert_int_equal(near_region_stats(&r, &part, 16), 0);
	assert_memory_equal(&part, &all, 16);
	assert_int_equal(part.program[0], 0x5a);
	near_region_close(&r);
}

static void a_memfd_cannot_be_truncated(void **state)
{
	struct near_region r;

	assert_int_equal(near_region_open(&r, NULL, &defaults), 0);
	assert_int_equal(ftruncate(r.fd, 4096), -1);
	assert_int_equal(ftruncate(r.fd, (off_t)1 << 30), -1);
	near_region_close(&r);
	assert_int_equal(near_region_open(&r, NULL, NULL), 0);
	assert_int_equal(r.size, 64 << 10);
	near_region_close(&r);
}

/* ---- damage ---- */

static void damaged_entries_are_refused(void **state)
{
	/* By 8 bytes of the second entry: kind, size, offset, about, name, labels. */
	static const struct {
		unsigned word;
		uint64_t value;
	} damage[] = {
		{1, 0},   {1, 12},  {1, 1 << 20},        {1, UINT64_MAX - 7},
		{2, 0},   {2, 12},  {2, UINT64_MAX - 7}, {7, 0},
		{7, ' '}, {7, '1'}, {15, 'a'},           {15, UINT64_MAX},
	};
	struct near_region r, again;

	for (unsigned i = 0; i < LENGTH(damage); i++) {
		struct near_region_object a = counter_named("a", NULL),
					  b = counter_named("b", NULL);
		uint64_t *entry, *full;

		unlink(path);
		r = opened_region(&defaults);
		assert_int_equal(define(&r, &a), 0);
		assert_int_equal(define(&r, &b), 0);
		entry = (uint64_t *)((char *)r.header + REGION_DIRECTORY +
				     sizeof(struct region_entry));
		entry[damage[i].word] = damage[i].value;
		full = (uint64_t *)r.slots + near__region_slots(near_cpus()) +
		       near__region_words(near_cpus());
		*full = 2; /* there was no room for slot 1 */
		a.name = "c";
		assert_int_equal(define(&r, &a), -EBADMSG);
		assert_int_equal(near_region_open(&again, path, NULL), -EBADMSG);
		assert_int_equal(*full, 2); /* it is left alone */
		near_region_close(&r);
		assert_int_equal(near_region_open(&r, path, NULL), -EBADMSG);
		assert_string_equal(near_region_error(&r),
				    "the directory of the region is damaged");
		assert_int_equal(r.fd, -1);
		near_region_close(&r); /* does nothing */
		assert_int_not_equal(fcntl(0, F_GETFD), -1);
	}
}

/* Any bytes up to the copies: an error, or a region that works. */
static void random_bytes_do_no_harm(void **state)
{
	unsigned rounds = unit_scale(400), works = 0;
	uint64_t seed = 6;

	for (unsigned i = 0; i < rounds; i++) {
		struct near_region r = opened_region(&defaults);
		struct near_region_object o = counter_named("a", "b=\"c\"");
		size_t end = (size_t)(r.base - (char *)r.header);

		assert_int_equal(define(&r, &o), 0);
		for (unsigned n = 1 + unit_random(&seed) % 3; n; n--) {
			size_t at = unit_random(&seed) % (n == 1 ? end : REGION_DIRECTORY + 512);

			((char *)r.header)[at] ^= (char)(1 << unit_random(&seed) % 8);
		}
		msync(r.header, 4096, MS_SYNC);
		munmap(r.header, 4096);
		close(r.fd);
		if (near_region_open(&r, path, NULL) == 0) {
			struct near_shared_counters s;

			works++;
			if (near_shared_counters_open(&s, &r, "a", "b=\"c\"", NULL) == 0) {
				near_shared_counters_add(&s, 0, 1);
				near_shared_counters_read(&s, 0);
			}
			near_region_close(&r);
		} else {
			assert_non_null(near_region_error(&r));
		}
		unlink(path);
	}
	assert_in_range(works, 1, rounds < 50 ? rounds : rounds - 1);
}

/* ---- file systems ---- */

/* Its blocks are written when it is made. */
static void use_without_fallocate(void *unused)
{
	static const struct near_region_options options = {.size = 4096};
	struct near_region_object o = {.name = "once",
				       .kind = NEAR_REGION_PRIVATE,
				       .flags = NEAR_REGION_COMMON,
				       .size = 64};
	struct near_region r;
	struct near_shared_counters s;
	struct stat st;

	if (!filter_out(SYS_fallocate, EOPNOTSUPP))
		_exit(77);
	r = opened_region(&options);
	CHECK(fstat(r.fd, &st) == 0);
	CHECK((uint64_t)st.st_blocks * 512 >= r.total);
	CHECK(near_shared_counters_open(&s, &r, "x", NULL, NULL) == 0);
	CHECK(near_region_open_object(&r, &o) == 0);
	near_shared_counters_add(&s, 0, 3);
	near_region_close(&r);
	r = opened_region(NULL);
	CHECK(near_shared_counters_open(&s, &r, "x", NULL, NULL) == 0);
	CHECK(near_shared_counters_read(&s, 0) == 3);
	near_region_close(&r);
}

static void it_needs_no_fallocate(void **state)
{
	if (unit_emulated())
		skip();
	unit_in_child(use_without_fallocate, NULL);
}

/* ---- programs that do not know of it ---- */

/* The number of the descriptor is that of another file, as in daemons that have closed all. */
static void other_files_are_left_alone(void **state)
{
	static const struct near_region_options options = {.common_size = 1 << 20};
	struct near_region_object o = {.name = "once",
				       .kind = NEAR_REGION_PRIVATE,
				       .flags = NEAR_REGION_COMMON | NEAR_REGION_SPARSE,
				       .size = 1 << 20};
	struct near_region r = opened_region(&options);
	struct near_shared_counters s;
	struct stat st;
	int fd = r.fd, other = memfd_create("other", 0), err;

	assert_int_equal(define(&r, &o), 0);
	assert_int_equal(near_shared_counters_open(&s, &r, "x", NULL, NULL), 0);
	assert_int_equal(dup2(other, fd), fd);
	near_shared_counters_add(&s, 0, 3);
	assert_int_equal(near_shared_counters_read(&s, 0), 3);
	KEEPS_ERRNO(err = near_region_populate(&r, &o, 4096, 10000));
	if (err == 0)
		memset(near_region_common(&r, o.offset + 4096), 1, 10000);
	else
		assert_int_equal(err, -EINVAL); /* before Linux 5.14 */
	assert_int_equal(near_region_reopen(&r), -EBADF);
	assert_int_equal(fstat(other, &st), 0);
	assert_int_equal(st.st_size, 0);
	KEEPS_ERRNO(near_region_close(&r));
	assert_int_equal(fcntl(fd, F_GETFD), 0);
	close(fd);
	close(other);
	r = opened_region(NULL);
	fd = r.fd;
	near_region_close(&r);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* Its standard streams stay closed. */
static void use_without_streams(void *unused)
{
	struct near_region r, again;

	for (int fd = 0; fd < 3; fd++)
		close(fd);
	if (near_region_open(&r, path, &defaults) || near_region_open(&again, path, NULL))
		_exit(1);
	near_region_close(&again);
	if (near_region_open_fd(&again, r.fd) || r.fd < 3 || again.fd < 3)
		_exit(2);
	near_region_close(&again);
	if (near_region_open(&again, NULL, NULL) || again.fd < 3)
		_exit(3);
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) != -1)
			_exit(4);
	_exit(0);
}

static void it_is_no_standard_stream(void **state)
{
	unit_in_child(use_without_streams, NULL);
}

static void exceed_the_limit(void *unused)
{
	static const struct rlimit most = {1 << 20, 1 << 20};
	static const struct near_region_options options = {.flags = NEAR_CREATE,
							   .common_size = 2 << 20};
	struct near_region r;

	CHECK(setrlimit(RLIMIT_FSIZE, &most) == 0);
	CHECK(near_region_open(&r, path, &options) == -EFBIG && near_region_error(&r));
	CHECK(near_region_open(&r, NULL, &options) == -EFBIG);
}

static void a_limit_is_an_error_and_no_signal(void **state)
{
	unit_in_child(exceed_the_limit, NULL);
	assert_int_equal(files(directory), 0);
}

REGION_MAIN(objects_are_found_by_name_and_labels, an_object_is_what_it_was_defined_as,
	    bad_objects_are_refused, what_is_full_is_reported, bad_options_are_refused,
	    a_reader_changes_nothing, the_status_is_that_of_the_file, a_memfd_cannot_be_truncated,
	    damaged_entries_are_refused, random_bytes_do_no_harm, it_needs_no_fallocate,
	    other_files_are_left_alone, it_is_no_standard_stream, a_limit_is_an_error_and_no_signal)
