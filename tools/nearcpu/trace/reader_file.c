/* SPDX-License-Identifier: MIT */
/* A trace file: its region's header and directory, its session, its clock. near_region_open_fd
 * cannot read it: it requires a whole file of a machine with as many CPUs as this one. */
#include "base/clock.h"
#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <nearcpu/seq.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/text.h"
#include "region/region.h"

#define SECOND UINT64_C(1000000000)
#define DAY (86400 * SECOND)
#define LAST_YEAR 230 /* after 1970 */
#define RATE_SHIFT 48
#define MOST_RINGS 65536

static const char advice[] = "; 'nearcpu trace recover' reads what is whole";

size_t trace_read(const struct trace_file *f, void *to, uint64_t at, size_t size)
{
	size_t done = 0;

	while (done < size && at + done < INT64_MAX) {
		ssize_t n = pread(f->fd, (char *)to + done, size - done, (off_t)(at + done));

		if (n > 0)
			done += (size_t)n;
		else if (n == 0 || errno != EINTR)
			break;
	}
	return done;
}

/* ---- the clock ---- */

uint64_t trace_ns(const struct trace_file *f, uint64_t time)
{
	__int128 passed = (__int128)(int64_t)(time - f->base) * f->rate;
	int64_t ns = (int64_t)(f->base_ns + (uint64_t)(passed >> RATE_SHIFT));

	return ns < 0 ? 0 : (uint64_t)ns;
}

/* The last moment that the session records. If there is none and the machine has not been restarted
 * since, now. */
static struct near__trace_moment last_moment(const struct near__trace_session *s)
{
	struct near__trace_moment m = s->latest[s->latest_count % 2];
	struct near__trace_moment now = {near_clock(), near__clock_ns(CLOCK_MONOTONIC),
					 near__clock_ns(CLOCK_REALTIME), 0};
	int64_t drift = (int64_t)(now.realtime_ns - now.monotonic_ns - s->begin.realtime_ns +
				  s->begin.monotonic_ns);

	if (m.counter > s->begin.counter && m.monotonic_ns > s->begin.monotonic_ns)
		return m;
	return drift < (int64_t)SECOND && drift > -(int64_t)SECOND ? now : s->begin;
}

/* A date is not less than the time since the machine was started, and has an upper limit. */
static bool is_date(const struct near__trace_moment *m)
{
	return m->monotonic_ns && m->realtime_ns >= m->monotonic_ns &&
	       m->realtime_ns < LAST_YEAR * 366 * DAY;
}

static bool agree(const struct near__trace_moment *a, const struct near__trace_moment *b)
{
	int64_t step =
		(int64_t)(a->realtime_ns - a->monotonic_ns - b->realtime_ns + b->monotonic_ns);

	return is_date(a) && is_date(b) && step < (int64_t)DAY && step > -(int64_t)DAY;
}

/* The session records three moments, of which the first is its begin. If one is damaged, the other
 * two agree, unless one of them is not stored yet. */
static int64_t find_date(struct trace_file *f)
{
	struct near__trace_session *s = &f->session;
	struct near__trace_moment *b = &s->begin, *l = s->latest, *from = b;

	if (!agree(b, &l[0]) && !agree(b, &l[1]))
		from = is_date(&l[0]) && (agree(&l[0], &l[1]) || !is_date(b)) ? &l[0] : b;
	f->lost[LOST_NO_DATE] = from != b || !is_date(b);
	if (f->lost[LOST_NO_DATE])
		b->realtime_ns = is_date(from) ? from->realtime_ns : 0;
	return is_date(from) ? (int64_t)(from->realtime_ns - from->monotonic_ns) : 0;
}

static void set_bounds(struct trace_file *f, uint64_t begin, uint64_t end, uint64_t rate)
{
	unsigned __int128 second = ((unsigned __int128)SECOND << RATE_SHIFT) / rate;
	unsigned __int128 most = end + second * 86400;

	f->least = begin > second ? begin - (uint64_t)second : 0;
	f->most = most < INT64_MAX ? (uint64_t)most : INT64_MAX;
}

