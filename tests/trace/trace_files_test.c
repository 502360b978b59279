/* SPDX-License-Identifier: MIT */
/* near_trace: no permission, bounds, snapshots, streams, orders of other processes. */
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/futex.h"
#include "live.h"
#include "region/region.h"
#include "numbers.h"

static void without_permission(void *unused)
{
	struct near_trace_options o = {.path = traces_folder};

	CHECK(chmod(traces_folder, 0500) == 0);
	if (getuid() == 0 && setuid(65534))
		_exit(77);
	CHECK(near_trace_start(&o) == -EACCES);
	CHECK(strcmp(near_trace_error(), strerror(EACCES)) == 0);
	o = (struct near_trace_options){
		.path = unit_folder(), .mode = NEAR_TRACE_STREAM, .stream = traces_folder};
	CHECK(near_trace_start(&o) == -EACCES && near_trace_error());
	numbers(0, 10);
}

static void a_folder_without_permission_is_reported(void **state)
{
	unit_in_child(without_permission, NULL);
	assert_int_equal(chmod(traces_folder, 0700), 0);
	assert_int_equal(traces_files(), 0);
}

static void without_shm(void *unused)
{
	struct near_trace_options o = {0};

	if (access("/dev/shm", F_OK) == 0 &&
	    (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
	     mount("tmpfs", "/dev", "tmpfs", 0, NULL)))
		_exit(77);
	CHECK(near_trace_start(&o) == -ENOENT);
	CHECK(strcmp(near_trace_error(), "there is no /dev/shm: set `path`") == 0);
	CHECK(access("/dev/shm", F_OK));
}

/* The default is no file of that name. */
static void build_chroots_lack_the_default_folder(void **state)
{
	unit_in_child(without_shm, NULL);
}

static void *trace_a_lot(void *from)
{
	numbers(*(uint64_t *)from, 10000);
	return NULL;
}

/* One ring at most: the events of other slots are in it, too, or are discarded. */
static void bytes_are_bounded(void **state)
{
	uint64_t from[4] = {0, 10000, 20000, 30000};
	struct near_trace_stats stats;
	struct trace_file f;

	START(.max_bytes = 1100 << 10, .mode = NEAR_TRACE_STOP_WHEN_FULL);
	unit_run(trace_a_lot, from, sizeof(*from), LENGTH(from));
	assert_int_equal(near_trace_stats(&stats, sizeof(stats)), 0);
	assert_int_equal(stats.rings, 1);
	f = traces_stop();
	forget();
	traces_read(&f, see, NULL);
	assert_int_equal(twice, 0);
	assert_int_equal(seen_n + traces_discarded(&f), 40000);
	assert_int_equal(traces_rings(&f), 1);
	traces_close(&f);
}

/* ---- fallback rings ---- */

static void *trace_dead(void *from)
{
	play_dead();
	numbers(*(uint64_t *)from, 10000);
	return NULL;
}

static void threads_that_are_not_live(void **state)
{
	uint64_t from[4] = {0, 10000, 20000, 30000};
	struct trace_file f;

	START(.ring_size = 4 << 20, .mode = NEAR_TRACE_STOP_WHEN_FULL);
	unit_run(trace_dead, from, sizeof(*from), LENGTH(from));
	f = traces_stop();
	forget();
	traces_read(&f, see, NULL);
	assert_int_equal(twice, 0);
	assert_int_equal(seen_n + traces_discarded(&f), 40000);
	assert_true(seen_n >= 10000); /* one preempted in an event makes others discard theirs */
	traces_close(&f);
}

/* ---- snapshots ---- */

static bool done;

static void *trace_until_done(void *arg)
{
	for (uint64_t i = 0; !__atomic_load_n(&done, __ATOMIC_RELAXED); i++)
		near_trace_test_number(i);
	return NULL;
}

static void next_in_order(const struct trace_record *r, void *arg)
{
	uint64_t *next = arg, value = r->head[2];

	CHECK(!*next || value >= *next);
	*next = value + 1;
}

