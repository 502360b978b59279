/* SPDX-License-Identifier: MIT */
/* near_trace: NEAR_TRACE_STREAM. Whole sub-buffers move from the rings to files, of which the
 * oldest are removed. While the disk is full they stay, and events that find their ring full are
 * discarded, and counted. */
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SUB NEAR__TRACE_SUB_SIZE

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

/* With near__trace.streaming. */
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
	bool made;

	if (s->file.session && s->bytes + SUB <= s->file_size)
		return true;
	near_lock_lock(&near__trace.streaming);
	made = make_next(t);
	near_lock_unlock(&near__trace.streaming);
	return made;
}

/* Moves what is from `read` on, up to `end`, in one sub-buffer of ring i. If that is not ready, and
 * the ring has its begin alone, `end` is in the begin: no lap began before all of it was moved. */
static bool move(struct near__trace_run *t, unsigned i, uint64_t end)
{
	struct near__trace_copy *c = &t->stream.file;
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	uint64_t from = r->read, at;

	if (!has_file(t) || !near__trace_copy_points(c, t))
		return false;
	to = (struct near__trace_ring *)(c->rings + i * c->ring_stride + NEAR__TRACE_PAGE -
					 NEAR__TRACE_RINGS_AT);
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

	return !near__trace_extent(t, i, (position & (t->ring_size - 1)) / SUB) ||
	       (position % SUB == 0 && !__atomic_load_n(first, __ATOMIC_RELAXED));
}

static bool move_ring(struct near__trace_run *t, unsigned i, bool all)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i);
	/* Acquire: pairs with the commits. */
	uint64_t position = __atomic_load_n(&r->position, __ATOMIC_ACQUIRE), next;

	while (r->read < position) {
		next = (r->read / SUB + 1) * SUB;
		if (next > position && !all)
			break;
		if (is_skipped(t, i, r->read))
			/* Release: as that of move. */
			__atomic_store_n(&r->read, next, __ATOMIC_RELEASE);
		else if (!move(t, i, next < position ? next : position))
			return false;
	}
	return true;
}

static uint64_t discarded(const struct near__trace_run *t)
{
	uint64_t n = __atomic_load_n(&t->session->discarded, __ATOMIC_RELAXED);

	for (unsigned i = 0; i < t->slots + t->cpus; i++)
		if (near__trace_is_used(t->session, i))
			n += __atomic_load_n(&near__trace_ring_at(t, i)->discarded,
					     __ATOMIC_RELAXED);
	return n;
}

bool near__trace_stream(struct near__trace_run *t, bool all)
{
	bool moved = true;

	for (unsigned i = 0; i < t->slots + t->cpus; i++)
		if (near__trace_is_used(t->session, i))
			moved &= move_ring(t, i, all);
	if (!moved)
		__atomic_fetch_or(&t->session->flags, NEAR__TRACE_WAS_FULL, __ATOMIC_RELAXED);
	if (all && t->stream.file.session) {
		/* Else the session's file stays, which counts them. */
		if (moved) {
			t->stream.file.session->discarded = discarded(t);
			t->stream.file.session->flags = t->session->flags;
			t->stream.file.session->chains_cut =
				__atomic_load_n(&t->session->chains_cut, __ATOMIC_RELAXED);
		}
		near_lock_lock(&near__trace.streaming);
		near__trace_copy_close(&t->stream.file);
		near_lock_unlock(&near__trace.streaming);
	}
	return moved;
}