void trace_set_clock(struct trace_file *f)
{
	const struct near__trace_session *s = &f->session;
	const struct near__trace_moment *b = &s->begin;
	struct near__trace_moment m = last_moment(s);
	unsigned __int128 rate;

	f->rate = UINT64_C(1) << RATE_SHIFT;
	f->most = UINT64_MAX;
	if (f->lost[LOST_NO_SESSION])
		return;
	f->lost[LOST_ON_DISK] = s->on_disk;
	f->lost[LOST_WAS_FULL] = s->flags & NEAR__TRACE_WAS_FULL;
	f->lost[LOST_WAS_BOUND] = s->flags & NEAR__TRACE_WAS_BOUND;
	f->lost[LOST_SNAPSHOT] = s->flags & NEAR__TRACE_SNAPSHOT_FAILED;
	f->lost[LOST_WAS_EARLY] = s->flags & NEAR__TRACE_WAS_EARLY;
	f->lost[LOST_UNSTABLE] = s->unstable;
	f->realtime = find_date(f);
	if (s->clock == NEAR__TRACE_OWN || s->clock == NEAR__TRACE_NO_CLOCK)
		f->realtime = 0;
	if (s->clock == NEAR__TRACE_MONOTONIC)
		set_bounds(f, b->monotonic_ns, m.monotonic_ns, f->rate);
	if (s->clock != NEAR__TRACE_COUNTER)
		return;
	f->base = b->counter;
	f->base_ns = b->monotonic_ns;
	f->lost[LOST_NO_RATE] = true;
	if (m.counter <= b->counter || m.monotonic_ns <= b->monotonic_ns)
		return;
	rate = ((unsigned __int128)(m.monotonic_ns - b->monotonic_ns) << RATE_SHIFT) /
	       (m.counter - b->counter);
	if (rate == 0 || rate > (UINT64_C(1) << 60))
		return;
	f->lost[LOST_NO_RATE] = false;
	f->rate = (uint64_t)rate;
	f->measured = m.counter - b->counter;
	set_bounds(f, b->counter, m.counter, f->rate);
}

/* ---- the region ---- */

static int refuse(const struct trace_file *f, const char *why, const char *more)
{
	return failure("trace", "'%s': %s%s", f->path, why, more);
}

/* The offset of the objects that exist once, which are the last part of the file. 0: damaged. */
static uint64_t find_once(const struct near__region_header *h)
{
	uint64_t at = h->total - h->common_size;

	if (h->common_size > NEAR_REGION_MAX_COMMON || h->total < h->common_size ||
	    at % NEAR__TRACE_PAGE || h->objects > NEAR_REGION_MAX_OBJECTS || h->total > INT64_MAX ||
	    at < REGION_DIRECTORY + h->objects * sizeof(struct region_entry))
		return 0;
	return at;
}

static void take_object(struct trace_file *f, const struct region_entry *e, uint64_t at)
{
	switch (e->kind) {
	case NEAR__TRACE_SESSION_KIND:
		trace_read(f, &f->session, at, sizeof(f->session));
		f->used_at = at + sizeof(f->session);
		break;
	case NEAR__TRACE_POINTS_KIND:
		f->points_at = at;
		f->points_size = e->size;
		break;
	case NEAR__TRACE_RINGS_KIND:
		f->rings_at = at;
		f->rings_size = e->size;
		break;
	case NEAR__TRACE_CONTROL_KIND:
		f->control_at = at;
		break;
	}
}

/* False: an entry is damaged. */
static bool read_directory(struct trace_file *f, const struct near__region_header *h, uint64_t once)
{
	struct region_entry e;

	for (unsigned i = 0; i < h->objects; i++) {
		if (trace_read(f, &e, REGION_DIRECTORY + i * sizeof(e), sizeof(e)) != sizeof(e))
			return false;
		if (e.kind == 0)
			break;
		if (e.offset > h->common_size || e.size > h->common_size - e.offset)
			return false;
		if (strncmp(e.name, "trace:", 6) == 0)
			take_object(f, &e, once + e.offset);
	}
	return true;
}

