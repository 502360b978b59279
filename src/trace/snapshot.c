/* SPDX-License-Identifier: MIT */
/* near_trace: a copy of the rings, while events go on: format.h says what of it is whole. */
#include "trace/trace.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "percpu/region.h"

#define SUB NEAR__TRACE_SUB_SIZE

/* The sub-buffer after that of position - ring_size. */
static uint64_t oldest(uint64_t position, uint64_t size)
{
	return position < size ? 0 : ((position - size) / SUB + 1) * SUB;
}

/* The position last: a reader that finds it finds the data. */
static bool copy_ring(struct near__trace_copy *c, const struct near__trace_run *t, unsigned i)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	/* Acquire: pairs with the commits. */
	uint64_t end = __atomic_load_n(&r->position, __ATOMIC_ACQUIRE);

	to = near__trace_copy_ring(c, i, 0, end < t->ring_size ? end | 7 : t->ring_size);
	if (!to)
		return false;
	for (uint64_t p = oldest(end, t->ring_size); p < end; p += sizeof(uint64_t))
		near__trace_copy(near__trace_word_at(to, p), near__trace_word_at(r, p), 1);
	to->read = __atomic_load_n(&r->read, __ATOMIC_RELAXED);
	to->discarded = __atomic_load_n(&r->discarded, __ATOMIC_RELAXED);
	to->position = end;
	return true;
}

/* What may have been overwritten during the copy becomes empty. The fence is between: the position
 * that is loaded after it is at least that of the newest data that was copied. */
static void drop_overwritten(struct near__trace_copy *c, const struct near__trace_run *t,
			     unsigned i)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	uint64_t now = __atomic_load_n(&r->position, __ATOMIC_ACQUIRE), from;

	to = (struct near__trace_ring *)(c->rings + i * c->ring_stride + NEAR__TRACE_PAGE -
					 NEAR__TRACE_RINGS_AT);
	from = oldest(now, t->ring_size);
	if (from >= to->position)
		to->position = 0;
	for (uint64_t p = oldest(to->position, t->ring_size); p < from && p < to->position;
	     p += SUB)
		*near__trace_word_at(to, p) = 0;
}

/* Without the right to interrupt other CPUs, the slow one. */
static void fence(void)
{
	if (near__process.usable)
		near__fence();
	else
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

static int copy_rings(struct near__trace_copy *c, const struct near__trace_run *t)
{
	unsigned n = t->slots + t->cpus;

	for (unsigned i = 0; i < n; i++)
		if (near__trace_is_used(t->session, i) && !copy_ring(c, t, i))
			return near__trace_fail(-ENOSPC, "the file system is full");
	fence();
	for (unsigned i = 0; i < n; i++)
		if (near__trace_is_used(c->session, i))
			drop_overwritten(c, t, i);
	c->session->discarded = __atomic_load_n(&t->session->discarded, __ATOMIC_RELAXED);
	c->session->chains_cut = __atomic_load_n(&t->session->chains_cut, __ATOMIC_RELAXED);
	return 0;
}

int near_trace_snapshot(const char *file)
{
	struct region_caller caller = near__region_enter();
	struct near__trace_copy c;
	struct near__trace_run *t;
	int err = -ENOENT;

	near__trace_fail(0, NULL);
	near_lock_lock(&near__trace.lock);
	t = near__trace.current;
	if (!t)
		near__trace_fail(err, "the process does not trace");
	else
		err = near__trace_copy_open(&c, file, t, t->ring_size, t->mode);
	if (!err) {
		err = copy_rings(&c, t);
		near__trace_copy_close(&c);
		if (err)
			unlink(file);
	}
	near_lock_unlock(&near__trace.lock);
	return near__region_leave(caller, err);
}
