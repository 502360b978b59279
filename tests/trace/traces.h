/* SPDX-License-Identifier: MIT */
/* What the tests of near_trace share: a folder, and a plain reader of trace files. */
#ifndef NEARCPU_TESTS_TRACES_H
#define NEARCPU_TESTS_TRACES_H

#include <nearcpu/region.h>
#include <nearcpu/trace.h>

#include <dirent.h>
#include <fcntl.h>

#include "trace/format.h"
#include "unit.h"

/* ---- a folder ---- */

static char traces_folder[64];

static inline int traces_make_folder(void **state)
{
	(void)state;
	snprintf(traces_folder, sizeof(traces_folder), "%s/nearcpu-XXXXXX", unit_folder());
	return mkdtemp(traces_folder) ? 0 : -1;
}

static inline void traces_each_file(void (*visit)(const char *path, void *arg), void *arg)
{
	DIR *d = opendir(traces_folder);
	struct dirent *e;
	char path[400];

	while (d && (e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", traces_folder, e->d_name);
		if (*e->d_name != '.')
			visit(path, arg);
	}
	if (d)
		closedir(d);
}

static inline void traces_unlink(const char *path, void *arg)
{
	(void)arg;
	unlink(path);
}

static inline int traces_remove_folder(void **state)
{
	(void)state;
	near_trace_stop();
	traces_each_file(traces_unlink, NULL);
	return rmdir(traces_folder);
}

static inline void traces_count_file(const char *path, void *n)
{
	(void)path;
	++*(unsigned *)n;
}

static inline unsigned traces_files(void)
{
	unsigned n = 0;

	traces_each_file(traces_count_file, &n);
	return n;
}

/* ---- a reader ---- */

struct trace_record {
	const uint64_t *head; /* the record */
	uint64_t time;
	const char *payload;
	unsigned words; /* of payload */
	unsigned tid, cpu, id, flags, ring;
};

struct trace_file {
	struct near_region region;
	struct near__trace_session *session;
	struct near_region_object points, rings;
	unsigned count; /* of rings */
};

/* Sequences may still write to it: a snapshot is not tried. */
static inline bool traces_try_open(struct trace_file *f, const char *path)
{
	struct near_region_object session = {0};

	memset(f, 0, sizeof(*f));
	if (near_region_open(&f->region, path, NULL))
		return false;
	CHECK(near_region_object(&f->region, 0, &session) == 0);
	CHECK(near_region_object(&f->region, 1, &f->points) == 0);
	CHECK(near_region_object(&f->region, 2, &f->rings) == 0);
	CHECK(strcmp(session.name, NEAR__TRACE_SESSION_NAME) == 0);
	f->session = (struct near__trace_session *)near_region_common(&f->region, session.offset);
	if (!f->session->version) { /* its process was killed while it made the file */
		near_region_close(&f->region);
		return false;
	}
	CHECK(f->session->version == NEAR__TRACE_VERSION);
	f->count = f->session->slots + f->session->cpus;
	return true;
}

static inline struct trace_file traces_open(const char *path)
{
	struct trace_file f;

	if (!traces_try_open(&f, path)) {
		fprintf(stderr, "%s: %s\n", path, near_region_error(&f.region));
		CHECK(false);
	}
	return f;
}

static inline void traces_close(struct trace_file *f)
{
	near_region_close(&f->region);
}

static inline struct near__trace_ring *traces_ring(const struct trace_file *f, unsigned i)
{
	if (!(near__trace_used(f->session)[i / 64] >> i % 64 & 1))
		return NULL;
	return (struct near__trace_ring *)(near_region_common(&f->region, f->rings.offset) +
					   i * f->session->ring_stride + NEAR__TRACE_PAGE - 128);
}

static inline unsigned traces_rings(const struct trace_file *f)
{
	unsigned n = 0;

	for (unsigned i = 0; i < f->count; i++)
		n += traces_ring(f, i) != NULL;
	return n;
}

/* The record's name; the text of its fields follows its terminating 0. */
static inline const char *traces_name(const struct trace_file *f, unsigned id)
{
	const char *at = near_region_common(&f->region, f->points.offset);
	const char *end = at + f->session->points_bytes;

	while (at < end) {
		const struct near__trace_point_record *r = (const void *)at;

		CHECK(r->size % 8 == 0 && r->size > sizeof(*r) && r->size <= (size_t)(end - at));
		if (r->id == id)
			return r->texts;
		at += r->size;
	}
	return NULL;
}

/* A sub-buffer that was skipped on a full disk: a load there would need a page. */
static inline bool traces_is_hole(const struct trace_file *f, const uint64_t *w)
{
	off_t at = (const char *)w - (const char *)f->region.header;

	return lseek(f->region.fd, at, SEEK_HOLE) == at;
}

/* Each record of ring i from byte `from` on. Returns how many; a record that makes no sense ends
 * the process. */
static inline uint64_t traces_read_ring(const struct trace_file *f, unsigned i, uint64_t from,
					void (*visit)(const struct trace_record *r, void *arg),
					void *arg)
{
	struct near__trace_ring *ring = traces_ring(f, i);
	const char *data = (const char *)(ring + 1);
	uint64_t end = ring->position, size = f->session->ring_size, n = 0, last = 0;

	CHECK(ring->mask == size - 1);
	while (from < end) {
		const uint64_t *w = (const uint64_t *)(data + from % size);
		struct trace_record r = {.head = w, .ring = i};
		bool none = (from % NEAR__TRACE_SUB_SIZE == 0 && traces_is_hole(f, w)) || !*w;

		if (none || *w == NEAR__TRACE_DROPPED) {
			from = (from | (NEAR__TRACE_SUB_SIZE - 1)) + 1;
			if (!none && from > end)
				from = end;
			continue;
		}
		r.words = (unsigned)(*w >> NEAR__TRACE_WORDS_SHIFT & 63) - 2;
		r.flags = (unsigned)(*w >> NEAR__TRACE_FLAGS_SHIFT);
		r.id = (unsigned)(*w >> NEAR__TRACE_ID_SHIFT & 65535);
		r.cpu = (unsigned)(*w >> NEAR__TRACE_CPU_SHIFT & 16383);
		r.tid = (unsigned)(*w & ((1u << NEAR__TRACE_TID_BITS) - 1));
		r.time = w[1];
		r.payload = (const char *)(w + 2);
		CHECK(r.words >= 1 && r.words <= 32 && r.tid && traces_name(f, r.id));
		CHECK(from % NEAR__TRACE_SUB_SIZE + (r.words + 2) * 8 < NEAR__TRACE_SUB_SIZE);
		CHECK(f->session->clock != NEAR__TRACE_COUNTER || r.time >= last);
		last = r.time;
		visit(&r, arg);
		n++;
		from += (r.words + 2) * 8;
	}
	CHECK(from == end);
	return n;
}

/* The oldest byte that can be read. */
static inline uint64_t traces_oldest(const struct trace_file *f, unsigned i)
{
	uint64_t position = traces_ring(f, i)->position, size = f->session->ring_size;

	if (position < size)
		return 0;
	return (position - size) / NEAR__TRACE_SUB_SIZE * NEAR__TRACE_SUB_SIZE +
	       NEAR__TRACE_SUB_SIZE;
}

/* All rings, one after the other. */
static inline uint64_t traces_read(const struct trace_file *f,
				   void (*visit)(const struct trace_record *r, void *arg),
				   void *arg)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < f->count; i++)
		if (traces_ring(f, i))
			n += traces_read_ring(f, i, traces_oldest(f, i), visit, arg);
	return n;
}

static inline uint64_t traces_discarded(const struct trace_file *f)
{
	uint64_t n = f->session->discarded;

	for (unsigned i = 0; i < f->count; i++)
		if (traces_ring(f, i))
			n += traces_ring(f, i)->discarded;
	return n;
}

/* ---- sessions ---- */

static inline void traces_start(struct near_trace_options o)
{
	int err;

	if (!o.path)
		o.path = traces_folder;
	err = near_trace_start(&o);
	if (err)
		fprintf(stderr, "near_trace_start: %s\n", near_trace_error());
	CHECK(err == 0);
}

/* Stops, and opens the file. */
static inline struct trace_file traces_stop(void)
{
	char path[400];

	snprintf(path, sizeof(path), "%s", near_trace_path());
	CHECK(near_trace_stop() == 0);
	return traces_open(path);
}

#endif
