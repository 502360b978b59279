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
	CHECK(near_trace_snapshot("/dev/shm/none/x") < 0 && near_trace_error());
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

/* As many rings as there is room for; the others' events go to them by the fallback. */
static void a_full_disk_discards(void **state)
{
	char path[100];

	snprintf(path, sizeof(path), "%s/mnt", traces_folder);
	assert_int_equal(mkdir(path, 0700), 0);
	unit_in_child(trace_on_a_full_disk, NULL);
	for (enum near_trace_mode mode = NEAR_TRACE_STOP_WHEN_FULL; mode <= NEAR_TRACE_STREAM;
	     mode++)
		unit_in_child(stop_on_a_full_disk, &mode);
	unit_in_child(start_on_a_full_disk, NULL);
	assert_int_equal(rmdir(path), 0);
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

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		a_full_disk_discards, nothing_is_discarded_while_rings_open);
}
