/* SPDX-License-Identifier: MIT */
/* near_region: objects that exist once, and what makes an object of the directory usable. */
#include "regions.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <nearcpu/histogram.h>

#include "region/region.h"
#include "proc.h"
#include "team.h"

#define MIB ((size_t)1 << 20)

static struct near_region_object once_named(const char *name, uint64_t size, uint32_t flags)
{
	return (struct near_region_object){
		.name = name, .kind = NEAR_REGION_PRIVATE, .size = size, .flags = flags};
}

static uint64_t allocated(const struct near_region *r)
{
	struct stat st;

	CHECK(fstat(r->fd, &st) == 0);
	return (uint64_t)st.st_blocks * 512;
}

static void they_do_not_use_room_of_copies(void **state)
{
	struct near_region r = opened_region(&(struct near_region_options){.size = 64});
	struct near_region_object a = once_named("a", 64, NEAR_REGION_COMMON),
				  b = counter_named("b", NULL),
				  c = once_named("c", 8, NEAR_REGION_COMMON),
				  d = once_named("d", 4096, NEAR_REGION_COMMON), found;

	assert_int_equal(define(&r, &a), 0);
	assert_int_equal(define(&r, &b), 0);
	assert_int_equal(define(&r, &c), 0);
	assert_int_equal(define(&r, &d), 0);
	assert_int_equal(a.offset, 0);
	assert_int_equal(b.offset, 0);
	assert_int_equal(c.offset, 64);
	assert_int_equal(d.offset, 4096);
	assert_int_equal(near_region_object(&r, 3, &found), 0);
	assert_int_equal(found.flags, NEAR_REGION_COMMON);
	d.flags = 0;
	assert_int_equal(define(&r, &d), -EEXIST);
	d = once_named("e", 64 << 10, NEAR_REGION_COMMON);
	assert_int_equal(define(&r, &d), -ENOSPC);
	d = once_named("e", 8, NEAR_REGION_SPARSE);
	assert_int_equal(define(&r, &d), -EINVAL);
	d = once_named("e", 8, 4);
	assert_int_equal(define(&r, &d), -EINVAL);
	near_region_close(&r);
}

static void every_process_has_the_same(void **state)
{
	struct near_region r = opened_region(&defaults), view;
	struct near_region_object o = once_named("words", 8192, NEAR_REGION_COMMON);
	uint64_t *words;
	pid_t child;
	int fd;

	assert_int_equal(define(&r, &o), 0);
	words = (uint64_t *)near_region_common(&r, o.offset);
	assert_int_equal(near_region_file_offset(&r, &words[1]),
			 (char *)&words[1] - (char *)r.header);
	child = unit_fork_here();
	if (child == 0) {
		struct near_region mine = opened_region(NULL);

		CHECK(define(&mine, &o) == 0);
		*(uint64_t *)near_region_common(&mine, o.offset) += 7;
		_exit(0);
	}
	assert_int_equal(unit_wait(child, NULL), 0);
	assert_int_equal(words[0], 7);
	fd = open(path, O_RDONLY);
	assert_int_equal(near_region_open_fd(&view, fd), 0);
	words[0]++;
	assert_int_equal(*(uint64_t *)near_region_common(&view, o.offset), 7);
	close(fd);
	near_region_close(&view);
	near_region_close(&r);
}

static void sparse_ones_have_the_blocks_that_were_allocated(void **state)
{
	struct near_region r = opened_region(
				   &(struct near_region_options){.common_size = 64 * MIB}),
			   view;
	struct near_region_object o =
		once_named("rings", 64 * MIB, NEAR_REGION_COMMON | NEAR_REGION_SPARSE);
	uint64_t before = allocated(&r);
	int fd;

	assert_int_equal(define(&r, &o), 0);
	assert_int_equal(allocated(&r), before);
	KEEPS_ERRNO(assert_int_equal(near_region_populate(&r, &o, 4 * MIB, MIB), 0));
	assert_in_range(allocated(&r), before + MIB, before + 2 * MIB);
	*near_region_common(&r, o.offset + 4 * MIB) = 'x';
	assert_int_equal(near_region_populate(&r, &o, 4 * MIB, MIB), 0);
	assert_int_equal(*near_region_common(&r, o.offset + 4 * MIB), 'x');
	KEEPS_ERRNO(assert_int_equal(near_region_populate(&r, &o, 64 * MIB, 1), -EINVAL));
	assert_int_equal(near_region_populate(&r, &o, 1, 64 * MIB), -EINVAL);
	assert_int_equal(near_region_populate(&r, &o, UINT64_MAX, 2), -EINVAL);
	o.flags = NEAR_REGION_COMMON;
	assert_int_equal(near_region_populate(&r, &o, 0, 1), -EINVAL);
	fd = open(path, O_RDONLY);
	assert_int_equal(near_region_open_fd(&view, fd), 0);
	assert_int_equal(near_region_object(&view, 0, &o), 0);
	assert_int_equal(*near_region_common(&view, o.offset + 4 * MIB), 0);
	assert_int_equal(near_region_populate(&view, &o, 4 * MIB, MIB), 0);
	assert_int_equal(*near_region_common(&view, o.offset + 4 * MIB), 'x');
	close(fd);
	near_region_close(&view);
	near_region_close(&r);
}

