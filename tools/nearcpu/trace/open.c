/* SPDX-License-Identifier: MIT */
/* Several trace files, or folders of them, as one trace. */
#include "trace/reader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/tool.h"
#include "percpu/region.h"

#define MOST_IDS 65536

/* ---- files ---- */

static int add_file(struct trace *t, const char *path, bool recover)
{
	struct trace_file *grown = realloc(t->files, (t->file_count + 1) * sizeof(*grown));
	int code;

	if (!grown)
		return failure("trace", "not enough memory");
	t->files = grown;
	code = trace_file_open(&t->files[t->file_count], path, recover);
	t->file_count += code == EXIT_DONE;
	return code;
}

/* Other files may be in a folder, such as those of other programs in /dev/shm; and files whose
 * processes were killed before they had made them. *err is set if it cannot be opened. */
static bool may_be_trace(const char *path, int *err)
{
	struct trace_file f = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)};
	struct near__region_header h = {.magic = 0};
	struct region_entry e = {.kind = 0};
	uint32_t version = 0;
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
		trace_read(&f, &version, h.total - h.once + e.offset, sizeof(version));
	close(f.fd);
	return version;
}

/* All files of a folder are open at the same time. */
static void allow_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur == files.rlim_max)
		return;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
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
		    may_be_trace(path, &err))
			code = add_file(t, path, recover);
		if (err == EMFILE || err == ENFILE || err == ENOMEM)
			code = failure("trace", "cannot open '%s': %s", path, strerror(err));
		denied |= err == EACCES;
		free(path);
		free(names[i]);
	}
	free(names);
	if (code == EXIT_DONE && t->file_count == before)
		code = failure("trace", "'%s': no trace files are in this folder%s", folder,
			       denied ? "; some of its files may not be read" : "");
	return code;
}

/* ---- filters ---- */

/* The next pattern of the list, cut to 255 characters. Returns what follows it. */
static const char *next_pattern(const char *names, char pattern[256])
{
	size_t n = strcspn(names, ",");

	snprintf(pattern, 256, "%.*s", (int)n, names);
	return names + n + (names[n] == ',');
}

static bool is_selected(const struct trace_filter *f, const struct trace_point *p)
{
	const char *names = f->names;
	bool found = !names;
	char pattern[256];

	while (!found && *names) {
		names = next_pattern(names, pattern);
		found = fnmatch(pattern, p->name, 0) == 0;
	}
	return found && p->level <= f->level;
}

static bool has_point(const struct trace *t, const char *pattern)
{
	for (unsigned i = 0; i < t->file_count; i++)
		for (unsigned id = 0; id < MOST_IDS; id++) {
			const struct trace_point *p = t->files[i].points[id];

			if (p && fnmatch(pattern, p->name, 0) == 0)
				return true;
		}
	return false;
}

/* Each pattern names a tracepoint, or those of damaged files and of events without one, which are
 * not known yet. */
static int check_names(const struct trace *t)
{
	struct trace_loss loss = trace_total_loss(t);
	const char *names = t->filter->names;
	char pattern[256];

	while (names && *names && !loss.points && !loss.points_unread) {
		names = next_pattern(names, pattern);
		if (strncmp(pattern, "unknown:", 8) != 0 && !has_point(t, pattern))
			return failure("trace", "there is no tracepoint '%s'", pattern);
	}
	return EXIT_DONE;
}

void trace_number(struct trace *t, struct trace_point *p)
{
	p->index = t->points++;
	p->selected = is_selected(t->filter, p);
}

static void number_points(struct trace *t)
{
	for (unsigned i = 0; i < t->file_count; i++)
		for (unsigned id = 0; id < MOST_IDS; id++)
			if (t->files[i].points && t->files[i].points[id])
				trace_number(t, t->files[i].points[id]);
}

/* ---- all ---- */

static bool is_same_session(const struct trace_file *a, const struct trace_file *b)
{
	return !a->loss.no_session && !b->loss.no_session && a->session.pid == b->session.pid &&
	       a->session.begin.monotonic_ns == b->session.begin.monotonic_ns &&
	       a->session.begin.counter == b->session.begin.counter;
}

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

static bool find_owners(struct trace *t)
{
	bool done = true;

	for (unsigned i = 0; i < t->file_count && done; i++) {
		struct trace_file *f = &t->files[i], *o = t->files;
		unsigned count = f->point_count;

		while (o != f && (o->owner != o || !is_same_session(o, f)))
			o++;
		f->owner = o;
		if (o != f)
			give_points(f, o);
		f->point_count = count;
		done = f->points;
	}
	return done;
}

