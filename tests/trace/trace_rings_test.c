/* SPDX-License-Identifier: MIT */
/* near_trace: rings are opened, and grow; on full disks they cannot. */
#include <sys/mount.h>
#include <sys/stat.h>

#include "numbers.h"

/* ---- full disks ---- */

/* Mounts a small one in the folder, in a namespace of this child. */
static void mount_small(char *path, size_t size, const char *options)
{
	snprintf(path, size, "%s/mnt", traces_folder);
	if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
	    mount("tmpfs", path, "tmpfs", 0, options))
		_exit(77);
}

/* The ring overwrites the sub-buffers that it has. */
static void trace_on_a_full_disk(void *unused)
{
	struct near_trace_stats stats;
	struct trace_file f;
	char path[100];

	mount_small(path, sizeof(path), "size=700k");
	unit_pin(0, NULL); /* before the first event: one ring */
	START(.path = path);
	KEEPS_ERRNO(numbers(0, 50000));
	CHECK(near_trace_stats(&stats, sizeof(stats)) == 0);
	CHECK(stats.rings == 1 && stats.discarded == 0 && stats.bytes < 700 << 10);
	f = traces_open(near_trace_path());
	CHECK(f.session->flags & NEAR__TRACE_WAS_FULL);
	forget();
	traces_read(&f, see, NULL);
	CHECK(!twice && seen_n > 5000 && seen[49999]);
	for (uint64_t i = 0; i < seen_n; i++)
		CHECK(seen[49999 - i]);
	traces_close(&f);
	CHECK(near_trace_snapshot("/nonexistent/x") < 0 && near_trace_error());
	CHECK(near_trace_stop() == 0);
}

static void start_on_a_full_disk(void *unused)
{
	struct near_trace_options o = {0};
	char path[100];

	mount_small(path, sizeof(path), "size=16k");
	o.path = path;
	CHECK(near_trace_start(&o) == -ENOSPC && near_trace_error());
	numbers(0, 10);
	CHECK(rmdir(path) && errno == EBUSY);
}

/* In the other modes the oldest events stay. */
static void stop_on_a_full_disk(void *mode)
{
	struct trace_file f;
	char path[sizeof(traces_folder)];

	mount_small(path, sizeof(path), "size=700k");
	unit_pin(0, NULL);
	START(.path = path, .mode = *(enum near_trace_mode *)mode);
	numbers(0, 50000);
	f = traces_open(near_trace_path());
	CHECK(traces_discarded(&f) > 0 && f.session->flags & NEAR__TRACE_WAS_FULL);
	traces_close(&f);
	CHECK(near_trace_stop() == 0);
	memcpy(traces_folder, path, strlen(path) + 1);
	see_all();
	CHECK(!twice && seen_n > 5000);
}

static char other_folder[sizeof(traces_folder)]; /* on another file system */

/* Leaves room for the begin of a ring's first sub-buffer, and where pages are small for no more. */
static void fill_disk(const char *folder)
{
	static const char zeros[4096];
	long page = sysconf(_SC_PAGESIZE);
	off_t size = 0;
	char path[110];
	int fd;

	snprintf(path, sizeof(path), "%s/filler", folder);
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	while (fd >= 0 && write(fd, zeros, sizeof(zeros)) > 0)
		size += sizeof(zeros);
	CHECK(size && ftruncate(fd, size / page * page - 4 * page) == 0 && close(fd) == 0);
}

/* With max_bytes no ring is made ready before it is opened. Pages that have no blocks must not be
 * loaded, by nobody. */
static void begin_on_a_full_disk(void *mode)
{
	enum near_trace_mode m = *(enum near_trace_mode *)mode;
	struct near_trace_stats stats;
	char path[100], copy[100];

	snprintf(copy, sizeof(copy), "%s/copy", other_folder);
	mount_small(path, sizeof(path), "size=2m");
	unit_pin(0, NULL);
	START(.path = path, .mode = m, .max_bytes = 2 << 20,
	      .stream = m == NEAR_TRACE_STREAM ? other_folder : NULL);
	fill_disk(path);
	KEEPS_ERRNO(numbers(0, 50000));
	CHECK(near_trace_stats(&stats, sizeof(stats)) == 0 && stats.rings == 1);
	CHECK(near_trace_snapshot(copy) == 0 && near_trace_stop() == 0);
	if (m == NEAR_TRACE_STREAM)
		unlink(copy); /* the streamed file has all of it */
	strcpy(traces_folder, other_folder);
	see_all();
	if (m == NEAR_TRACE_OVERWRITE)
		CHECK(stats.discarded + twice == 0 && seen_n && seen[49999]);
	else
		CHECK(seen_n > 300 && seen[0]);
	CHECK(m == NEAR_TRACE_OVERWRITE || (!twice && seen_n + stats.discarded == 50000));
	traces_each_file(traces_unlink, NULL);
}