/* Of each thread the numbers rise, in each ring. */
static void snapshots_are_whole(void **state)
{
	char path[400];
	pthread_t thread;

	done = false;
	START(.ring_size = 256 << 10);
	thread = unit_start(trace_until_done, NULL);
	for (unsigned i = 0; i < unit_scale(20); i++) {
		struct trace_file f;

		snprintf(path, sizeof(path), "%s/snapshot-%u", traces_folder, i);
		usleep(500);
		assert_int_equal(near_trace_snapshot(path), 0);
		assert_int_equal(near_trace_snapshot(path), -EEXIST);
		f = traces_open(path);
		for (unsigned r = 0; r < f.count; r++) {
			uint64_t next = 0;

			if (traces_ring(&f, r) && traces_ring(&f, r)->position)
				traces_read_ring(&f, r, traces_oldest(&f, r), next_in_order, &next);
		}
		traces_close(&f);
		unlink(path);
	}
	__atomic_store_n(&done, true, __ATOMIC_RELAXED);
	unit_join(thread);
	assert_int_equal(near_trace_stop(), 0);
	assert_int_equal(near_trace_snapshot(path), -ENOENT);
}

static void a_snapshot_has_what_the_rings_have(void **state)
{
	struct trace_file f;
	char path[400];

	START(0);
	numbers(0, 12345);
	snprintf(path, sizeof(path), "%s/snapshot", traces_folder);
	assert_int_equal(near_trace_snapshot(path), 0);
	f = traces_open(path);
	forget();
	traces_read(&f, see, NULL);
	assert_int_equal(seen_n, 12345);
	traces_close(&f);
}

/* ---- streams ---- */

/* Slower than the thread that moves them: nothing is discarded. */
static void streams_lose_nothing(void **state)
{
	START(.mode = NEAR_TRACE_STREAM, .file_size = 1 << 20, .files = 100);
	for (uint64_t i = 0; i < 100; i++) {
		numbers(i * 2000, 2000);
		usleep(unit_slow() ? 20000 : 1000);
	}
	assert_int_equal(near_trace_stop(), 0);
	see_all();
	assert_int_equal(twice, 0);
	assert_int_equal(seen_n + lost, 200000);
	assert_true(lost || traces_files() >= 5);
}

static void streams_are_bounded(void **state)
{
	uint64_t n = 0;

	START(.mode = NEAR_TRACE_STREAM, .file_size = 256 << 10, .files = 3);
	for (uint64_t i = 0; i < 100; i++) {
		numbers(i * 1000, 1000);
		n += 1000;
		usleep(500);
		assert_true(traces_files() <= 1 + 3);
	}
	assert_int_equal(near_trace_stop(), 0);
	see_all();
	assert_int_equal(twice, 0);
	assert_true(traces_files() <= 3);
	assert_true(seen_n > 10000 && seen_n < n);
}

/* A relative path is that of the working directory at the start. */
static void streams_go_to_a_folder(void **state)
{
	char folder[100], path[400], file[440];
	struct trace_file f;

	snprintf(folder, sizeof(folder), "%s/stream", traces_folder);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chdir(traces_folder), 0);
	START(.mode = NEAR_TRACE_STREAM, .path = ".", .stream = "stream");
	snprintf(path, sizeof(path), "%s", near_trace_path());
	assert_int_equal(chdir("/"), 0);
	numbers(0, 100);
	assert_int_equal(near_trace_stop(), 0);
	assert_int_not_equal(access(path, F_OK), 0);
	snprintf(file, sizeof(file), "%s%s.1", folder, strrchr(path, '/'));
	f = traces_open(file);
	forget();
	traces_read(&f, see, NULL);
	assert_int_equal(seen_n, 100);
	traces_close(&f);
	unlink(file);
	assert_int_equal(rmdir(folder), 0);
	START(.mode = NEAR_TRACE_STREAM); /* without events there is one file all the same */
	f = traces_stop();
	traces_close(&f);
}

static void *start_in_thread(void *unused)
{
	prctl(PR_SET_NAME, "other");
	START(.mode = NEAR_TRACE_STREAM);
	numbers(0, 100);
	return NULL;
}

