/* SPDX-License-Identifier: MIT */
/* near_trace: sessions begin and end; trace.h has the argument. */
#define _GNU_SOURCE
#include "base/known.h"
#include "trace/trigger.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/reserved.h"
#include "base/tsan.h"
#include "base/valgrind.h"
#include "rcu/rcu.h"
#include "region/region.h"

#define LEAST_RING (NEAR__TRACE_SUB_SIZE * NEAR__TRACE_LEAST_SUBS)
#define MOST_RING ((size_t)1 << 30)
#define DEFAULT_FOLDER "/dev/shm"

static struct near__fork_turn turn;

/* ---- begin ---- */

/* With the lock, and near__trace.options. The session is published before tracepoints are
 * switched on; what they load is ordered by their acquire. */
static int session_begin(bool with_thread)
{
	struct near_trace_options *o = &near__trace.options;
	struct near__trace_run *t;
	int err = near__trace_open(&t, o);

	if (err)
		return err;
	near__trace.now = o->now;
	strcpy(near__trace.last_path, t->path);
	__atomic_store_n(&near__trace.current, t, __ATOMIC_SEQ_CST);
	near__trace_count_missed(t);
	if (with_thread && !near__trace.is_child) /* the thread of a child does it */
		near__trace_ahead(t);
	if (with_thread)
		near__trace_start_thread(t);
	if (!t->has_thread)
		near__trace_map_order(t);
	near__trace_apply(t->clock);
	return 0;
}

/* The session of a child. If the file cannot be made, the child does not trace. */
static void child_begin(bool with_thread)
{
	if (near__trace.is_child && session_begin(with_thread))
		near__trace_apply(0);
	near__trace.is_child = 0;
}

/* An event that arrives while the file is being created is dropped and counted. */
static struct near__trace_run *session_resume(void)
{
	struct region_caller c = near__region_enter();
	struct near__trace_run *t = NULL, *made;
	sigset_t signals;

	if (near__trace_try_lock(&near__trace.lock, &signals)) {
		child_begin(false);
		t = near__trace.current;
		near__trace_unlock(&near__trace.lock, &signals);
	} else {
		__atomic_fetch_add(&near__trace.missed, 1, __ATOMIC_SEQ_CST);
		made = __atomic_load_n(&near__trace.current, __ATOMIC_SEQ_CST);
		if (made)
			near__trace_count_missed(made);
	}
	near__region_leave(c, 0);
	return t;
}

/* ---- fork ---- */

static void trace_visit_locks(near__fork_step *step)
{
	step(&near__trace.lock);
	step(&near__trace.streaming);
}

