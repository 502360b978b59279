/* SPDX-License-Identifier: MIT */
/* Several trace files, or folders of them, as one trace. */
#include "trace/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/memory.h"
#include "region/region.h"

#define MOST_IDS 65536
#define MOST_FILES 16384               /* in an array that does not move */
#define SAME_CLOCK UINT64_C(100000000) /* ns */

/* ---- filters ---- */

static void split_names(struct trace *t, const char *names)
{
	char *rest = t->names = names ? copy_text(names) : NULL, *pattern;

	while ((pattern = strsep(&rest, ",")))
		if (*pattern || rest)
			APPEND(t->patterns, t->pattern_count, pattern);
}

static bool is_selected(const struct trace *t, const struct trace_point *p)
{
	bool found = !t->names;

	for (unsigned i = 0; i < t->pattern_count && !found; i++)
		found = fnmatch(t->patterns[i], p->name, 0) == 0;
	return found && p->level <= t->filter->level;
}

static bool has_point(const struct trace *t, const char *pattern)
{
	for (unsigned i = 0; i < t->point_count; i++)
		if (fnmatch(pattern, t->points[i]->name, 0) == 0)
			return true;
	return false;
}

/* Each pattern must name a tracepoint. Those of damaged files, and of events without a tracepoint,
 * are not known yet. */
static int check_names(const struct trace *t)
{
	bool are_known = !trace_lost(t, LOST_POINTS) && !trace_lost(t, LOST_POINTS_UNREAD);

	for (unsigned i = 0; i < t->pattern_count && are_known; i++) {
		const char *pattern = t->patterns[i];

		if (strncmp(pattern, "unknown:", 8) != 0 && !has_point(t, pattern))
			return failure("trace", "there is no tracepoint '%s'", pattern);
	}
	return EXIT_DONE;
}

void trace_number(struct trace *t, const struct trace_file *f, struct trace_point *p)
{
	p->file = f;
	p->index = t->point_count;
	p->selected = is_selected(t, p);
	APPEND(t->points, t->point_count, p);
}

static void number_points(struct trace *t, struct trace_file *f)
{
	for (unsigned id = 0; id < MOST_IDS; id++)
		if (f->points[id] && !f->points[id]->is_object)
			trace_number(t, f, f->points[id]);
}

/* ---- files ---- */

/* Of a trace that is followed also rings that are not used yet. */
static void add_rings(struct trace *t, struct trace_file *f)
{
	t->rings = reallocarray(t->rings, t->ring_count + f->ring_count + 1, sizeof(*t->rings));
	if (!t->rings)
		out_of_memory();
	for (unsigned k = 0; k < f->ring_count; k++)
		t->ring_count += trace_ring_open(&t->rings[t->ring_count], f, k) ||
				 t->filter->follow;
}

static int add_file(struct trace *t, const char *path, bool recover)
{
	struct trace_file *f = &t->files[t->file_count];
	int code;

	if (t->file_count == MOST_FILES)
		return failure("trace", "more than %d files", MOST_FILES);
	code = trace_file_open(f, path, recover);
	t->file_count += code == EXIT_DONE;
	if (code == EXIT_DONE && t->follows) {
		f->owner = f;
		number_points(t, f);
		add_rings(t, f);
		f->left = 2;
	}
	return code;
}

static bool is_same_session(const struct trace_file *a, const struct trace_file *b)
{
	return !a->lost[LOST_NO_SESSION] && !b->lost[LOST_NO_SESSION] &&
	       a->session.pid == b->session.pid &&
	       a->session.begin.monotonic_ns == b->session.begin.monotonic_ns &&
	       a->session.begin.counter == b->session.begin.counter;
}

/* A folder may contain other files, such as those of other programs in /dev/shm, and files of
 * processes that were killed while they made them. The snapshots of triggers in it have events that
 * the session's file may have, too. *err is set if it cannot be opened. */
