/* SPDX-License-Identifier: MIT */
/* near_region: its layout, how it is made and joined, and how slots open. */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/reserved.h"
#include "region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SIZE ((size_t)64 << 10)
#define DEFAULT_OBJECTS 64

/* The kernel may copy an entry that is being published in any order. */
#define SNAPSHOT_TRIES 3

#define MOST_CPUS (1u << 20) /* of the machine that a region is from; Linux has 8,192 */

/* Others may make and remove the file all the time: of 900,000 calls in 8 threads that did, one
 * lost 8 times in a row. A symbolic link to nothing stays one. */
#define OPEN_TRIES 64

/* No standard stream that is closed: what the program writes to its number would be in the region.
 */
static int above_standard(int fd)
{
	int higher;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	higher = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	if (higher < 0)
		errno = EMFILE; /* EINVAL, if no number that high is allowed */
	return higher;
}

/* ---- making and joining ---- */

static struct near__region_header header_of(const struct near_region_options *o)
{
	struct near__region_header h = {
		.magic = REGION_MAGIC,
		.version = REGION_VERSION,
		.cpus = near__process.cpus,
		.size = o->size ? o->size : DEFAULT_SIZE,
		.common_size = o->common_size ? o->common_size : DEFAULT_SIZE,
		.objects = o->max_objects ? o->max_objects : DEFAULT_OBJECTS,
		.created_ns = near__clock_ns(CLOCK_REALTIME),
		.creator = (uint64_t)getpid(),
	};

	prctl(PR_GET_NAME, h.program);
	return h;
}

static bool is_too_large(const struct near__region_header *h)
{
	return h->size > NEAR_REGION_MAX_SIZE || h->common_size > NEAR_REGION_MAX_COMMON ||
	       h->objects > NEAR_REGION_MAX_OBJECTS;
}

/* ftruncate(2) would send a signal that ends the program. */
static bool exceeds_limit(uint64_t size)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
	       size > most.rlim_cur;
}

static int region_make(struct near_region *r, int fd, const struct near_region_options *o)
{
	struct near__region_header h = header_of(o);
	size_t blocks;
	unsigned first;
	int err;

	if ((h.size | h.common_size) % sizeof(int64_t))
		return near__reason_set(r, -EINVAL, "the sizes of a region are multiples of 8");
	if (is_too_large(&h))
		return near__reason_set(
			r, -E2BIG,
			"a region has at most 256 MiB for each CPU, 1 TiB that exist once, "
			"and 65,536 objects");
	blocks = near__region_lay_out(&h).copies;
	if (exceeds_limit(h.total))
		return near__reason_set(r, -EFBIG,
					"the region is larger than a file of this process can be "
					"(RLIMIT_FSIZE)");
	if (ftruncate(fd, (off_t)h.total))
		return -errno;
	err = near__region_map(r, fd, &h);
	if (err)
		return err;
	err = near__region_write_whole(r, fd);
	if (err == 0)
		err = near__region_provide(r, fd, 0, blocks);
	first = near__region_first_fallback(h.cpus);
	if (err == 0)
		err = near__region_provide_slot(r, fd, first);
	if (err == 0) {
		*r->header = h;
		near__region_open_provided(r, first);
	}
	for (unsigned i = 0; err == 0 && o->initial && i < (o->n_initial ? o->n_initial : 1); i++)
		err = near__region_add_first(r, fd, &o->initial[i]);
	if (err)
		near__region_unmap(r);
	return err;
}

static const char truncated[] = "the file of the region was truncated";

static bool is_damaged(const struct near__region_header *h)
{
	struct near__region_header right = *h;

	if (h->cpus == 0 || h->cpus > MOST_CPUS || h->size == 0 || h->objects == 0 ||
	    (h->size | h->common_size) % sizeof(int64_t) || is_too_large(h))
		return true;
	near__region_lay_out(&right);
	return h->stride != right.stride || h->total != right.total;
}

/* Reads it. An error: this is not the header of a region that this process can use. By pread: a
 * file that is too short would fault. */
static int read_header(struct near_region *r, int fd, struct near__region_header *h)
{
	ssize_t size = pread(fd, h, sizeof(*h), 0);
	struct stat st;

	if (size < 0 && errno != ESPIPE)
		return -errno;
	if (size != (ssize_t)sizeof(*h) || h->magic != REGION_MAGIC)
		return near__reason_set(r, -EBADMSG, "the file is no region");
	if (h->version != REGION_VERSION)
		return near__reason_set(r, -EPROTO,
					"another version of the library made the region");
	if (h->cpus != near__process.cpus && !near__region_is_read_only(fd))
		return near__reason_set(
			r, -EXDEV,
			"the region was made on a machine with another number of possible "
			"CPUs; it can be read (nearcpu stats), but programs need a new file");
	if (is_damaged(h))
		return near__reason_set(r, -EBADMSG, "the header of the region is damaged");
	if (fstat(fd, &st) || (uint64_t)st.st_size < h->total)
		return near__reason_set(r, -EBADMSG, truncated);
	return 0;
}

/* All that other processes may have done is checked before this one uses it. A snapshot keeps the
 * header that was checked, whatever the file has by now. Slots are last: their check changes the
 * file. */
