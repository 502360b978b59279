/* SPDX-License-Identifier: MIT */
/* near_trace: a copy of the rings, while events go on: format.h says what of it is whole. */
#include "trace/trace.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "region/region.h"

#define SUB NEAR__TRACE_SUB_SIZE
#define TRIES 8

/* The sub-buffer after that of position - ring_size. */
static uint64_t snapshot_oldest(uint64_t position, uint64_t size)
{
	return position < size ? 0 : ((position - size) / SUB + 1) * SUB;
}

/* `extent` bytes of it: what is not ready has no memory to be loaded. */
static void copy_sub(struct near__trace_ring *to, struct near__trace_ring *from, uint64_t p,
		     uint64_t end, uint64_t extent)
{
	uint64_t next = p / SUB * SUB + extent;

	for (end = next < end ? next : end; p < end; p += sizeof(uint64_t))
		near__trace_copy(near__trace_word_at(to, p), near__trace_word_at(from, p), 1);
}

/* The position of a full ring is loaded when there is room for the copy. NULL: the disk is full. */
static struct near__trace_ring *copy_words(struct near__trace_file *c,
					   const struct near__trace_run *t, unsigned i)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	/* Acquire: pairs with the commits. */
	uint64_t end = __atomic_load_n(&r->position, __ATOMIC_ACQUIRE);

	to = near__trace_copy_ring(c, i, 0, end < t->file.ring_size ? end | 7 : t->file.ring_size);
	if (!to)
		return NULL;
	if (end >= t->file.ring_size)
		end = __atomic_load_n(&r->position, __ATOMIC_ACQUIRE);
	for (uint64_t p = snapshot_oldest(end, t->file.ring_size); p < end; p = (p | (SUB - 1)) + 1)
		copy_sub(to, r, p, end,
			 near__trace_extent(t, i, (uint32_t)((p & (t->file.ring_size - 1)) / SUB)));
	to->read = __atomic_load_n(&r->read, __ATOMIC_RELAXED);
	to->discarded = __atomic_load_n(&r->discarded, __ATOMIC_RELAXED);
	to->position = end;
	return to;
}

/* Without the right to interrupt other CPUs, the slow one. */
static void snapshot_fence(void)
{
	if (near__process.usable)
		near__fence();
	else
		syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

/* What may have been overwritten during the copy is dropped. The fence is between: the position
 * that is loaded after it is at least that of the newest data that was copied. If most is dropped,
 * because this thread did not run for a while, the ring is copied again. */
static bool copy_ring(struct near__trace_file *c, const struct near__trace_run *t, unsigned i)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	uint64_t begin, from, end;
	unsigned tries = 0;

	do {
		to = copy_words(c, t, i);
		if (!to)
			return false;
		snapshot_fence();
		end = to->position;
		begin = snapshot_oldest(end, t->file.ring_size);
		from = snapshot_oldest(__atomic_load_n(&r->position, __ATOMIC_ACQUIRE),
				       t->file.ring_size);
	} while (from > begin + (end - begin) / 2 && ++tries < TRIES);
	for (uint64_t p = begin; p < from && p < end; p += SUB)
		*near__trace_word_at(to, p) = NEAR__TRACE_DROPPED;
	return true;
}

static int copy_rings(struct near__trace_file *c, const struct near__trace_run *t)
{
	unsigned n = t->slots + t->cpus;

	for (unsigned i = 0; i < n; i++)
		if (near__trace_is_used(t->file.session, i) && !copy_ring(c, t, i))
			return near__trace_fail(-ENOSPC, "the file system is full");
	c->session->discarded = __atomic_load_n(&t->file.session->discarded, __ATOMIC_RELAXED);
	c->session->flags = __atomic_load_n(&t->file.session->flags, __ATOMIC_RELAXED);
	c->session->chains_cut = __atomic_load_n(&t->file.session->chains_cut, __ATOMIC_RELAXED);
	return 0;
}

int near_trace_snapshot(const char *file)
{
	struct region_caller caller = near__region_enter();
	struct near__trace_file c;
	struct near__trace_run *t;
	int err = -ENOENT;

	near__trace_lock();
	t = near__trace.current;
	if (!t)
		near__trace_fail(err, "the process does not trace");
	else
		err = near__trace_copy_open(&c, file, t, t->file.ring_size, t->mode);
	if (!err) {
		err = copy_rings(&c, t);
		near__trace_copy_close(&c);
		if (err)
			unlink(file);
	}
	near_lock_unlock(&near__trace.lock);
	return near__region_leave(caller, err);
}
