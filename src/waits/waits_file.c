/* SPDX-License-Identifier: MIT */
/* The file of the process: made when the library is loaded, so that the command can switch it on.
 * A child of fork makes its own at its first wait, and obeys its parent's until then. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "waits/record.h"

#define PAGE 4096
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { FORKED_NOT, FORKED, FORKED_MAKES };

static char folder[PATH_MAX - 32], own_path[PATH_MAX];
static struct near__waits *_Atomic current; /* set before threads, and under FORKED_MAKES */
static _Atomic unsigned forked;
static atomic_flag is_reading = ATOMIC_FLAG_INIT;

/* ---- the mappings, for the names of functions ---- */

static void maps_read(struct near__waits *f)
{
	size_t have = 0;
	long n = 1;
	int fd;

	if (atomic_flag_test_and_set(&is_reading))
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	for (; fd >= 0 && n > 0 && have < sizeof(f->maps) - 1; have += (size_t)n) {
		n = syscall(SYS_read, fd, f->maps + have, sizeof(f->maps) - 1 - have);
		n = n > 0 ? n : 0;
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	atomic_flag_clear(&is_reading);
}

/* At the 1st, 2nd, 4th, ... site, and at exit: more libraries may have been loaded. */
void near__waits_add_site(struct near__waits *f)
{
	uint32_t n = atomic_load(&f->head.sites);

	if ((n & (n - 1)) == 0)
		maps_read(f);
}

/* ---- the file ---- */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* One that is not there yet: the same pid has several if it executes programs. */
static int file_create(void)
{
	int fd = -1;

	for (unsigned i = 0; i < 1000 && fd < 0 && (!i || errno == EEXIST); i++) {
		snprintf(own_path, sizeof(own_path), "%s/%d.%u", folder, getpid(), i);
		fd = (int)syscall(SYS_openat, AT_FDCWD, own_path,
				  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	}
	return fd;
}

/* A file system that is full gives SIGBUS where a block is missing: all are allocated before they
 * are written. */
static struct near__waits *file_make(bool is_on, bool is_fork)
{
	struct near__waits *f = MAP_FAILED;
	struct rlimit most;
	int fd = getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur < sizeof(*f) ? -1 : file_create();

	if (fd < 0) /* or the size would give SIGXFSZ */
		return NULL;
	if (!syscall(SYS_ftruncate, fd, sizeof(*f)) && !syscall(SYS_fallocate, fd, 0, 0, PAGE))
		f = mmap(NULL, sizeof(*f), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (f == MAP_FAILED) {
		unlink(own_path);
		return NULL;
	}
	f->head.size = sizeof(*f);
	f->head.pid = (uint32_t)getpid();
	f->head.is_fork = is_fork;
	f->head.begin = clock_ns(CLOCK_MONOTONIC);
	f->head.begin_realtime = clock_ns(CLOCK_REALTIME);
	snprintf(f->head.program, sizeof(f->head.program), "%s", program_invocation_name);
	atomic_store(&f->head.is_on, is_on);
	f->head.magic = NEAR__WAITS_MAGIC;
	return f;
}

/* By the mapping: no descriptor stays open, which the program could close, and the user may be
 * another one by now. Before Linux 5.14, by the path. */
static bool file_allocate(struct near__waits *f)
{
	uint32_t was = atomic_load_explicit(&f->head.allocated, memory_order_acquire);
	int fd = -1, err = 0;

	if (was)
		return was == 1;
	if (madvise(f, sizeof(*f), MADV_POPULATE_WRITE))
		err = errno == EFAULT ? ENOSPC : errno; /* what would be a SIGBUS is EFAULT */
	if (err == EINVAL) {
		fd = (int)syscall(SYS_openat, AT_FDCWD, own_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
		err = fd >= 0 && !syscall(SYS_fallocate, fd, 0, 0, sizeof(*f)) ? 0 : errno;
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	atomic_store_explicit(&f->head.allocated, err > 0 ? (uint32_t)err + 1 : 1,
			      memory_order_release);
	return !err;
}

/* Other threads wait for the one that makes the file, and are not in a handler of it: there nothing
 * is recorded. */
static void file_renew(void)
{
	unsigned was = FORKED;

	if (!atomic_compare_exchange_strong(&forked, &was, FORKED_MAKES)) {
		while (atomic_load(&forked) == FORKED_MAKES)
			sched_yield();
		return;
	}
	near__waits_forget_locks();
	atomic_store(&current, file_make(true, true));
	atomic_flag_clear(&is_reading);
	atomic_store(&forked, FORKED_NOT);
}

bool near__waits_on(void)
{
	struct near__waits *f = atomic_load_explicit(&current, memory_order_relaxed);

	return f && atomic_load_explicit(&f->head.is_on, memory_order_relaxed) &&
	       !atomic_load_explicit(&forked, memory_order_relaxed);
}

struct near__waits *near__waits_file(void)
{
	struct near__waits *f = atomic_load_explicit(&current, memory_order_acquire);

	if (!f || !atomic_load_explicit(&f->head.is_on, memory_order_relaxed))
		return NULL;
	if (atomic_load_explicit(&forked, memory_order_acquire)) {
		file_renew();
		f = atomic_load_explicit(&current, memory_order_acquire);
	}
	return f && file_allocate(f) ? f : NULL;
}

/* ---- begin and end ---- */

static void file_fork_child(void)
{
	bool inside = near__waits_self.inside;

	near__waits_self = (struct near__waits_self){.inside = inside};
	atomic_store(&forked, FORKED);
}

__attribute__((constructor)) static void file_begin(void)
{
	const char *conf = getenv("NEAR_LOCKS");
	bool is_off = conf && strncmp(conf, "off:", 4) == 0;

	conf = conf && is_off ? conf + 4 : conf;
	if (!conf || conf[0] != '/' || strlen(conf) >= sizeof(folder))
		return;
	strcpy(folder, conf);
	pthread_atfork(NULL, NULL, file_fork_child);
	atomic_store_explicit(&current, file_make(!is_off, false), memory_order_release);
}

/* Without a wait there is nothing to keep; a parent's file is not this process's. */
__attribute__((destructor)) static void file_end(void)
{
	struct near__waits *f = atomic_load(&current);

	if (!f || atomic_load(&forked))
		return;
	atomic_store(&f->head.end, clock_ns(CLOCK_MONOTONIC));
	if (!atomic_load(&f->head.allocated))
		unlink(own_path);
	else if (atomic_load(&f->head.allocated) == 1)
		maps_read(f);
}