static int region_check(struct near_region *r, int fd, const struct near__region_header *h,
			size_t blocks)
{
	int err = near__region_provide(r, fd, 0, blocks);

	if (r->read_only)
		*r->header = *h;
	if (err == 0)
		err = near__region_check_directory(r, fd);
	if (err == 0)
		err = near__region_check_slots(r, fd);
	return err == -ENODATA ? near__reason_set(r, -EBADMSG, truncated) : err;
}

static int region_join(struct near_region *r, int fd, const struct near_region_options *unused)
{
	struct near__region_header h;
	int err = read_header(r, fd, &h), tries = SNAPSHOT_TRIES;

	(void)unused;
	if (err == 0)
		err = near__region_map(r, fd, &h);
	if (err)
		return err;
	do
		err = region_check(r, fd, &h, near__region_lay_out(&h).copies);
	while (err == -EBADMSG && r->read_only && --tries);
	if (err)
		near__region_unmap(r);
	return err;
}

/* Takes `fd` over. */
static int with_fd(struct near_region *r, int fd, const struct near_region_options *o,
		   int (*step)(struct near_region *, int, const struct near_region_options *))
{
	int err = fd < 0 ? -errno : 0;

	memset(r, 0, sizeof(*r));
	r->fd = -1;
	if (err == 0) {
		near__process_init();
		near__thread_live();
		err = step(r, fd, o);
		if (err)
			close(fd);
	}
	return err;
}

/* ---- opening ---- */

static int region_finish(struct near_region *r, struct region_caller c, int err)
{
	if (err && !near__reason_of(r))
		near__reason_set(r, err, NULL);
	return near__region_leave(c, err);
}

/* What allocates once and for all cannot shrink below it, whatever another holder does. */
static void region_seal(int fd)
{
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
}

/* Without is_named the file has no name, and `name` becomes its path in /proc. With it the file has
 * a temporary name, which contains the process id and the time: no thread chooses that of another,
 * and hardly any process on another machine with the same file system does. */
static int new_file(char *name, size_t size, const char *path, bool is_named)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path + 1) : 0, fd;
	struct timespec t;

	if (!is_named) {
		snprintf(name, size, "%.*s.", folder, path);
		fd = above_standard(open(name, O_RDWR | O_TMPFILE | O_CLOEXEC, 0666));
		if (fd >= 0)
			snprintf(name, size, "/proc/self/fd/%d", fd);
		return fd;
	}
	do {
		clock_gettime(CLOCK_REALTIME, &t);
		snprintf(name, size, "%.*s.nearcpu-%d-%lx", folder, path, (int)getpid(),
			 (unsigned long)t.tv_nsec);
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	} while (fd < 0 && errno == EEXIST);
	return above_standard(fd);
}

/* The file gets its name when the region in it is whole: no process ever sees a part of one. Not
 * every file system has files without a name, and not every container /proc.
 * -EEXIST: another process was faster. */
static int make_file(struct near_region *r, const char *path, const struct near_region_options *o)
{
	char name[PATH_MAX + 64];
	int err = -ENOENT;

	for (int i = 0; i < 2 && (err == -EOPNOTSUPP || err == -EISDIR || err == -ENOENT); i++) {
		err = with_fd(r, new_file(name, sizeof(name), path, i), o, region_make);
		if (err == 0 && (i ? link(name, path)
				   : linkat(AT_FDCWD, name, AT_FDCWD, path, AT_SYMLINK_FOLLOW))) {
			err = -errno;
			near_region_close(r);
		}
		if (i)
			unlink(name);
	}
	return err;
}

static int open_file(struct near_region *r, const char *path, const struct near_region_options *o)
{
	int err = -EEXIST;

	for (int i = 0; i < OPEN_TRIES && err == -EEXIST; i++) {
		err = with_fd(r, above_standard(open(path, O_RDWR | O_CLOEXEC)), NULL, region_join);
		if (err == -ENOENT && o->flags & NEAR_CREATE)
			err = make_file(r, path, o);
	}
	if (err == -EEXIST)
		near__reason_set(r, err, "the name is that of a symbolic link to nothing");
	return err;
}

static int make_unnamed(struct near_region *r, const struct near_region_options *o)
{
	int fd = above_standard(memfd_create("nearcpu", MFD_CLOEXEC | MFD_ALLOW_SEALING));
	int err = with_fd(r, fd, o, region_make);

	if (err == 0)
		region_seal(r->fd);
	return err;
}

int near_region_open(struct near_region *r, const char *path,
		     const struct near_region_options *options)
{
	static const struct near_region_options defaults;
	const struct near_region_options *o = options ? options : &defaults;
	struct region_caller c = near__region_enter();
	int err;

	*r = (struct near_region){.fd = -1};
	if (o->flags & ~NEAR_CREATE || !NEAR__RESERVED_ARE_ZERO(o))
		err = near__reason_set(
			r, -EINVAL,
			"options have no flag but NEAR_CREATE, and reserved words of 0");
	else
		err = path ? open_file(r, path, o) : make_unnamed(r, o);
	return region_finish(r, c, err);
}

int near_region_open_fd(struct near_region *r, int fd)
{
	struct region_caller c = near__region_enter();

	return region_finish(
		r, c, with_fd(r, above_standard(fcntl(fd, F_DUPFD_CLOEXEC, 0)), NULL, region_join));
}

const char *near_region_error(const struct near_region *r)
{
	return near__reason_of(r);
}