/* No name of a thread. */
static void files_have_the_name_of_the_program(void **state)
{
	char path[400], snapshot[400];
	struct trace_file f;

	unit_join(unit_start(start_in_thread, NULL));
	snprintf(path, sizeof(path), "%s.1", near_trace_path());
	assert_non_null(strstr(path, "/trace_files_tes-"));
	snprintf(snapshot, sizeof(snapshot), "%s/snapshot", traces_folder);
	assert_int_equal(near_trace_snapshot(snapshot), 0);
	assert_int_equal(near_trace_stop(), 0);
	f = traces_open(path);
	assert_string_equal(f.region.header->program, "trace_files_tes");
	traces_close(&f);
	f = traces_open(snapshot);
	assert_string_equal(f.region.header->program, "trace_files_tes");
	traces_close(&f);
}

/* ---- orders ---- */

static const char *order(const char *text)
{
	struct trace_file f = traces_open(near_trace_path());
	struct near_region_object o;
	struct near__trace_control *c;
	static char answer[1024];
	uint32_t request;

	CHECK(near_region_object(&f.region, 3, &o) == 0);
	c = (struct near__trace_control *)near_region_common(&f.region, o.offset);
	snprintf(c->order, sizeof(c->order), "%s", text);
	request = __atomic_add_fetch(&c->request, 1, __ATOMIC_RELEASE);
	near__futex_wake(&c->request, 1, true);
	UNTIL(__atomic_load_n(&c->done, __ATOMIC_ACQUIRE) == request);
	snprintf(answer, sizeof(answer), "%s", c->answer);
	traces_close(&f);
	return answer;
}

static void orders_are_carried_out(void **state)
{
	char text[500];
	struct trace_file f;

	START(.enable = "none");
	numbers(0, 1);
	assert_string_equal(order("enable test:number"), "");
	numbers(1, 1);
	assert_string_equal(order("disable *"), "");
	numbers(2, 1);
	assert_string_equal(order("enable test:* 1"), "");
	numbers(3, 1);
	assert_string_equal(order("enable test:* 4"), "");
	numbers(4, 1);
	assert_string_equal(order("flush"), "");
	assert_true(*order("what"));
	assert_true(*order("enable"));
	assert_true(*order("enable x 99"));
	assert_true(*order("snapshot /none/x"));
	snprintf(text, sizeof(text), "snapshot %s/s", traces_folder);
	assert_string_equal(order(text), "");
	snprintf(text, sizeof(text), "%s/s", traces_folder);
	f = traces_open(text);
	forget();
	traces_read(&f, see, NULL);
	assert_int_equal(seen_n, 2);
	assert_true(seen[1] && seen[4]);
	traces_close(&f);
}

/* ---- the thread ---- */

static bool is_thread_of_tracer(const char *task)
{
	char path[300], name[20] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task);
	file = fopen(path, "re");
	if (file && fgets(name, sizeof(name), file))
		name[strcspn(name, "\n")] = 0;
	if (file)
		fclose(file);
	return strcmp(name, "near_trace") == 0;
}

/* Before it has begun it allocates, so that a fork could copy an allocator's lock that it holds:
 * AddressSanitizer's, of gcc 12. */
static void the_thread_has_begun_when_the_session_has(void **state)
{
	for (unsigned i = 0; i < unit_scale(100); i++) {
		unsigned n = 0;
		struct dirent *e;
		DIR *d;

		START(0);
		d = opendir("/proc/self/task");
		assert_non_null(d);
		while ((e = readdir(d)))
			n += is_thread_of_tracer(e->d_name);
		closedir(d);
		assert_int_equal(n, 1);
		assert_int_equal(near_trace_stop(), 0);
	}
}

int main(void)
{
	return UNIT_TESTS_IN(
		((struct unit_fixtures){NULL, traces_make_folder, traces_remove_folder, NULL}),
		a_folder_without_permission_is_reported, build_chroots_lack_the_default_folder,
		bytes_are_bounded, threads_that_are_not_live, snapshots_are_whole,
		a_snapshot_has_what_the_rings_have, streams_lose_nothing, streams_are_bounded,
		streams_go_to_a_folder, files_have_the_name_of_the_program, orders_are_carried_out,
		the_thread_has_begun_when_the_session_has);
}