bool trace_session_is_whole(const struct near__trace_session *s)
{
	return s->version == NEAR__TRACE_VERSION && s->mode <= NEAR__TRACE_STREAM &&
	       s->clock <= NEAR__TRACE_OWN && s->slots && s->slots <= MOST_RINGS && s->cpus &&
	       s->cpus <= MOST_RINGS && s->ended <= 1 && s->unstable <= 1 &&
	       s->ring_size >= NEAR__TRACE_LEAST_SUBS * NEAR__TRACE_SUB_SIZE &&
	       s->ring_size <= NEAR_REGION_MAX_COMMON && (s->ring_size & (s->ring_size - 1)) == 0 &&
	       s->ring_stride >= s->ring_size + NEAR__TRACE_PAGE &&
	       s->ring_stride <= 2 * NEAR_REGION_MAX_COMMON;
}

/* Finds where everything is, by header and directory. NULL, or a sentence that says what is
 * wrong. */
static const char *read_region(struct trace_file *f, const struct near__region_header *h)
{
	const struct near__trace_session *s = &f->session;
	uint64_t once = find_once(h);

	memcpy(f->program, h->program, sizeof(h->program));
	if (h->version != REGION_VERSION)
		return "the header has another version";
	if (!once)
		return "the header of the file is damaged";
	if (!read_directory(f, h, once))
		return "the directory of the file is damaged";
	if (!f->rings_at || !f->points_at)
		return "the file is a region without a trace, or one that is not made yet";
	if (!trace_session_is_whole(s))
		return s->version == 0 ? "the trace is not made yet, or was never"
				       : "the trace's session is damaged";
	if (s->ring_stride * (s->slots + s->cpus) > f->rings_size)
		return "the trace's session is damaged";
	f->ring_count = s->slots + s->cpus;
	f->lost[trace_discarded(f)] = s->discarded;
	f->lost[LOST_CHAINS_CUT] = s->chains_cut;
	return f->size < h->total ? "the file was truncated" : NULL;
}

static bool is_other_version(const struct trace_file *f, const struct near__region_header *h)
{
	return h->version != REGION_VERSION ||
	       (f->session.version && f->session.version != NEAR__TRACE_VERSION);
}

static int read_whole(struct trace_file *f, bool recover)
{
	struct near__region_header h;
	uint64_t n = trace_read(f, &h, 0, sizeof(h)), points;
	const char *why = NULL;

	if (n != sizeof(h) || h.magic != REGION_MAGIC) {
		if (!recover && n >= sizeof(h.magic) && h.magic == __builtin_bswap64(REGION_MAGIC))
			return refuse(f, "made on a machine with the other byte order", "");
		why = "the file is no trace";
		if (!recover)
			return refuse(f, why, ": see near_trace(3)");
	} else {
		why = read_region(f, &h);
	}
	if (why && !recover && is_other_version(f, &h))
		return refuse(f, "another version of the library made it",
			      "; use the nearcpu command of that version");
	if (why && !recover)
		return refuse(f, why, advice);
	if (why && f->size >= sizeof(h) && !f->ring_count) {
		f->lost[LOST_NO_HEADER] = !f->rings_at;
		trace_scan(f);
	}
	trace_set_clock(f);
	points = f->session.points_bytes < f->points_size ? f->session.points_bytes
							  : f->points_size;
	if (!f->points && trace_read_points(f, points) != f->session.points_bytes)
		f->lost[LOST_POINTS] = 1;
	if (f->lost[LOST_POINTS] && !recover)
		return refuse(f, "the list of its tracepoints is damaged", advice);
	return EXIT_DONE;
}

int trace_file_open(struct trace_file *f, const char *path, bool recover)
{
	struct stat st;
	int code;

	/* A pipe would wait for its writer. */
	*f = (struct trace_file){.path = copy_text(path),
				 .recovers = recover,
				 .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
	if (f->fd < 0)
		code = failure("trace", "cannot open '%s': %s", path, strerror(errno));
	else if (fstat(f->fd, &st))
		code = failure("trace", "cannot read '%s': %s", path, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		code = refuse(f, "the file is no trace", ": it is no regular file");
	else {
		f->size = (uint64_t)st.st_size;
		code = read_whole(f, recover);
	}
	/* It goes to terminals and into files. */
	make_printable(f->program, "\"\\");
	if (code)
		trace_file_close(f);
	return code;
}

void trace_file_close(struct trace_file *f)
{
	trace_free_points(f);
	json_decref(f->symbols);
	free(f->ring_at);
	free(f->path);
	f->ring_at = NULL;
	f->symbols = NULL;
	f->path = NULL;
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
