/* SPDX-License-Identifier: MIT */
/* near_trace: other files, to which rings are copied: snapshots, and those of NEAR_TRACE_STREAM. */
#include "trace/trace.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "region/region.h"

bool near__trace_copy_points(struct near__trace_file *c, const struct near__trace_run *t)
{
	uint64_t from = c->session->points_bytes;
	uint64_t to = __atomic_load_n(&t->file.session->points_bytes, __ATOMIC_ACQUIRE);

	if (from == to)
		return true;
	if (near_region_populate(&c->region, &c->objects[NEAR__AT_POINTS], from, to - from))
		return false;
	memcpy(c->points + from, t->file.points + from, to - from);
	/* Release: a reader that finds the size finds the tracepoints. */
	__atomic_store_n(&c->session->points_bytes, to, __ATOMIC_RELEASE);
	return true;
}

/* `begin` and what precedes it are the session's. */
static bool copy_fill(struct near__trace_file *c, const struct near__trace_run *t, uint32_t mode)
{
	struct near__trace_session *s = c->session;

	/* Not the name of the thread that streams. */
	memcpy(c->region.header->program, t->file.region.header->program,
	       sizeof(c->region.header->program));
	s->mode = mode;
	s->clock = t->file.session->clock;
	s->slots = t->slots;
	s->cpus = t->cpus;
	s->slot_kind = t->file.session->slot_kind;
	s->unstable = t->file.session->unstable;
	s->ring_size = c->ring_size;
	s->ring_stride = c->ring_stride;
	s->parent = t->file.session->parent;
	s->number = t->file.session->number;
	s->begin = t->file.session->begin;
	near__trace_store_moment(s);
	if (!near__trace_copy_points(c, t))
		return false;
	__atomic_store_n(&s->version, NEAR__TRACE_VERSION, __ATOMIC_RELEASE);
	return true;
}

int near__trace_copy_open(struct near__trace_file *c, const char *path,
			  const struct near__trace_run *t, uint64_t ring_size, uint32_t mode)
{
	int err;

	c->ring_size = ring_size;
	c->ring_stride = ring_size + NEAR__TRACE_PAGE;
	err = near__trace_file_make(c, path, t->slots + t->cpus);
	if (err)
		return err;
	if (copy_fill(c, t, mode))
		return 0;
	unlink(path);
	near__trace_copy_close(c);
	return near__trace_fail(-ENOSPC, "the file system is full");
}

void near__trace_copy_close(struct near__trace_file *c)
{
	near__trace_store_moment(c->session);
	__atomic_store_n(&c->session->ended, 1, __ATOMIC_RELEASE);
	near_region_close(&c->region);
	c->session = NULL;
}

struct near__trace_ring *near__trace_copy_ring(struct near__trace_file *c, unsigned i,
					       uint64_t from, uint64_t size)
{
	const struct near_region_object *o = &c->objects[NEAR__AT_RINGS];
	uint64_t at = i * c->ring_stride;
	struct near__trace_ring *r = near__trace_ring_of(c, i);

	if (near_region_populate(&c->region, o, at, NEAR__TRACE_PAGE) ||
	    near_region_populate(&c->region, o, at + NEAR__TRACE_PAGE + from, size))
		return NULL;
	r->mask = c->ring_size - 1;
	NEAR__BIT_SET(near__trace_used(c->session), i, __ATOMIC_RELEASE);
	return r;
}
