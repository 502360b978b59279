/* SPDX-License-Identifier: MIT */
/* near_trace: the file of a session is made, and closed. */
#define _GNU_SOURCE
#include "base/bits.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "region/region.h"

#define DEFAULT_RING ((uint64_t)1 << 20)
#define NAME_TRIES 1000
#define PROGRAM ((int)sizeof(((struct near__region_header *)0)->program))

/* ---- names ---- */

bool near__trace_is_folder(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Letters, digits, `-`, `_` and `.` of the program's name, which is not that of a thread. */
static void program_name(char *name)
{
	const char *program = program_invocation_short_name;

	if (program && *program)
		snprintf(name, PROGRAM, "%.*s", PROGRAM - 1, program);
	else
		prctl(PR_GET_NAME, name);
	for (char *c = name; *c; c++)
		if (!((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') ||
		      (*c >= 'A' && *c <= 'Z') || *c == '-' || *c == '.'))
			*c = '_';
}

/* A folder gets PROGRAM-PID.trace. A file keeps its name; in a child -PID is added. From the second
 * try on a number is added, except to a name that the program gave. False: there are no more. */
static bool trace_make_path(char *path, const char *given, bool is_first, unsigned try)
{
	char name[PROGRAM], number[16] = "";

	if (try > 1)
		snprintf(number, sizeof(number), "-%u", try);
	if (near__trace.is_folder) {
		program_name(name);
		return snprintf(path, PATH_MAX, "%s/%s-%d%s.trace", given, name, (int)getpid(),
				number) < PATH_MAX;
	}
	if (is_first)
		return try == 1 && snprintf(path, PATH_MAX, "%s", given) < PATH_MAX;
	return snprintf(path, PATH_MAX, "%s-%d%s", given, (int)getpid(), number) < PATH_MAX;
}

/* ---- the file ---- */

uint64_t near__trace_define(struct near_region_object *objects, uint64_t rings,
			    uint64_t ring_stride)
{
	static const struct near_region_object all[4] = {
		[NEAR__AT_SESSION] = {.name = NEAR__TRACE_SESSION_NAME,
				      .kind = NEAR__TRACE_SESSION_KIND,
				      .flags = NEAR_REGION_COMMON},
		[NEAR__AT_POINTS] = {.name = NEAR__TRACE_POINTS_NAME,
				     .kind = NEAR__TRACE_POINTS_KIND,
				     .flags = NEAR_REGION_COMMON | NEAR_REGION_SPARSE,
				     .size = NEAR__TRACE_POINTS_SIZE},
		[NEAR__AT_RINGS] = {.name = NEAR__TRACE_RINGS_NAME,
				    .kind = NEAR__TRACE_RINGS_KIND,
				    .flags = NEAR_REGION_COMMON | NEAR_REGION_SPARSE},
		[NEAR__AT_CONTROL] = {.name = NEAR__TRACE_CONTROL_NAME,
				      .kind = NEAR__TRACE_CONTROL_KIND,
				      .flags = NEAR_REGION_COMMON,
				      .size = sizeof(struct near__trace_control)},
	};
	uint64_t total = 0;

	memcpy(objects, all, sizeof(all));
	objects[NEAR__AT_SESSION].size =
		sizeof(struct near__trace_session) + near__bit_words(rings) * sizeof(uint64_t);
	objects[NEAR__AT_RINGS].size = rings * ring_stride;
	for (unsigned i = 0; i < 4; i++)
		total += near__round_up(objects[i].size, REGION_PAGE);
	return total;
}

static char *file_object(const struct near__trace_file *f, enum near__trace_object i)
{
	return near_region_common(&f->region, f->objects[i].offset);
}

/* Another process that has the same number in its namespace may make the same file: the one that
 * stores its process id has it. */
static bool is_mine(const struct near__trace_file *f)
{
	uint64_t nobody = 0;

	return __atomic_compare_exchange_n(&f->session->pid, &nobody, (uint64_t)getpid(), false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

int near__trace_file_make(struct near__trace_file *f, const char *path, uint64_t rings)
{
	struct near_region_options options = {.flags = NEAR_CREATE,
					      .size = 8,
					      .max_objects = 8,
					      .initial = f->objects,
					      .n_initial = 4};
	int err = -EEXIST;

	options.common_size = near__trace_define(f->objects, rings, f->ring_stride);
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW))
		err = near_region_open(&f->region, path, &options);
	if (err == -EEXIST)
		return near__trace_fail(err, "the file exists already");
	if (err)
		return near__reason_pass_on(&near__trace, err);
	f->session = (struct near__trace_session *)file_object(f, NEAR__AT_SESSION);
	f->points = file_object(f, NEAR__AT_POINTS);
	f->rings = file_object(f, NEAR__AT_RINGS);
	if (is_mine(f))
		return 0;
	near_region_close(&f->region);
	f->session = NULL;
	return near__trace_fail(-EEXIST, "the file exists already");
}

static int make_file(struct near__trace_run *t, const char *given, bool is_first)
{
	int err = near__trace_fail(-EEXIST, "the file exists already");

	for (unsigned try = 1; try < NAME_TRIES && err == -EEXIST; try++) {
		if (!trace_make_path(t->path, given, is_first, try))
			break;
		err = near__trace_file_make(&t->file, t->path, t->slots + t->cpus);
	}
	return err;
}

static bool is_on_disk(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) ||
	       ((uint32_t)fs.f_type != TMPFS_MAGIC && (uint32_t)fs.f_type != RAMFS_MAGIC);
}

/* The version last, a release: a reader that finds it finds the rest. */
static bool file_fill(struct near__trace_run *t, uint64_t parent)
{
	static const uint32_t clocks[] = {NEAR__TRACE_COUNTER, NEAR__TRACE_MONOTONIC,
					  NEAR__TRACE_OWN, NEAR__TRACE_NO_CLOCK};
	struct near__trace_session *s = t->file.session;
	struct near_rseq_status status;
	struct stat st;

	near_rseq_status(&status, sizeof(status));
	t->control = (struct near__trace_control *)file_object(&t->file, NEAR__AT_CONTROL);
	program_name(t->file.region.header->program);
	if (fstat(t->file.region.fd, &st) == 0) {
		t->device = st.st_dev;
		t->inode = st.st_ino;
	}
	s->mode = t->mode;
	s->clock = clocks[t->clock - 1];
	s->slots = t->slots;
	s->cpus = t->cpus;
	s->slot_kind = status.slot_kind;
	s->unstable = t->clock == NEAR_TRACE_COUNTER && near__trace_is_unstable();
	s->flags = NEAR__TRACE_NO_THREAD | (near__process.usable ? NEAR__TRACE_FENCES : 0);
	s->on_disk = is_on_disk(t->file.region.fd);
	s->ring_size = t->file.ring_size;
	s->ring_stride = t->file.ring_stride;
	s->parent = parent;
	s->number = ++near__trace.number;
	near__trace_read_moment(&s->begin);
	s->latest[0] = s->begin;
	if (!near__trace_write_points(t, near__trace.first) ||
	    !near__trace_write_points(t, near__trace.variants))
		return false;
	__atomic_store_n(&s->version, NEAR__TRACE_VERSION, __ATOMIC_RELEASE);
	return true;
}

/* ---- sessions ---- */

int near__trace_open(struct near__trace_run **out, const struct near_trace_options *o)
{
	unsigned slots = near_slots(), cpus = near_cpus();
	size_t size =
		sizeof(struct near__trace_run) + (slots + cpus) * sizeof(struct near__trace_local);
	/* Populated: else the first events would fault. */
	struct near__trace_run *t = mmap(NULL, size, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	int err;

	if (t == MAP_FAILED)
		return near__trace_fail(-errno, "no memory");
	t->size = size;
	t->slots = slots;
	t->cpus = cpus;
	t->mode = o->mode;
	t->clock = o->clock;
	t->file.ring_size = o->ring_size ? o->ring_size : DEFAULT_RING;
	t->file.ring_stride = t->file.ring_size + NEAR__TRACE_PAGE;
	t->stream.file_size = o->file_size ? o->file_size : (uint64_t)64 << 20;
	t->stream.files = o->files ? o->files : 4;
	snprintf(t->stream.folder, PATH_MAX, "%s", near__trace.stream);
	t->most_rings = o->max_bytes ? o->max_bytes / t->file.ring_stride : slots + cpus;
	t->row = (uint64_t *)(uintptr_t)near__trace_table + (t->clock - 1);
	err = make_file(t, o->path, !near__trace.is_child);
	if (!err && !file_fill(t, near__trace.is_child ? near__trace.parent : 0)) {
		unlink(t->path);
		near_region_close(&t->file.region);
		err = near__trace_fail(-ENOSPC, "the file system is full");
	}
	if (err) {
		munmap(t, size);
		return err;
	}
	*out = t;
	return 0;
}

bool near__trace_is_interrupted(void)
{
	return near__self.block == &near__no_block || near__trace_thread_peek()->inside;
}

/* A slow path that the fork has interrupted goes on, and finds private memory where the file was.
 * If there is none the address space is given back. */
void near__trace_detach(struct near__trace_run *t)
{
	void *at = t->file.region.header;
	size_t total = t->file.region.total;

	if (t->stream.file.session)
		near_region_close(&t->stream.file.region);
	if (!near__trace_is_interrupted()) {
		near_region_close(&t->file.region);
		munmap(t, t->size);
		return;
	}
	if (near__region_has_file(&t->file.region))
		close(t->file.region.fd);
	t->file.region.fd = -1;
	if (mmap(at, total, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		near__die("near_trace: no memory in a child of fork");
}
