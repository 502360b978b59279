/* SPDX-License-Identifier: MIT */
/* near_trace: NEAR_TRACE_STREAM. Whole sub-buffers move from the rings to files; the oldest files
 * are removed. While the disk is full the sub-buffers stay, and events that find their ring full
 * are discarded, and counted.
 *
 * The session's thread moves the sub-buffers. In a process without that thread, as a child of fork,
 * an event that enters a sub-buffer moves those of its ring that were left before. The process that
 * writes the rings moves them in any case, so that nothing depends on a command or on a parent that
 * goes on. Both hold near__trace.streaming for each sub-buffer; an event that finds it held leaves
 * the sub-buffer to the next event. */
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "region/region.h"

#define SUB NEAR__TRACE_SUB_SIZE
#define MOST_BY_EVENT 2

enum step { DONE, MOVED, FAILED };

uint64_t near__trace_stream_ring(uint64_t file_size)
{
	uint64_t p = SUB * NEAR__TRACE_LEAST_SUBS;

	while (p <= file_size)
		p *= 2;
	return p;
}

static bool make_name(char *path, const struct near__trace_run *t, uint64_t number)
{
	const char *slash = strrchr(t->path, '/');
	int n;

	if (*t->stream.folder)
		n = snprintf(path, PATH_MAX, "%s/%s.%llu", t->stream.folder,
			     slash ? slash + 1 : t->path, (unsigned long long)number);
	else
		n = snprintf(path, PATH_MAX, "%s.%llu", t->path, (unsigned long long)number);
	return n < PATH_MAX;
}

static bool make_next(struct near__trace_run *t)
{
	struct near__trace_stream *s = &t->stream;
	char path[PATH_MAX];

	if (s->file.session)
		near__trace_copy_close(&s->file);
	if (s->number >= s->files && make_name(path, t, s->number + 1 - s->files))
		unlink(path);
	if (!make_name(path, t, s->number + 1) ||
	    near__trace_copy_open(&s->file, path, t, near__trace_stream_ring(s->file_size),
				  NEAR_TRACE_STOP_WHEN_FULL))
		return false;
	s->file.session->number = ++s->number;
	s->bytes = 0;
	return true;
}

/* Makes the next file if there is none, or it is full. */
static bool has_file(struct near__trace_run *t)
{
	struct near__trace_stream *s = &t->stream;

	return (s->file.session && s->bytes + SUB <= s->file_size) || make_next(t);
}

/* Moves the bytes from `read` to `end`, within one sub-buffer of ring i. If only the begin of that
 * sub-buffer is ready, `end` is in the begin: no lap began before all of it was moved. */
static bool stream_move(struct near__trace_run *t, unsigned i, uint64_t end)
{
	struct near__trace_file *c = &t->stream.file;
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	uint64_t from = r->read, at;

	if (!has_file(t) || !near__trace_copy_points(c, t))
		return false;
	to = near__trace_ring_of(c, i);
	at = near__trace_is_used(c->session, i) ? to->position : 0;
	if (!near__trace_copy_ring(c, i, at, SUB))
		return false;
	/* By words: a thread may still touch the pages of the ring. */
	near__trace_copy(near__trace_word_at(to, at), near__trace_word_at(r, from),
			 (end - from) / sizeof(uint64_t));
	t->stream.bytes += SUB;
	to->read = from - at;
	/* The store after which readers skip this sub-buffer in the session's ring: a process that
	 * is killed before the next one has it in both files. */
	__atomic_store_n(&to->position, at + (end - from), __ATOMIC_RELEASE);
	/* Release: pairs with the acquire in near__trace_has_room. */
	__atomic_store_n(&r->read, end, __ATOMIC_RELEASE);
	return true;
}

/* A sub-buffer that the writer has left out, on a full disk. It may have become ready since. */
static bool is_skipped(const struct near__trace_run *t, unsigned i, uint64_t position)
{
	const uint64_t *first = near__trace_word_at(near__trace_ring_at(t, i), position);

	return !near__trace_extent(t, i, (position & (t->file.ring_size - 1)) / SUB) ||
	       (position % SUB == 0 && !__atomic_load_n(first, __ATOMIC_RELAXED));
}

