/* SPDX-License-Identifier: MIT */
/* The profile's files, in the text format of gperftools' heap profiler, which pprof and jeprof
 * read: a header, a line for each stack, and the mappings of the process. The numbers are those of
 * the samples; the tools scale them by the rate after @ in the header.
 *
 * The code runs in signal handlers: it takes no lock, and allocates nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "malloc/base/malloc_conf.h"
#include "malloc/base/out.h"
#include "malloc/base/safe_file.h"
#include "malloc/diagnostics/profile.h"

#define PREFIX_MAX 4000
#define NAMES_MAX 10000
#define KEPT_MAX 1000

uint32_t near__buckets[NEAR__BUCKET_CHAINS];

static char prefix[PREFIX_MAX + 1]; /* a copy: the program may change its environment */
static uint32_t written;

/* Intervals; both words order nothing. */
static uint64_t due;            /* in ms */
static uint32_t turn;           /* the next place */
static uint32_t kept[KEPT_MAX]; /* numbers of their files, plus one */

struct sums {
	uint64_t used, used_bytes;    /* now */
	uint64_t allocs, alloc_bytes; /* so far */
};

static void profile_complain(const char *what, const char *path, const char *reason)
{
	struct near__out line;

	near__out_begin_fd(&line, 2);
	near__out_print(&line, "nearcpu-malloc: heap profile: %s%s%s\n", what, path, reason);
	near__out_end(&line);
}

/* ---- numbers ---- */

/* Loads each number separately: those of a bucket that changes concurrently need not match. But
 * every block that was freed was allocated before, and no blocks have no bytes: pprof refuses a
 * file in which this does not hold. */
static void read_bucket(const struct near__bucket *b, struct sums *out)
{
	uint64_t frees = __atomic_load_n(&b->frees, __ATOMIC_RELAXED);
	uint64_t free_bytes = __atomic_load_n(&b->free_bytes, __ATOMIC_RELAXED);

	/* Pairs with the release in profile_add(): the loads below include the allocations before
	 * those frees. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	out->allocs = __atomic_load_n(&b->allocs, __ATOMIC_RELAXED);
	out->alloc_bytes = __atomic_load_n(&b->alloc_bytes, __ATOMIC_RELAXED);
	if (!out->allocs)
		out->alloc_bytes = 0;
	out->used = out->allocs - frees;
	out->used_bytes = out->used ? out->alloc_bytes - free_bytes : 0;
}

/* "1: 24 [3: 72] @" */
static void put_sums(struct near__out *o, const struct sums *s, const char *zero)
{
	near__out_print(o, "%lu: %lu [%s%lu: %lu] @", s->used, s->used_bytes, zero, s->allocs,
			s->alloc_bytes);
}

typedef void visit(const struct near__bucket *b, void *arg);

static void for_each_bucket(visit *run, void *arg)
{
	for (unsigned c = 0; c < NEAR__BUCKET_CHAINS; c++) {
		/* Pairs with the release in bucket_for. */
		uint32_t number = __atomic_load_n(&near__buckets[c], __ATOMIC_ACQUIRE);

		while (number) {
			const struct near__bucket *b = near__meta_at(number);

			run(b, arg);
			number = b->next;
		}
	}
}

static void add_bucket(const struct near__bucket *b, void *arg)
{
	struct sums *sums = arg, s;

	read_bucket(b, &s);
	sums->used += s.used;
	sums->used_bytes += s.used_bytes;
	sums->allocs += s.allocs;
	sums->alloc_bytes += s.alloc_bytes;
}

static void put_bucket(const struct near__bucket *b, void *arg)
{
	struct near__out *o = arg;
	struct sums s;

	read_bucket(b, &s);
	put_sums(o, &s, "");
	for (unsigned i = 0; i < b->depth; i++)
		near__out_print(o, " %#lx", (uintptr_t)b->stack[i]);
	near__out_print(o, "\n");
}

/* ---- the file ---- */

static void put_mappings(struct near__out *o)
{
	char bytes[512];
	long n, fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);

	near__out_print(o, "\nMAPPED_LIBRARIES:\n");
	if (fd < 0)
		return;
	while ((n = syscall(SYS_read, (int)fd, bytes, sizeof(bytes))) > 0)
		near__out_bytes(o, bytes, (size_t)n);
	syscall(SYS_close, (int)fd);
}

/* The 0 before the number of allocations: pprof shows the allocations only if that number is
 * spelled differently from the number in use; where nothing was freed the two are equal. */
static void put_profile(struct near__out *o)
{
	struct sums sums = {0, 0, 0, 0};
	uint64_t rate = near__malloc_conf.heap_sample;

	for_each_bucket(add_bucket, &sums);
	near__out_print(o, "heap profile: ");
	put_sums(o, &sums, "0");
	near__out_print(o, " heapz_v2/%lu\n", rate ? rate : 1);
	for_each_bucket(put_bucket, o);
	put_mappings(o);
}