static struct near_rcu *make_domain(void)
{
	struct near_rcu *d =
		mmap(NULL, sizeof(*d), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (d == MAP_FAILED)
		return NULL;
	if (near_rcu_init(d, NULL)) {
		munmap(d, sizeof(*d));
		return NULL;
	}
	for (uint32_t slot = 0; slot < NEAR__TRACE_AHEAD; slot++)
		near__rcu_open_ahead(d, slot);
	return d;
}

/* The child's near_rcu is as if no section had begun, but a slow path that a signal handler
 * interrupted to fork may go on, and then ends a section that is not counted, or not any more. In
 * a domain for which nobody waits this does no harm: the child takes another one. */
static void leave_domain(void)
{
	struct near_rcu *d = make_domain();

	if (!d)
		near__die("near_trace: no memory in a child of fork");
	__atomic_store_n(&near__trace.rcu, d, __ATOMIC_RELAXED);
}

/* With trace_children:thread of NEAR_CONF. */
static void serve_child(void)
{
	struct region_caller c = near__region_enter();

	near_lock_lock(&near__trace.lock);
	child_begin(true);
	near_lock_unlock(&near__trace.lock);
	near__region_leave(c, 0);
}

/* Else the child's file is made by its first event: most children call exec. */
static void trace_leave_child(void)
{
	struct near__trace_run *t = near__trace.current;

	near__more.tid = 0;
	if (near__trace.is_ready && near__trace_is_interrupted())
		leave_domain();
	if (t) {
		near__trace.current = NULL;
		near__trace.is_child = !near__trace.is_ending;
		near__trace.parent = t->file.session->pid;
		memset((void *)(uintptr_t)near__trace_table, 0,
		       (size_t)((char *)near__trace.alive - (const char *)near__trace_table));
		near__trace_detach(t);
		near__trace_unmap_order();
	}
	near__trace_leave_triggers();
	near__trace.is_ending = 0;
	near__trace.missed = 0;
	if (near__trace.alive)
		*near__trace.alive = 1;
}

NEAR__FORK_HANDLERS(trace, &turn, trace_visit_locks, trace_visit_locks, trace_leave_child)

/* ThreadSanitizer ends a child that makes a thread. */
static void trace_begins_child(void)
{
	trace_in_child();
	if (near__trace.is_child && near__trace.serves_children && !NEAR__TSAN_HERE)
		serve_child();
}

/* ---- what is made once ---- */

static int make_table(void)
{
	size_t words = NEAR__TRACE_CLOCKS * (near_slots() + 1);
	size_t size = words * sizeof(uint64_t) + sizeof(uint64_t);
	uint64_t *table =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (table == MAP_FAILED)
		return near__trace_fail(-errno, "no memory");
	madvise(table, size, MADV_WIPEONFORK);
	near__trace.alive = (uint32_t *)(table + words);
	*near__trace.alive = 1;
	__atomic_store_n(&near__trace_table, table, __ATOMIC_RELEASE);
	return 0;
}

static int get_ready(void)
{
	int err;

	if (near__trace.is_ready)
		return 0;
	near_slots();
	err = near__trace_table ? 0 : make_table();
	if (!err && !(near__trace.rcu = make_domain()))
		err = -ENOMEM;
	if (err)
		return near__trace_fail(err, "no memory");
	if (near__process.usable)
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
	near__trace.resume = session_resume;
	near__trace.record = near__trace_record;
	near__trace.check_orders = near__trace_check_orders;
	near__trace.find_order = near__trace_find_order;
	near__trace.start_thread = near__trace_start_thread;
	near__trace.is_ready = 1;
	return 0;
}

/* ---- start ---- */

/* The file has address space for rings that have all of it, one for each slot. */
static bool is_too_large(uint64_t file_size)
{
	struct near_region_object objects[4];

	return file_size > NEAR_REGION_MAX_COMMON ||
	       near__trace_define(objects, near_slots() + near_cpus(),
				  near__trace_stream_ring(file_size) + NEAR__TRACE_PAGE) >
		       NEAR_REGION_MAX_COMMON;
}

static int session_check(const struct near_trace_options *o)
{
	if (!NEAR__RESERVED_ARE_ZERO(o))
		return near__trace_fail(-EINVAL, "a reserved word of the options is not 0");
	if (o->ring_size && (o->ring_size < LEAST_RING || o->ring_size > MOST_RING ||
			     o->ring_size & (o->ring_size - 1)))
		return near__trace_fail(-EINVAL, "ring_size is a power of two of 256 KiB to 1 GiB");
	if (o->max_bytes &&
	    o->max_bytes < (o->ring_size ? o->ring_size : (size_t)1 << 20) + NEAR__TRACE_PAGE)
		return near__trace_fail(-EINVAL, "max_bytes is too small for a ring");
	if ((unsigned)o->mode > NEAR_TRACE_STREAM || (unsigned)o->clock > NEAR_TRACE_NO_CLOCK)
		return near__trace_fail(-EINVAL, "there is no such mode or clock");
	if (o->clock == NEAR_TRACE_OWN && !o->now)
		return near__trace_fail(-EINVAL, "a clock of the program needs `now`");
	if (o->clock == NEAR_TRACE_COUNTER && !near_clock())
		return near__trace_fail(-EINVAL, "this CPU has no counter");
	if (o->file_size && o->file_size < LEAST_RING)
		return near__trace_fail(-EINVAL, "file_size is 256 KiB or more");
	if (is_too_large(o->file_size))
		return near__trace_fail(-EINVAL, "file_size is too large for so many CPUs");
	if (!o->path && !near__trace_is_folder(DEFAULT_FOLDER)) /* it would be a new file's name */
		return near__trace_fail(-ENOENT, "there is no " DEFAULT_FOLDER ": set `path`");
	if (o->stream && !near__trace_is_folder(o->stream))
		return near__trace_fail(-ENOTDIR, "there is no folder `stream`");
	if (o->stream && faccessat(AT_FDCWD, o->stream, W_OK | X_OK, AT_EACCESS))
		return near__trace_fail(-errno, "no file can be made in the folder `stream`");
	return 0;
}

/* The program, or the child, may have another working directory when the next file is made. */
static bool make_absolute(char *to, const char *path)
{
	char here[PATH_MAX] = "";

	if (*path && *path != '/' && !getcwd(here, sizeof(here)))
		*here = 0;
	return snprintf(to, PATH_MAX, "%s%s%s", here, *here ? "/" : "", path) < PATH_MAX;
}

static int session_start(const struct near_trace_options *o)
{
	int err = session_check(o);

	if (!err)
		err = get_ready();
	if (!err)
		err = near__trace_set_rules(o->enable ? o->enable : "*",
					    o->level ? o->level : NEAR_TRACE_DEBUG);
	if (err)
		return err;
	/* Events of tracepoints that were not registered yet: of the session of NEAR_CONF alone. */
	if (near__trace.has_read_conf != NEAR__TRACE_READS_CONF)
		__atomic_store_n(&near__trace.missed, 0, __ATOMIC_RELAXED);
	near__trace_forget_triggers();
	near__trace.options = *o;
	if (!make_absolute(near__trace.path, o->path ? o->path : DEFAULT_FOLDER) ||
	    !make_absolute(near__trace.stream, o->stream ? o->stream : ""))
		return near__trace_fail(-ENAMETOOLONG, "the path is too long");
	near__trace.options.path = near__trace.path;
	near__trace.is_folder = near__trace_is_folder(near__trace.path);
	near__trace.options.enable = NULL;
	if (!o->clock)
		near__trace.options.clock = near_clock() ? NEAR_TRACE_COUNTER
							 : NEAR_TRACE_MONOTONIC;
	return session_begin(true);
}

/* Before the lock is taken, see near__trace_lock. The handlers are registered after those of the
 * layers below: the child's run after theirs. They are also registered after those of an allocator,
 * which may register its own with the first block: the child makes a thread, and this thread makes
 * one while it holds the lock, and both of these allocate. */
static void trace_watch_forks(void)
{
	void *volatile block = malloc(1);

	free(block);
	near__rcu_watch_forks();
	near__fork_register(&near__trace.watches_forks, trace_before_fork, trace_after_fork,
			    trace_begins_child);
}

NEAR__BEFORE_PROGRAM static void session_connect(void)
{
	near__trace.watch_forks = trace_watch_forks;
}

int near_trace_start(const struct near_trace_options *options)
{
	static const struct near_trace_options defaults;
	struct region_caller c = near__region_enter();
	int err;

	trace_watch_forks();
	near_lock_lock(&near__trace.lock);
	if (near__trace.current || near__trace.is_child || near__trace.is_ending)
		err = near__trace_fail(-EALREADY, "the process traces already");
	else
		err = session_start(options ? options : &defaults);
	near_lock_unlock(&near__trace.lock);
	return near__region_leave(c, err);
}

/* ---- stop ---- */

static void close_file(struct near__trace_run *t)
{
	near__trace_unmap_order();
	near__trace_store_moment(t->file.session);
	__atomic_store_n(&t->file.session->ended, 1, __ATOMIC_RELEASE);
	if (t->mode == NEAR_TRACE_STREAM && near__trace_stream(t, true) && t->stream.number)
		unlink(t->path);
	near_region_close(&t->file.region);
	munmap(t, t->size);
}

/* With the lock. */
static void session_end(struct near__trace_run *t)
{
	near__trace_apply(0);
	__atomic_store_n(&near__trace.current, NULL, __ATOMIC_RELEASE);
	near_rcu_synchronize(near__trace.rcu);
	for (unsigned i = 0; i < t->slots; i++)
		__atomic_store_n(&t->row[i * NEAR__TRACE_CLOCKS], 0, __ATOMIC_RELAXED);
	near__fence();
	close_file(t);
}

int near_trace_stop(void)
{
	struct region_caller c = near__region_enter();
	struct near__trace_run *t;
	int err = 0;

	if (!near__trace_is_own())
		return near__region_leave(c, -ENOENT);
	near__trace_lock();
	t = near__trace.current;
	if (near__trace.is_ending || (!t && !near__trace.is_child)) {
		err = -ENOENT;
	} else if (!t) {
		near__trace_apply(0);
		near__trace.is_child = 0;
	} else {
		/* The thread may wait for the lock. */
		near__trace.is_ending = 1;
		near_lock_unlock(&near__trace.lock);
		near__trace_end_thread(t);
		near_lock_lock(&near__trace.lock);
		session_end(t);
		near__trace.is_ending = 0;
	}
	near_lock_unlock(&near__trace.lock);
	return near__region_leave(c, err);
}

/* ---- statistics ---- */

const char *near_trace_path(void)
{
	return near__trace.current ? near__trace.last_path : NULL;
}

static void session_count(struct near_trace_stats *out, struct near__trace_run *t)
{
	out->discarded = __atomic_load_n(&t->file.session->discarded, __ATOMIC_RELAXED);
	out->chains_cut = __atomic_load_n(&t->file.session->chains_cut, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < t->slots + t->cpus; i++) {
		struct near__trace_ring *r = near__trace_ring_at(t, i);
		uint32_t ready = near__trace_ready(t, i);

		if (!__atomic_load_n(&t->local[i].ring, __ATOMIC_ACQUIRE))
			continue;
		out->rings++;
		out->bytes += NEAR__TRACE_PAGE + near__trace_extent(t, i, 0) +
			      (ready ? ready - 1 : 0) * NEAR__TRACE_SUB_SIZE;
		out->discarded += __atomic_load_n(&r->discarded, __ATOMIC_RELAXED);
	}
	for (struct near_trace_point *p = near__trace.first; p; p = p->next) {
		out->points++;
		out->enabled += (__atomic_load_n(&p->enabled, __ATOMIC_RELAXED) &
				 ~NEAR__TRACE_WATCHED) != 0;
	}
}

/* Relaxed: counts. */
static void triggers_count(struct near_trace_stats *out)
{
	struct near__trace_triggers *all = near__trace.triggers;

	if (!all)
		return;
	out->triggered = __atomic_load_n(&all->triggered, __ATOMIC_RELAXED);
	out->limited = __atomic_load_n(&all->limited, __ATOMIC_RELAXED);
	out->snapshots = __atomic_load_n(&all->snapshots, __ATOMIC_RELAXED);
	out->failed = __atomic_load_n(&all->failed, __ATOMIC_RELAXED);
}

int near_trace_stats(struct near_trace_stats *out, size_t size)
{
	struct near_trace_stats s = {0};
	int err = -ENOENT;

	if (!size)
		return -EINVAL;
	near__trace_lock();
	if (near__trace.current) {
		session_count(&s, near__trace.current);
		triggers_count(&s);
		err = 0;
	}
	near_lock_unlock(&near__trace.lock);
	near__copy_known(out, size, &s, sizeof(s));
	return err;
}