/* The directory claims blocks for a hole: a snapshot allocates no memory for it. */
static void holes_take_no_memory(void **state)
{
	struct near_region r = opened_region(
				   &(struct near_region_options){.common_size = 512 * MIB}),
			   view;
	struct near_region_object o =
		once_named("hole", 512 * MIB, NEAR_REGION_COMMON | NEAR_REGION_SPARSE);
	struct region_entry *e = (struct region_entry *)((char *)r.header + REGION_DIRECTORY);
	unsigned long long before;
	int fd = open(path, O_RDONLY);

	assert_int_equal(define(&r, &o), 0);
	assert_int_equal(near_region_populate(&r, &o, 8 * MIB, 300000), 0);
	memset(near_region_common(&r, o.offset + 8 * MIB), 'x', 300000);
	e->flags = NEAR_REGION_COMMON;
	before = kernel_number("/proc/self/status", "VmRSS:", 0);
	assert_int_equal(near_region_open_fd(&view, fd), 0);
	assert_in_range(kernel_number("/proc/self/status", "VmRSS:", 0), 0, before + 65536);
	assert_memory_equal(near_region_common(&view, o.offset + 8 * MIB - 8),
			    near_region_common(&r, o.offset + 8 * MIB - 8), 300016);
	near_region_close(&view);
	assert_int_equal(ftruncate(r.fd, (off_t)(r.total - 4096)), 0);
	assert_int_equal(near_region_open_fd(&view, fd), -EBADMSG);
	near_region_close(&r);
	close(fd);
}

/* ---- snapshots while others write ---- */

static struct near_region written;

static void change_header(unsigned number)
{
	for (bool odd = false; team_continues(); odd = !odd)
		__atomic_store_n(&written.header->objects, odd ? 64 : 60000, __ATOMIC_RELAXED);
}

/* What was checked is what it has. */
static void a_snapshot_has_one_header(void **state)
{
	struct near_region_stats status;
	struct near_region view;
	struct team team;
	int fd;

	written = opened_region(&defaults);
	fd = open(path, O_RDONLY);
	team_start(&team, 1, change_header);
	while (__atomic_load_n(&written.header->objects, __ATOMIC_RELAXED) == 64)
		sched_yield();
	for (unsigned i = 0; i < unit_scale(2000); i++) {
		if (near_region_open_fd(&view, fd))
			continue;
		assert_int_equal(near_region_stats(&view, &status, sizeof(status)), 0);
		assert_int_equal(status.objects, 64);
		near_region_close(&view);
	}
	team_stop(&team);
	close(fd);
	near_region_close(&written);
}

static bool try_lock(int fd, uint64_t at)
{
	struct flock byte = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &byte) == 0;
}