static bool may_be_trace(const struct trace *t, const char *path, int *err)
{
	struct trace_file f = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
	struct near__region_header h = {.magic = 0};
	struct region_entry e = {.kind = 0};
	const struct near__trace_session *s = &f.session;
	bool found = false;

	if (f.fd < 0) {
		*err = errno;
		return false;
	}
	trace_read(&f, &h, 0, sizeof(h));
	for (uint64_t at = REGION_DIRECTORY; h.magic == REGION_MAGIC && !found; at += sizeof(e)) {
		if (trace_read(&f, &e, at, sizeof(e)) != sizeof(e) || !e.kind)
			break;
		found = e.kind == NEAR__TRACE_SESSION_KIND &&
			strcmp(e.name, NEAR__TRACE_SESSION_NAME) == 0;
	}
	if (found)
		trace_read(&f, &f.session, h.total - h.common_size + e.offset, sizeof(*s));
	close(f.fd);
	for (unsigned i = 0; i < t->file_count && t->follows; i++)
		found &= !is_same_session(&t->files[i], &f);
	return found && s->version && !(s->flags & NEAR__TRACE_IS_SNAPSHOT);
}

static int compare_names(const struct dirent **a, const struct dirent **b)
{
	return strverscmp((*a)->d_name, (*b)->d_name);
}

static int add_folder(struct trace *t, const char *folder, bool recover)
{
	struct dirent **names;
	int n = scandir(folder, &names, NULL, compare_names), code = EXIT_DONE;
	unsigned before = t->file_count;
	bool denied = false;

	if (n < 0)
		return failure("trace", "cannot read '%s': %s", folder, strerror(errno));
	for (int i = 0; i < n; i++) {
		char *path = NULL;
		int err = 0;

		if (code == EXIT_DONE && names[i]->d_type != DT_DIR &&
		    asprintf(&path, "%s/%s", folder, names[i]->d_name) > 0 &&
		    may_be_trace(t, path, &err))
			code = add_file(t, path, recover);
		if (err == EMFILE || err == ENFILE || err == ENOMEM)
			code = failure("trace", "cannot open '%s': %s", path, strerror(err));
		denied |= err == EACCES;
		free(path);
		free(names[i]);
	}
	free(names);
	if (code == EXIT_DONE && t->file_count == before && !t->follows)
		code = failure("trace", "'%s': no trace files are in this folder%s", folder,
			       denied ? "; some of its files may not be read" : "");
	return code;
}

/* ---- all ---- */

/* Tracepoints that the owner has are freed. */
static void give_points(struct trace_file *from, struct trace_file *to)
{
	for (unsigned id = 0; id < MOST_IDS; id++)
		if (!to->points[id]) {
			to->points[id] = from->points[id];
			from->points[id] = NULL;
		}
	trace_free_points(from);
	trace_read_points(from, 0);
}

static void find_owners(struct trace *t)
{
	for (unsigned i = 0; i < t->file_count; i++) {
		struct trace_file *f = &t->files[i], *o = t->files;
		unsigned count = f->point_count;

		while (o != f && (o->owner != o || !is_same_session(o, f)))
			o++;
		f->owner = o;
		if (o != f)
			give_points(f, o);
		f->point_count = count;
	}
}

bool trace_is_moved(const struct trace *t, const struct trace_file *f)
{
	for (unsigned i = 0; i < t->file_count; i++)
		if (t->files[i].owner == f->owner && t->files[i].session.mode == NEAR__TRACE_STREAM)
			return f->session.mode != NEAR__TRACE_STREAM;
	return false;
}

/* The last file of a stream has the counts of the session's file, which may still exist. */
static void count_once(struct trace *t)
{
	for (struct trace_file *f = t->files; f < t->files + t->file_count; f++)
		if (trace_is_moved(t, f))
			f->lost[LOST_DISCARDED] = f->lost[LOST_CHAINS_CUT] = 0;
}

/* The files of a session share the rate that was measured for longest. With different rates,
 * records and parts of payloads that are in different files would change their order. */
