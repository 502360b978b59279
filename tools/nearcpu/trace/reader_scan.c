/* SPDX-License-Identifier: MIT */
/* What is left of a trace file whose header, directory or session is damaged: each page is examined
 * for what can only be a ring, a session, or the list of tracepoints. */
#include "common/memory.h"
#include "trace/reader.h"

#include <string.h>
#include <unistd.h>

#define PAGE NEAR__TRACE_PAGE
#define MOST_RINGS 131072u
#define HEADER_AT (PAGE - sizeof(struct near__trace_ring))

/* A new list of tracepoints, if it has more of them. */
static void try_points(struct trace_file *f, const char *page, uint64_t at)
{
	const struct near__trace_point_record *r = (const void *)page;
	struct trace_file other = *f;

	if (r->size < sizeof(*r) || r->size > PAGE || r->size % 8 || r->id == 0 ||
	    r->id > UINT16_MAX || !r->name_size || r->name_size > PAGE || r->fields_size > PAGE)
		return;
	other.points = NULL;
	other.point_count = 0;
	other.recovers = false;
	other.is_guess = true;
	other.lost[LOST_POINTS_UNREAD] = 0;
	other.points_at = at;
	trace_read_points(&other, UINT64_C(1) << 20);
	if (other.point_count > f->point_count) {
		trace_free_points(f);
		f->points = other.points;
		f->point_count = other.point_count;
		f->lost[LOST_POINTS_UNREAD] = other.lost[LOST_POINTS_UNREAD];
	} else {
		trace_free_points(&other);
	}
}

static void try_session(struct trace_file *f, const char *page)
{
	for (size_t at = 0; at + sizeof(f->session) <= PAGE && f->lost[LOST_NO_SESSION]; at += 64) {
		struct near__trace_session s;

		memcpy(&s, page + at, sizeof(s));
		if (trace_session_is_whole(&s)) {
			f->session = s;
			f->lost[LOST_NO_SESSION] = false;
		}
	}
}

/* A ring's header at the end of its page, and nothing else in that page. */
static void try_ring(struct trace_file *f, const char *page, uint64_t at)
{
	const struct near__trace_ring *h = (const void *)(page + HEADER_AT);
	uint64_t size = h->mask + 1;

	if (size < NEAR__TRACE_LEAST_SUBS * NEAR__TRACE_SUB_SIZE || size & h->mask ||
	    size > UINT64_C(1) << 40 || h->position % 8 || h->position > INT64_MAX ||
	    (!h->position && !h->discarded) || f->ring_count == MOST_RINGS)
		return;
	for (size_t i = 0; i < HEADER_AT; i++)
		if (page[i])
			return;
	APPEND(f->ring_at, f->ring_count, at);
}

void trace_scan(struct trace_file *f)
{
	_Alignas(64) char page[PAGE];
	off_t at = 0;

	f->session = (struct near__trace_session){.version = 0};
	f->lost[LOST_NO_SESSION] = true;
	while ((at = lseek(f->fd, at, SEEK_DATA)) >= 0) {
		at &= ~(off_t)(PAGE - 1);
		memset(page, 0, sizeof(page));
		if (trace_read(f, page, (uint64_t)at, sizeof(page)) < 64)
			break;
		try_session(f, page);
		try_points(f, page, (uint64_t)at);
		try_ring(f, page, (uint64_t)at);
		at += PAGE;
	}
	f->session.points_bytes = 0;
	if (!f->points)
		f->lost[LOST_POINTS] = 1;
}