/* Of what is before `position`. */
static enum step stream_step(struct near__trace_run *t, unsigned i, uint64_t position, bool all)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i);
	uint64_t next = (r->read / SUB + 1) * SUB;

	if (r->read >= position || (next > position && !all))
		return DONE;
	if (!is_skipped(t, i, r->read))
		return stream_move(t, i, next < position ? next : position) ? MOVED : FAILED;
	/* Release: as that of stream_move. */
	__atomic_store_n(&r->read, next, __ATOMIC_RELEASE);
	return MOVED;
}

/* Acquire: pairs with the commits. */
static uint64_t position_of(const struct near__trace_run *t, unsigned i)
{
	return __atomic_load_n(&near__trace_ring_at(t, i)->position, __ATOMIC_ACQUIRE);
}

static bool move_ring(struct near__trace_run *t, unsigned i, bool all)
{
	uint64_t position = position_of(t, i);
	enum step done;

	do {
		near_lock_lock(&near__trace.streaming);
		done = stream_step(t, i, position, all);
		near_lock_unlock(&near__trace.streaming);
	} while (done == MOVED);
	return done == DONE;
}

/* ---- by events ---- */

/* Relaxed: it decides nothing but whether to try. */
static bool has_whole(const struct near__trace_run *t, unsigned i)
{
	uint64_t read = __atomic_load_n(&near__trace_ring_at(t, i)->read, __ATOMIC_RELAXED);

	return (read / SUB + 1) * SUB <= position_of(t, i);
}

static void move_some(struct near__trace_run *t, unsigned i)
{
	uint64_t position = position_of(t, i);
	enum step done = MOVED;

	for (unsigned n = 0; n < MOST_BY_EVENT && done == MOVED; n++)
		done = stream_step(t, i, position, false);
	__atomic_store_n(&t->stream.refused, done == FAILED, __ATOMIC_RELAXED);
	if (done == FAILED)
		near__trace_set_flag(t, NEAR__TRACE_WAS_FULL);
}

/* Not in a child of vfork: a descriptor that it opens is not its parent's. */
void near__trace_stream_by_event(struct near__trace_run *t, unsigned i)
{
	struct region_caller c;
	sigset_t signals;

	if (t->mode != NEAR_TRACE_STREAM || near__trace_has_thread(t) || !has_whole(t, i) ||
	    !near__storage_is_own() || !near__trace_may_try(&t->stream.refused) ||
	    !near__trace_try_lock(&near__trace.streaming, &signals))
		return;
	c = near__region_enter();
	move_some(t, i);
	near__region_leave(c, 0);
	near__trace_unlock(&near__trace.streaming, &signals);
}

/* ---- by the thread ---- */

static uint64_t stream_discarded(const struct near__trace_run *t)
{
	uint64_t n = __atomic_load_n(&t->file.session->discarded, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < t->slots + t->cpus; i++)
		if (near__trace_is_used(t->file.session, i))
			n += __atomic_load_n(&near__trace_ring_at(t, i)->discarded,
					     __ATOMIC_RELAXED);
	return n;
}

bool near__trace_stream(struct near__trace_run *t, bool all)
{
	bool moved = true;

	for (unsigned i = 0; i < t->slots + t->cpus; i++)
		if (near__trace_is_used(t->file.session, i))
			moved &= move_ring(t, i, all);
	if (!moved)
		near__trace_set_flag(t, NEAR__TRACE_WAS_FULL);
	if (all && t->stream.file.session) {
		/* Else the session's file stays, which counts them. */
		if (moved) {
			t->stream.file.session->discarded = stream_discarded(t);
			t->stream.file.session->flags = t->file.session->flags;
			t->stream.file.session->chains_cut =
				__atomic_load_n(&t->file.session->chains_cut, __ATOMIC_RELAXED);
		}
		near_lock_lock(&near__trace.streaming);
		near__trace_copy_close(&t->stream.file);
		near_lock_unlock(&near__trace.streaming);
	}
	return moved;
}