/* PREFIX.PID.N.heap */
static void profile_make_path(char *path, size_t size, uint32_t number)
{
	struct near__out o;
	size_t n = strlen(prefix);

	near__out_begin(&o, NULL, NULL);
	near__out_print(&o, ".%lu.%lu.heap", (unsigned long)syscall(SYS_getpid),
			(unsigned long)number);
	o.used = o.used < size - n - 1 ? o.used : size - n - 1;
	memcpy(path, prefix, n);
	memcpy(path + n, o.text, o.used);
	path[n + o.used] = '\0';
}

/* The first name that is free: an earlier process with this id may have left files. */
static int profile_create(char *path, size_t size, uint32_t *number)
{
	int fd = -EEXIST;

	for (unsigned i = 0; i < NAMES_MAX && fd == -EEXIST; i++) {
		*number = __atomic_fetch_add(&written, 1, __ATOMIC_RELAXED);
		profile_make_path(path, size, *number);
		fd = near__file_create(path);
	}
	return fd;
}

static void file_remove(const char *path)
{
	syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

/* 0 or a negative errno. A part of a profile helps nobody, and a full disk may be the program's. */
static int profile_try(bool complains, uint32_t *number)
{
	char path[PREFIX_MAX + 64];
	int fd = profile_create(path, sizeof(path), number), error;
	struct near__out o;

	if (fd < 0) {
		if (complains)
			profile_complain("cannot create ", path, near__file_reason(fd));
		return fd;
	}
	near__out_begin_fd(&o, fd);
	put_profile(&o);
	error = near__out_end(&o);
	if (error) /* before it is closed, which nearcpu heap waits for */
		file_remove(path);
	if (near__file_close(fd) && !error) {
		error = -EIO;
		file_remove(path);
	}
	if (error && complains)
		profile_complain("not written whole, and removed: ", path,
				 near__file_reason(error));
	return error;
}

void near__profile_write(void)
{
	uint32_t number;
	int saved = errno;

	profile_try(true, &number);
	errno = saved;
}

/* ---- intervals ---- */

/* Removes the oldest if there would be too many. No other file: a name that was taken was skipped,
 * and is not in the table. */
static void interval_keep(uint32_t number)
{
	char path[PREFIX_MAX + 64];
	uint64_t most = near__malloc_conf.heap_keep;
	uint32_t old, place;

	if (!most)
		return;
	most = most < KEPT_MAX ? most : KEPT_MAX;
	place = __atomic_fetch_add(&turn, 1, __ATOMIC_RELAXED) % (uint32_t)most;
	old = __atomic_exchange_n(&kept[place], number + 1, __ATOMIC_RELAXED);
	if (old) {
		profile_make_path(path, sizeof(path), old - 1);
		file_remove(path);
	}
}

/* Few blocks are sampled, so the clock is read seldom. One line reports intervals that fail one
 * after the other. */
void near__profile_interval(void)
{
	static int last; /* relaxed: two threads may both complain */
	uint64_t now, next, seen, interval = near__malloc_conf.heap_interval;
	int error, saved = errno;
	uint32_t number;

	if (!interval)
		return;
	now = near__os_ms();
	seen = __atomic_load_n(&due, __ATOMIC_RELAXED);
	next = now + (interval < UINT32_MAX ? interval : UINT32_MAX) * 1000;
	/* One thread wins; it writes by itself. The first sample begins the first interval. */
	if (now < seen ||
	    !__atomic_compare_exchange_n(&due, &seen, next, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) ||
	    !seen)
		return;
	error = profile_try(!__atomic_load_n(&last, __ATOMIC_RELAXED), &number);
	__atomic_store_n(&last, error, __ATOMIC_RELAXED);
	if (!error)
		interval_keep(number);
	errno = saved;
}

void near__profile_files_fork_child(void)
{
	if (near__malloc_conf.heap_interval)
		memset(kept, 0, sizeof(kept));
}

/* ---- when ---- */

static void on_signal(int signal)
{
	(void)signal;
	near__profile_write();
}

static void watch_signal(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	uint64_t number = near__malloc_conf.heap_signal;
	int saved = errno;

	sigfillset(&action.sa_mask);
	if (number && (number > 64 || sigaction((int)number, &action, NULL) < 0))
		profile_complain("no handler can be had for the signal that is set", "", "");
	errno = saved;
}

void near__profile_files_init(void)
{
	const struct near__conf_text *text = &near__malloc_conf.profile;
	size_t n = text->len < PREFIX_MAX ? text->len : PREFIX_MAX;

	memcpy(prefix, text->text, n);
	watch_signal();
}

/* After the program's own destructors. */
__attribute__((destructor)) static void at_exit(void)
{
	if (near__heap.hooks == NEAR__PROFILED)
		near__profile_write();
}
