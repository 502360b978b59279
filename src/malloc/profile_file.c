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

#include "conf.h"
#include "profile.h"
#include "text.h"

#define PREFIX_MAX 4000

static char prefix[PREFIX_MAX + 1]; /* the environment is the program's to change */
static unsigned written;

struct sums {
	uint64_t allocs, alloc_bytes, frees, free_bytes;
};

static void complain(const char *what, const char *path)
{
	struct near__text line = {.fd = 2};

	near__text_add(&line, "nearcpu-malloc: heap profile: ");
	near__text_add(&line, what);
	near__text_add(&line, path);
	near__text_add(&line, "\n");
	near__text_flush(&line);
}

/* ---- numbers ---- */

/* Each number by itself: beside other threads they need not fit together, but what was freed was
 * allocated before. */
static void read_bucket(const struct near__bucket *b, struct sums *out)
{
	out->frees = __atomic_load_n(&b->frees, __ATOMIC_RELAXED);
	out->free_bytes = __atomic_load_n(&b->free_bytes, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	out->allocs = __atomic_load_n(&b->allocs, __ATOMIC_RELAXED);
	out->alloc_bytes = __atomic_load_n(&b->alloc_bytes, __ATOMIC_RELAXED);
}

/* "1: 24 [3: 72] @" */
static void put_sums(struct near__text *t, const struct sums *s)
{
	near__text_number(t, s->allocs - s->frees);
	near__text_add(t, ": ");
	near__text_number(t, s->alloc_bytes - s->free_bytes);
	near__text_add(t, " [");
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
	sums->allocs += s.allocs;
	sums->alloc_bytes += s.alloc_bytes;
	sums->frees += s.frees;
	sums->free_bytes += s.free_bytes;
}

static void put_bucket(const struct near__bucket *b, void *arg)
{
	struct near__text *t = arg;
	struct sums s;

	read_bucket(b, &s);
	put_sums(t, &s);
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

static void put_profile(struct near__text *t)
{
	struct sums sums = {0, 0, 0, 0};

	for_each_bucket(add_bucket, &sums);
	near__text_add(t, "heap profile: ");
	put_sums(t, &sums);
	near__text_add(t, " heapz_v2/");
	near__text_number(t, near__malloc_conf.heap_sample);
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

void near__profile_write(void)
{
	char path[PREFIX_MAX + 64];
	struct near__text t = {.fd = -1};
	int saved = errno;
	bool good;

	make_path(path, sizeof(path));
	t.fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
			    0666);
	if (t.fd < 0) {
		complain("cannot create ", path);
		errno = saved;
		return;
	}
	put_profile(&t);
	good = near__text_flush(&t);
	if (syscall(SYS_close, t.fd) < 0 || !good)
		complain("not written whole: ", path);
	errno = saved;
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
		complain("no handler can be had for the signal that is set", "");
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