static void share_rates(struct trace *t)
{
	for (unsigned i = 0; i < 2 * t->file_count; i++) {
		struct trace_file *f = &t->files[i % t->file_count];
		struct trace_file *to = i < t->file_count ? f->owner : f;
		const struct trace_file *from = i < t->file_count ? f : f->owner;

		if (from->measured <= to->measured)
			continue;
		to->rate = from->rate;
		to->measured = from->measured;
		to->least = from->least;
		to->most = from->most;
		to->lost[LOST_NO_RATE] = 0;
	}
}

void trace_share_clock(struct trace *t)
{
	const struct trace_file *from = t->files, *end = t->files + t->file_count;

	while (from < end && !(from->session.flags & NEAR__TRACE_IS_SCHED && from->measured))
		from++;
	for (struct trace_file *f = t->files; f < end && from < end; f++) {
		const struct near__trace_moment *begin = &f->session.begin;

		if (f->measured &&
		    trace_ns(from, begin->counter) + SAME_CLOCK - begin->monotonic_ns <
			    2 * SAME_CLOCK) {
			f->base = from->base;
			f->base_ns = from->base_ns;
			f->rate = from->rate;
		}
	}
}

/* Of streams, or of the other files. */
static void open_rings_of(struct trace *t, bool streams)
{
	for (struct trace_file *f = t->files; f < t->files + t->file_count; f++)
		if ((f->session.mode == NEAR__TRACE_STREAM) == streams)
			add_rings(t, f);
}

static uint64_t moved_by(const struct trace_ring *r)
{
	return r->file->session.mode == NEAR__TRACE_STREAM ? r->read : r->read + r->end;
}

/* Records that a stream has moved to other files are not read twice: these were opened later. */
static void skip_moved(struct trace *t)
{
	for (struct trace_ring *r = t->rings; r < t->rings + t->ring_count; r++) {
		if (!r->file || r->file->session.mode != NEAR__TRACE_STREAM)
			continue;
		for (struct trace_ring *o = t->rings; o < t->rings + t->ring_count; o++)
			if (o->file->owner == r->file->owner && o->index == r->index)
				trace_ring_skip(r, moved_by(o));
	}
}

static void open_rings(struct trace *t)
{
	t->begin = UINT64_MAX;
	for (unsigned i = 0; i < t->file_count; i++) {
		const struct near__trace_session *s = &t->files[i].session;
		bool is_own = s->clock == NEAR__TRACE_OWN || s->clock == NEAR__TRACE_NO_CLOCK;
		uint64_t begin = is_own ? 0 : s->begin.monotonic_ns;

		t->begin = begin < t->begin ? begin : t->begin;
	}
	open_rings_of(t, true);
	open_rings_of(t, false);
	skip_moved(t);
	trace_begin(t);
}

int trace_add_paths(struct trace *t, bool recover)
{
	struct stat st;
	int code = EXIT_DONE;

	for (char **path = t->paths; *path && code == EXIT_DONE; path++)
		if (stat(*path, &st) == 0 && S_ISDIR(st.st_mode))
			code = add_folder(t, *path, recover);
		else if (!t->follows)
			code = add_file(t, *path, recover);
	return code;
}

int trace_open(struct trace *t, char **paths, const struct trace_filter *filter, bool recover)
{
	int code;

	*t = (struct trace){.filter = filter, .paths = paths};
	t->files = allocate_zeros(MOST_FILES, sizeof(*t->files));
	STAILQ_INIT(&t->held);
	split_names(t, filter->names);
	allow_files(); /* all files of a folder are open at the same time */
	code = trace_add_paths(t, recover);
	if (code == EXIT_DONE) {
		find_owners(t);
		count_once(t);
		share_rates(t);
		trace_share_clock(t);
		for (unsigned i = 0; i < t->file_count; i++)
			number_points(t, &t->files[i]);
		open_rings(t);
		t->follows = filter->follow;
		code = recover ? EXIT_DONE : check_names(t);
	}
	if (code)
		trace_close(t);
	return code;
}

void trace_close(struct trace *t)
{
	trace_end_merge(t);
	for (unsigned i = 0; i < t->file_count; i++)
		trace_file_close(&t->files[i]);
	free(t->files);
	free(t->patterns);
	free(t->names);
}