static void try_to_mount(void *unused)
{
	char path[100];

	mount_small(path, sizeof(path), "size=16k");
}

/* As many rings as there is room for; the others' events go to them by the fallback. */
static void a_full_disk_discards(void **state)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/mnt", traces_folder);
	assert_int_equal(mkdir(path, 0700), 0);
	if (unit_wait(unit_fork(try_to_mount, NULL), NULL)) {
		rmdir(path);
		skip();
	}
	snprintf(other_folder, sizeof(other_folder), "%s/nearcpu-XXXXXX", unit_folder());
	assert_non_null(mkdtemp(other_folder));
	unit_in_child(trace_on_a_full_disk, NULL);
	for (enum near_trace_mode mode = NEAR_TRACE_STOP_WHEN_FULL; mode <= NEAR_TRACE_STREAM;
	     mode++)
		unit_in_child(stop_on_a_full_disk, &mode);
	for (enum near_trace_mode mode = 0; mode <= NEAR_TRACE_STREAM; mode++)
		unit_in_child(begin_on_a_full_disk, &mode);
	unit_in_child(start_on_a_full_disk, NULL);
	assert_int_equal(rmdir(path) + rmdir(other_folder), 0);
}

/* ---- openings ---- */

static pthread_barrier_t together;

static void *trace_together(void *from)
{
	pthread_barrier_wait(&together);
	numbers(*(uint64_t *)from, 500);
	return NULL;
}

/* All threads find their rings not open yet, large ones: what they write is there all the same. A
 * ring takes no more memory than what is written, and 1 MiB. */
static void nothing_is_discarded_while_rings_open(void **state)
{
	uint64_t from[8];
	struct near_trace_stats stats;
	struct trace_file f;

	for (unsigned i = 0; i < LENGTH(from); i++)
		from[i] = i * UINT64_C(500);
	pthread_barrier_init(&together, NULL, LENGTH(from));
	for (unsigned i = 0; i < unit_scale(20); i++) {
		START(.ring_size = (size_t)64 << 20);
		unit_run(trace_together, from, sizeof(*from), LENGTH(from));
		assert_int_equal(near_trace_stats(&stats, sizeof(stats)), 0);
		assert_true(stats.rings && stats.bytes <= stats.rings * (size_t)(2 << 20));
		f = traces_stop();
		forget();
		traces_read(&f, see, NULL);
		assert_int_equal(seen_n, LENGTH(from) * 500);
		assert_int_equal(twice + traces_discarded(&f), 0);
		traces_close(&f);
		traces_each_file(traces_unlink, NULL);
	}
	pthread_barrier_destroy(&together);
}

/* How many bytes of ring i the file has from the ring's header on, without a hole. */
static uint64_t allocated(const char *path, unsigned i)
{
	struct trace_file f = traces_open(path);
	const char *ring =
		near_region_common(&f.region, f.rings.offset) + i * f.session->ring_stride;
	off_t at = (off_t)near_region_file_offset(&f.region, ring), hole;

	CHECK(lseek(f.region.fd, at, SEEK_DATA) >= 0 || errno == ENXIO);
	hole = lseek(f.region.fd, at, SEEK_HOLE);
	traces_close(&f);
	CHECK(hole >= at);
	return (uint64_t)(hole - at);
}

#define FIRST_SUB (NEAR__TRACE_PAGE + NEAR__TRACE_SUB_SIZE)

static void trace_in_a_child(void *unused)
{
	unsigned i = 0, n = near_slots() + near_cpus();

	unit_pin(0, NULL);
	numbers(0, 1);
	while (i < n && !allocated(near_trace_path(), i))
		i++;
	CHECK(i < n &&
	      (sysconf(_SC_PAGESIZE) > 4096 || allocated(near_trace_path(), i) < FIRST_SUB));
	numbers(1, 1000);
	i = 0; /* the next ones may be in another ring, where there are no slots */
	while (i < n && allocated(near_trace_path(), i) < FIRST_SUB)
		i++;
	CHECK(i < n);
	CHECK(near_trace_stop() == 0);
}

/* The first sub-buffer of those that are opened next, by near_trace_start or the session's thread;
 * an event makes no more than its begin ready. */
static void rings_are_made_ready_before_they_are_opened(void **state)
{
	struct trace_file f;
	unsigned first;

	START(.ring_size = 1 << 20);
	f = traces_open(near_trace_path());
	first = f.session->flags & NEAR__TRACE_FENCES ? 0 : f.session->slots;
	traces_close(&f);
	assert_true(allocated(near_trace_path(), first) >= FIRST_SUB);
	unit_in_child(trace_in_a_child, NULL);
	f = traces_stop();
	assert_int_equal(traces_rings(&f) + traces_discarded(&f), 0);
	traces_close(&f);
	traces_each_file(traces_unlink, NULL);
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		a_full_disk_discards, nothing_is_discarded_while_rings_open,
		rings_are_made_ready_before_they_are_opened);
}
