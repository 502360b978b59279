/* SPDX-License-Identifier: MIT */
/* The profile's files, in the text format of gperftools' heap profiler, which pprof and jeprof
 * read: a header, a line for each stack, and the mappings of the process. The numbers are those of
 * the samples; what follows @ in the header tells the tools how to scale them.
 *
 * Nothing here locks or allocates: it runs in a signal handler. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "malloc/base/conf.h"
#include "malloc/base/file.h"
#include "malloc/observe/profile.h"
#include "malloc/base/text.h"

#define PREFIX_MAX 4000
#define NAMES_MAX 10000

uint32_t near__buckets[NEAR__BUCKET_CHAINS];

static char prefix[PREFIX_MAX + 1]; /* the environment is the program's to change */
static unsigned written;

struct sums {
	uint64_t used, used_bytes;    /* now */
	uint64_t allocs, alloc_bytes; /* so far */
};

static void complain(const char *what, const char *path, const char *reason)
{
	struct near__text line = {.fd = 2};

	near__text_add(&line, "nearcpu-malloc: heap profile: ");
	near__text_add(&line, what);
	near__text_add(&line, path);
	near__text_add(&line, reason);
	near__text_add(&line, "\n");
	near__text_flush(&line);
}

/* ---- numbers ---- */

/* Each number by itself: those of a bucket that changes need not fit together. But what was freed
 * was allocated before, and where no block is left there are no bytes: pprof refuses a file that
 * says otherwise. */
static void read_bucket(const struct near__bucket *b, struct sums *out)
{
	uint64_t frees = __atomic_load_n(&b->frees, __ATOMIC_RELAXED);
	uint64_t free_bytes = __atomic_load_n(&b->free_bytes, __ATOMIC_RELAXED);

	/* Pairs with the release in add(): the loads below find what was allocated before those
	 * frees. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	out->allocs = __atomic_load_n(&b->allocs, __ATOMIC_RELAXED);
	out->alloc_bytes = __atomic_load_n(&b->alloc_bytes, __ATOMIC_RELAXED);
	if (!out->allocs)
		out->alloc_bytes = 0;
	out->used = out->allocs - frees;
	out->used_bytes = out->used ? out->alloc_bytes - free_bytes : 0;
}

/* "1: 24 [3: 72] @" */
static void put_sums(struct near__text *t, const struct sums *s, const char *zero)
{
	near__text_number(t, s->used);
	near__text_add(t, ": ");
	near__text_number(t, s->used_bytes);
	near__text_add(t, " [");
	near__text_add(t, zero);
	near__text_number(t, s->allocs);
	near__text_add(t, ": ");
	near__text_number(t, s->alloc_bytes);
	near__text_add(t, "] @");
}

typedef void visit(const struct near__bucket *b, void *arg);

static void for_each_bucket(visit *run, void *arg)
{
	for (unsigned c = 0; c < NEAR__BUCKET_CHAINS; c++) {
		/* Pairs with the release of who adds one. */
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
	struct near__text *t = arg;
	struct sums s;

	read_bucket(b, &s);
	put_sums(t, &s, "");
	for (unsigned i = 0; i < b->depth; i++) {
		near__text_add(t, " ");
		near__text_hex(t, (uintptr_t)b->stack[i]);
	}
	near__text_add(t, "\n");
}

/* ---- the file ---- */

static void put_mappings(struct near__text *t)
{
	char bytes[512];
	long n, fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);

	near__text_add(t, "\nMAPPED_LIBRARIES:\n");
	if (fd < 0)
		return;
	while ((n = syscall(SYS_read, (int)fd, bytes, sizeof(bytes))) > 0)
		near__text_bytes(t, bytes, (size_t)n);
	syscall(SYS_close, (int)fd);
}

/* The 0 before the number of allocations: pprof offers what was allocated only if that number is
 * not spelled as the one in use is; where nothing was freed they are equal. */
static void put_profile(struct near__text *t)
{
	struct sums sums = {0, 0, 0, 0};
	uint64_t rate = near__malloc_conf.heap_sample;

	for_each_bucket(add_bucket, &sums);
	near__text_add(t, "heap profile: ");
	put_sums(t, &sums, "0");
	near__text_add(t, " heapz_v2/");
	near__text_number(t, rate ? rate : 1);
	near__text_add(t, "\n");
	for_each_bucket(put_bucket, t);
	put_mappings(t);
}

/* PREFIX.PID.N.heap */
static void make_path(char *path, size_t size)
{
	struct near__text t = {.fd = -1};
	size_t n = strlen(prefix);

	near__text_add(&t, ".");
	near__text_number(&t, (uint64_t)syscall(SYS_getpid));
	near__text_add(&t, ".");
	near__text_number(&t, __atomic_fetch_add(&written, 1, __ATOMIC_RELAXED));
	near__text_add(&t, ".heap");
	t.used = t.used < size - n - 1 ? t.used : size - n - 1;
	memcpy(path, prefix, n);
	memcpy(path + n, t.buffer, t.used);
	path[n + t.used] = '\0';
}

/* The first name that nobody has: of an earlier process with this number a file stays. */
static int create(char *path, size_t size)
{
	int fd = -EEXIST;

	for (unsigned i = 0; i < NAMES_MAX && fd == -EEXIST; i++) {
		make_path(path, size);
		fd = near__file_create(path);
	}
	return fd;
}

void near__profile_write(void)
{
	char path[PREFIX_MAX + 64];
	struct near__text t = {.fd = create(path, sizeof(path))};
	int error, saved = errno;

	if (t.fd < 0) {
		complain("cannot create ", path, near__file_reason(t.fd));
		return;
	}
	put_profile(&t);
	errno = saved;
	near__text_flush(&t);
	error = near__file_close(t.fd);
	error = t.error ? -t.error : error;
	if (error)
		complain("not written whole: ", path, near__file_reason(error));
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
		complain("no handler can be had for the signal that is set", "", "");
	errno = saved;
}

void near__profile_files_init(void)
{
	const struct near__conf_text *text = &near__malloc_conf.profile;
	size_t n = text->len < PREFIX_MAX ? text->len : PREFIX_MAX;

	memcpy(prefix, text->text, n);
	watch_signal();
}

/* Behind what the program does at its end. */
__attribute__((destructor)) static void at_exit(void)
{
	if (near__heap.hooks == NEAR__PROFILED)
		near__profile_write();
}
