/* SPDX-License-Identifier: MIT */
/* A trace whose programs go on, in rounds: each loads the positions of all rings. What is before a
 * position is whole, but a record's time is read before its position is stored: another ring may
 * still get a record with an earlier time. So an event is returned in the round after the one that
 * found it, and with it all events of earlier times that are there by then. These were stored at
 * most an interval after their times were read, which takes a thread some nanoseconds, unless it is
 * interrupted; whatever takes longer is returned when it is found, and counted as late. No ring is
 * waited for, and no clock is compared with this process's.
 *
 * A stream moves records from the session's file to further files. They are read from the
 * session's file: of the further files, what was moved before this process began. */
#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/tool.h"

#define INTERVAL_MS 50

bool trace_is_there(const struct trace_file *f)
{
	return f->session.pid && f->session.pid <= INT_MAX &&
	       (kill((pid_t)f->session.pid, 0) == 0 || errno == EPERM);
}

/* The kernel refuses a lease for reading while any process has the file open for writing, or mapped
 * so; and to those who do not own the file, and in some file systems. A process that opens it then
 * waits until the lease is given back, and this one gets a signal. */
static bool is_written(const struct trace_file *f)
{
	signal(SIGIO, SIG_IGN);
	if (fcntl(f->fd, F_SETLEASE, F_RDLCK) == 0) {
		fcntl(f->fd, F_SETLEASE, F_UNLCK);
		return false;
	}
	return errno == EAGAIN || trace_is_there(f);
}

/* Loads the session again, before the positions of its rings; it is used at the end, and when the
 * counter's rate was measured for twice as long. False: no more will be written. */
static bool file_update(struct trace_file *f)
{
	struct trace_file next = *f;
	struct near__trace_session *s = &next.session;
	bool lives = is_written(f);

	if (trace_read(f, s, f->used_at - sizeof(*s), sizeof(*s)) != sizeof(*s) ||
	    !trace_session_is_whole(s))
		return false;
	lives &= !s->ended;
	/* As before: tracepoints that were added since are read when they are needed. */
	s->points_bytes = f->session.points_bytes;
	s->ended = 0;
	trace_set_clock(&next);
	if (lives && next.measured / 2 < f->measured)
		return true;
	next.lost[trace_discarded(f)] += s->discarded - f->session.discarded;
	next.lost[LOST_CHAINS_CUT] += s->chains_cut - f->session.chains_cut;
	*f = next;
	return lives;
}

bool trace_follow(struct trace *t, int *code)
{
	struct pollfd output = {.fd = STDOUT_FILENO};
	uint64_t passed = (near__clock_ns(CLOCK_MONOTONIC) - t->loaded_ns) / 1000000;

	if (!t->follows || *code)
		return false;
	/* A pipe whose reader has ended: the next write reports it. */
	if (poll(&output, 1, passed < INTERVAL_MS ? INTERVAL_MS - (int)passed : 0) > 0)
		putchar('\n');
	*code = trace_add_paths(t, false);
	t->follows = false;
	for (struct trace_file *f = t->files; f < t->files + t->file_count; f++) {
		if (!t->round && !f->session.ended && !trace_is_moved(t, f))
			f->left = 2;
		if (f->left)
			f->left = file_update(f) ? 2 : f->left - 1;
		t->follows |= f->left > 0;
		f->most = UINT64_MAX;
	}
	trace_share_clock(t);
	for (struct trace_ring *r = t->rings; r < t->rings + t->ring_count; r++) {
		r->seen = r->end;
		if (r->file->left)
			trace_ring_update(r);
	}
	t->round++;
	t->loaded_ns = near__clock_ns(CLOCK_MONOTONIC);
	trace_begin(t);
	return true;
}
