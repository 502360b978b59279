/* SPDX-License-Identifier: MIT */
/* near_trace: a copy of the rings, while events go on: format.h states what of it is whole. */
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

static uint64_t extent_at(const struct near__trace_run *t, unsigned i, uint64_t p)
{
	return near__trace_extent(t, i, (uint32_t)((p & (t->file.ring_size - 1)) / SUB));
}

/* The first sub-buffer from p on of which some is not before `since`: the one after it begins
 * later. What an event overwrites here may be found too young, and is dropped afterwards. */
static uint64_t first_since(const struct near__trace_run *t, unsigned i, uint64_t p, uint64_t end,
			    uint64_t since)
{
	for (uint64_t next = p + SUB; since && next < end; next += SUB) {
		const uint64_t *w = near__trace_word_at(near__trace_ring_at(t, i), next);

		if (extent_at(t, i, next) && __atomic_load_n(&w[0], __ATOMIC_RELAXED) &&
		    __atomic_load_n(&w[1], __ATOMIC_RELAXED) < since)
			p = next;
	}
	return p;
}

/* Room for the bytes from `from` on. */
static struct near__trace_ring *ring_make(struct near__trace_file *c, unsigned i, uint64_t from,
					  uint64_t end)
{
	uint64_t at = from & (c->ring_size - 1), n = end - from;
	struct near__trace_ring *to;

	if (n >= c->ring_size)
		return near__trace_copy_ring(c, i, 0, c->ring_size);
	if (at + n <= c->ring_size)
		return near__trace_copy_ring(c, i, at, n);
	to = near__trace_copy_ring(c, i, at, c->ring_size - at);
	return to ? near__trace_copy_ring(c, i, 0, at + n - c->ring_size) : NULL;
}

/* The position of a full ring is loaded when there is room for the copy, and for what is written
 * into one more sub-buffer by then. NULL: the disk is full. */
static struct near__trace_ring *
copy_words(struct near__trace_file *c, const struct near__trace_run *t, unsigned i, uint64_t since)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	uint64_t size = t->file.ring_size, begin, last;
	/* Acquire: pairs with the commits. */
	uint64_t end = __atomic_load_n(&r->position, __ATOMIC_ACQUIRE), p;

	begin = first_since(t, i, snapshot_oldest(end, size), end, since);
	last = end < size ? end | 7 : (end / SUB + 2) * SUB;
	to = ring_make(c, i, begin, last);
	if (!to)
		return NULL;
	if (end >= size)
		end = __atomic_load_n(&r->position, __ATOMIC_ACQUIRE);
	end = last - begin < size && end > last ? last : end;
	p = snapshot_oldest(end, size);
	for (p = p > begin ? p : begin; p < end; p = (p | (SUB - 1)) + 1)
		copy_sub(to, r, p, end, extent_at(t, i, p));
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
static bool copy_ring(struct near__trace_file *c, const struct near__trace_run *t, unsigned i,
		      uint64_t since)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i), *to;
	uint64_t begin, from, end;
	unsigned tries = 0;

	do {
		to = copy_words(c, t, i, since);
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

static int copy_rings(struct near__trace_file *c, const struct near__trace_run *t, uint64_t since)
{
	unsigned n = t->slots + t->cpus;

	for (unsigned i = 0; i < n; i++)
		if (near__trace_is_used(t->file.session, i) && !copy_ring(c, t, i, since))
			return near__trace_fail(-ENOSPC, "the file system is full");
	c->session->discarded = __atomic_load_n(&t->file.session->discarded, __ATOMIC_RELAXED);
	c->session->flags = __atomic_load_n(&t->file.session->flags, __ATOMIC_RELAXED);
	c->session->chains_cut = __atomic_load_n(&t->file.session->chains_cut, __ATOMIC_RELAXED);
	return 0;
}

/* By the session's clock; 0: since its begin. The rate of the counter is that since then. */
static uint64_t since_by_clock(const struct near__trace_run *t, uint64_t since_ns)
{
	const struct near__trace_moment *begin = &t->file.session->begin;
	struct near__trace_moment now;
	double ns;

	if (t->clock == NEAR_TRACE_NO_CLOCK || since_ns <= begin->monotonic_ns)
		return 0;
	near__trace_read_moment(&now);
	ns = (double)(now.monotonic_ns - since_ns);
	switch (t->clock) {
	case NEAR_TRACE_MONOTONIC:
		return since_ns;
	case NEAR_TRACE_OWN:
		return near__trace_now(NEAR_TRACE_OWN) - (uint64_t)ns;
	default:
		return now.counter - (uint64_t)(ns * (double)(now.counter - begin->counter) /
						(double)(now.monotonic_ns - begin->monotonic_ns));
	}
}

int near__trace_snapshot(const char *file, uint64_t since_ns, uint32_t flags)
{
	struct near__trace_run *t = near__trace.current;
	struct near__trace_file c;
	int err;

	if (!t)
		return near__trace_fail(-ENOENT, "the process does not trace");
	err = near__trace_copy_open(&c, file, t, t->file.ring_size, t->mode);
	if (err)
		return err;
	err = copy_rings(&c, t, since_by_clock(t, since_ns));
	c.session->flags |= flags;
	near__trace_copy_close(&c);
	if (err)
		unlink(file);
	return err;
}

int near_trace_snapshot(const char *file)
{
	struct region_caller caller = near__region_enter();
	int err;

	near__trace_find_objects();
	near__trace_lock();
	err = near__trace_snapshot(file, 0, 0);
	near_lock_unlock(&near__trace.lock);
	return near__region_leave(caller, err);
}