static bool has_session_file(const struct trace *t, const struct trace_file *f)
{
	for (unsigned i = 0; i < t->file_count; i++)
		if (t->files[i].owner == f->owner && t->files[i].session.mode == NEAR__TRACE_STREAM)
			return true;
	return false;
}

/* The last file of a stream counts what the session's file did, which may still be there. */
static void count_once(struct trace *t)
{
	for (unsigned i = 0; i < t->file_count; i++) {
		struct trace_file *f = &t->files[i];

		if (f->session.mode != NEAR__TRACE_STREAM && has_session_file(t, f))
			f->loss.discarded = f->loss.chains_cut = 0;
	}
}

/* The files of a session have one rate, the one that is known best: with several, records of one
 * moment that are in several files would change their order, and the parts of payloads, too. */
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
		to->loss.no_rate = false;
	}
}

static void open_rings_of(struct trace *t, struct trace_file *f)
{
	for (unsigned k = 0; k < f->ring_count; k++)
		t->ring_count += trace_ring_open(&t->rings[t->ring_count], f, k);
}

static uint64_t moved_by(const struct trace_ring *r)
{
	return r->file->session.mode == NEAR__TRACE_STREAM ? r->read : r->read + r->end;
}

/* What a stream has moved to other files by now, which are opened after it, is not read twice. */
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

static int open_rings(struct trace *t)
{
	uint64_t count = 0;

	t->begin = UINT64_MAX;
	for (unsigned i = 0; i < t->file_count; i++) {
		const struct near__trace_session *s = &t->files[i].session;
		bool is_own = s->clock == NEAR__TRACE_OWN || s->clock == NEAR__TRACE_NO_CLOCK;
		uint64_t begin = is_own ? 0 : s->begin.monotonic_ns;

		t->begin = begin < t->begin ? begin : t->begin;
		count += t->files[i].ring_count;
	}
	t->rings = calloc(count + 1, sizeof(*t->rings));
	if (!t->rings)
		return failure("trace", "not enough memory");
	for (unsigned i = 0; i < t->file_count; i++)
		if (t->files[i].session.mode == NEAR__TRACE_STREAM)
			open_rings_of(t, &t->files[i]);
	for (unsigned i = 0; i < t->file_count; i++)
		if (t->files[i].session.mode != NEAR__TRACE_STREAM)
			open_rings_of(t, &t->files[i]);
	skip_moved(t);
	return trace_begin(t) ? EXIT_DONE : failure("trace", "not enough memory");
}

int trace_open(struct trace *t, char **paths, const struct trace_filter *filter, bool recover)
{
	struct stat st;
	int code = EXIT_DONE;

	*t = (struct trace){.filter = filter};
	allow_files();
	for (; *paths && code == EXIT_DONE; paths++)
		if (stat(*paths, &st) == 0 && S_ISDIR(st.st_mode))
			code = add_folder(t, *paths, recover);
		else
			code = add_file(t, *paths, recover);
	if (code == EXIT_DONE && !find_owners(t))
		code = failure("trace", "not enough memory");
	if (code == EXIT_DONE) {
		count_once(t);
		share_rates(t);
		number_points(t);
		code = recover ? EXIT_DONE : check_names(t);
	}
	if (code == EXIT_DONE)
		code = open_rings(t);
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
	*t = (struct trace){.file_count = 0};
}

struct trace_loss trace_total_loss(const struct trace *t)
{
	struct trace_loss sum = {0};

	for (unsigned i = 0; i < t->file_count; i++) {
		const struct trace_loss *l = &t->files[i].loss;

		sum.discarded += l->discarded;
		sum.chains_cut += l->chains_cut;
		sum.overwritten += l->overwritten;
		sum.overtaken += l->overtaken;
		sum.damaged += l->damaged;
		sum.missing += l->missing;
		sum.rings += l->rings;
		sum.payloads += l->payloads;
		sum.chains += l->chains;
		sum.unknown += l->unknown;
		sum.raised += l->raised;
		sum.points += l->points;
		sum.points_unread += l->points_unread;
		sum.no_header |= l->no_header;
		sum.no_session |= l->no_session;
		sum.no_rate |= l->no_rate;
		sum.no_date |= l->no_date;
		sum.was_full |= l->was_full;
		sum.was_bound |= l->was_bound;
		sum.was_early |= l->was_early;
		sum.on_disk |= l->on_disk;
		sum.unstable |= l->unstable;
	}
	return sum;
}

bool trace_is_damaged(const struct trace_loss *l)
{
	return l->damaged || l->missing || l->rings || l->payloads || l->points || l->unknown ||
	       l->points_unread || l->no_header || l->no_session;
}