/* By a description of its own a process shows that it lives; another one sees its end. */
static void bytes_are_locked_by_a_process(void **state)
{
	struct near_region r = opened_region(&defaults);
	struct near_region_object o = once_named("seats", 64, NEAR_REGION_COMMON),
				  other = counter_named("x", NULL);
	uint64_t seat;
	int ready[2], mine;
	pid_t child;
	char c;

	assert_int_equal(define(&r, &o), 0);
	seat = near_region_file_offset(&r, near_region_common(&r, o.offset));
	assert_int_equal(pipe(ready), 0);
	child = unit_fork_here();
	if (child == 0) {
		CHECK(try_lock(near_region_reopen(&r), seat));
		CHECK(write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	KEEPS_ERRNO(mine = near_region_reopen(&r));
	assert_true(mine >= 0);
	assert_false(try_lock(mine, seat));
	assert_true(try_lock(mine, seat + 1));
	assert_int_equal(define(&r, &other), 0);
	kill(child, SIGKILL);
	unit_wait(child, NULL);
	assert_true(try_lock(mine, seat));
	close(mine);
	near_region_close(&r);
}

/* ---- names and labels ---- */

static void labels_are_those_that_prometheus_reads(void **state)
{
	static const struct {
		const char *labels;
		bool good;
	} table[] = {
		{"a=\"1\",b=\"1\"", true},
		{"a=\"1\",a=\"2\"", false},
		{"ab=\"1\",a=\"2\"", true},
		{"a=\"x,a=\\\"\",b=\"\"", true},
		{"le=\"1\"", false},
		{"index=\"1\"", false},
		{"lea=\"1\"", true},
		{"indexes=\"1\"", true},
		{"a=\"\\\\\\\"\\n\"", true},
		{"a=\"\\t\"", false},
		{"a=\"\xc3\xa9\"", true},
		{"a=\"\xe2\x82\xac\"", true},
		{"a=\"\xf0\x9f\x98\x80\"", true},
		{"a=\"\xc3\"", false},
		{"a=\"\x80\"", false},
		{"a=\"\xc0\xaf\"", false},
		{"a=\"\xe0\x80\x80\"", false},
		{"a=\"\xed\xa0\x80\"", false},
		{"a=\"\xf4\x90\x80\x80\"", false},
		{"a=\"\x7f\"", false},
		{"a=\"\xc2\x9b\"", false},
		{"a=\"\xff\"", false},
	};
	struct near_region r = opened_region(&defaults);

	for (unsigned i = 0; i < LENGTH(table); i++) {
		struct near_region_object o = counter_named("x", table[i].labels);

		if (define(&r, &o) != (table[i].good ? 0 : -EINVAL))
			fail_msg("%s", table[i].labels);
	}
	near_region_close(&r);
}

static void objects_of_a_name_are_of_one_kind(void **state)
{
	struct near_region r = opened_region(&defaults);
	struct near_region_object a = counter_named("x", "a=\"1\""),
				  b = counter_named("x", "a=\"2\"");

	assert_int_equal(define(&r, &a), 0);
	b.kind = NEAR_REGION_BYTES;
	assert_int_equal(define(&r, &b), -EEXIST);
	b.kind = NEAR_REGION_COUNTERS;
	assert_int_equal(define(&r, &b), 0);
	near_region_close(&r);
}

/* ---- what is found in a directory ---- */

static void what_is_found_can_be_used(void **state)
{
	struct near_region r = opened_region(&defaults);
	struct near_region_object o;
	const struct near_shared_counters_options two = {.count = 2};
	struct near_shared_counters s, again;
	struct near_histogram h, found;
	struct near_histogram_snapshot snapshot;

	assert_int_equal(near_shared_counters_open(&s, &r, "counters", NULL, &two), 0);
	assert_int_equal(near_histogram_open(&h, &r, "histogram", NULL, NULL), 0);
	near_shared_counters_add(&s, 1, 5);
	near_histogram_record(&h, 3);
	assert_int_equal(near_region_object(&r, 0, &o), 0);
	assert_int_equal(near_histogram_open_object(&found, &r, &o), -EINVAL);
	assert_int_equal(near_shared_counters_open_object(&again, &r, &o), 0);
	assert_int_equal(again.count, 2);
	assert_int_equal(near_shared_counters_read(&again, 1), 5);
	assert_int_equal(near_region_object(&r, 1, &o), 0);
	assert_int_equal(near_shared_counters_open_object(&again, &r, &o), -EINVAL);
	assert_int_equal(near_histogram_open_object(&found, &r, &o), 0);
	assert_int_equal(near_histogram_read(&found, &snapshot), 0);
	assert_int_equal(snapshot.count, 1);
	near_histogram_snapshot_free(&snapshot);
	for (unsigned i = 0; i < 4; i++) {
		struct near_region_object damaged = o;

		damaged.about[i] = i == 1 ? 1000 : damaged.about[i] ^ 1;
		assert_int_equal(near_histogram_open_object(&found, &r, &damaged), -EINVAL);
	}
	o.size -= 8;
	assert_int_equal(near_histogram_open_object(&found, &r, &o), -EINVAL);
	near_region_close(&r);
}

REGION_MAIN(they_do_not_use_room_of_copies, every_process_has_the_same,
	    sparse_ones_have_the_blocks_that_were_allocated, holes_take_no_memory,
	    a_snapshot_has_one_header, bytes_are_locked_by_a_process,
	    labels_are_those_that_prometheus_reads, objects_of_a_name_are_of_one_kind,
	    what_is_found_can_be_used)
