/* SPDX-License-Identifier: MIT */
/* near_trace: other files, to which rings are copied: snapshots, and those of NEAR_TRACE_STREAM. */
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "percpu/region.h"

static char *at_once(const struct near__trace_copy *c, enum near__trace_object i)
{
	return near_region_once(&c->region, c->objects[i].offset);
}

bool near__trace_copy_points(struct near__trace_copy *c, const struct near__trace_run *t)
{
	uint64_t from = c->session->points_bytes;
	uint64_t to = __atomic_load_n(&t->session->points_bytes, __ATOMIC_ACQUIRE);

	if (from == to)
		return true;
	if (near_region_allocate(&c->region, &c->objects[NEAR__AT_POINTS], from, to - from))
		return false;
	memcpy(c->points + from, t->points + from, to - from);
	/* Release: a reader that finds the size finds the tracepoints. */
	__atomic_store_n(&c->session->points_bytes, to, __ATOMIC_RELEASE);
	return true;
}

/* `begin` and what precedes it are the session's. */
static bool fill(struct near__trace_copy *c, const struct near__trace_run *t, uint32_t mode)
{
	struct near__trace_session *s = c->session;

	/* Not the name of the thread that streams. */
	memcpy(c->region.header->program, t->region.header->program,
	       sizeof(c->region.header->program));
	s->mode = mode;
	s->clock = t->session->clock;
	s->slots = t->slots;
	s->cpus = t->cpus;
	s->slot_kind = t->session->slot_kind;
	s->unstable = t->session->unstable;
	s->ring_size = c->ring_size;
	s->ring_stride = c->ring_stride;
	s->pid = t->session->pid;
	s->parent = t->session->parent;
	s->number = t->session->number;
	s->begin = t->session->begin;
	near__trace_store_moment(s);
	if (!near__trace_copy_points(c, t))
		return false;
	__atomic_store_n(&s->version, NEAR__TRACE_VERSION, __ATOMIC_RELEASE);
	return true;
}

int near__trace_copy_open(struct near__trace_copy *c, const char *path,
			  const struct near__trace_run *t, uint64_t ring_size, uint32_t mode)
{
	struct near_region_options o = {.size = 8, .objects = 8, .first = c->objects, .firsts = 4};
	int err;

	c->ring_size = ring_size;
	c->ring_stride = ring_size + NEAR__TRACE_PAGE;
	o.once = near__trace_define(c->objects, t->slots + t->cpus, c->ring_stride);
	if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return near__trace_fail(-EEXIST, "the file exists already");
	err = near_region_open(&c->region, path, &o);
	if (err)
		return near__trace_fail(err, c->region.why);
	c->session = (struct near__trace_session *)at_once(c, NEAR__AT_SESSION);
	c->points = at_once(c, NEAR__AT_POINTS);
	c->rings = at_once(c, NEAR__AT_RINGS);
	if (fill(c, t, mode))
		return 0;
	unlink(path);
	near__trace_copy_close(c);
	return near__trace_fail(-ENOSPC, "the file system is full");
}

void near__trace_copy_close(struct near__trace_copy *c)
{
	near__trace_store_moment(c->session);
	__atomic_store_n(&c->session->ended, 1, __ATOMIC_RELEASE);
	near_region_close(&c->region);
	c->session = NULL;
}

struct near__trace_ring *near__trace_copy_ring(struct near__trace_copy *c, unsigned i,
					       uint64_t from, uint64_t size)
{
	const struct near_region_object *o = &c->objects[NEAR__AT_RINGS];
	uint64_t at = i * c->ring_stride;
	struct near__trace_ring *r = (struct near__trace_ring *)(c->rings + at + NEAR__TRACE_PAGE -
								 NEAR__TRACE_RINGS_AT);

	if (near_region_allocate(&c->region, o, at, NEAR__TRACE_PAGE) ||
	    near_region_allocate(&c->region, o, at + NEAR__TRACE_PAGE + from, size))
		return NULL;
	r->mask = c->ring_size - 1;
	__atomic_fetch_or(&near__trace_used(c->session)[i / 64], UINT64_C(1) << i % 64,
			  __ATOMIC_RELEASE);
	return r;
}
