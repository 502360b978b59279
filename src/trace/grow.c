/* SPDX-License-Identifier: MIT */
/* near_trace: rings get their memory, a sub-buffer at a time.
 *
 * A sub-buffer is ready if its blocks are allocated and its pages are mapped. A ring is opened with
 * the begin of its first one alone, which takes less time; `end` in its header then is the end of
 * that. Any number of threads make the same one ready at the same time, and so do signal handlers
 * that have interrupted one. No thread waits for another one, since each step may be repeated at
 * any time:
 *
 * - Blocks are allocated where there are none.
 * - Each page is touched by a compare-exchange of 0 to 0, at a word that a sequence may have
 *   written by then: whatever is there stays. Not by a fetch_or of 0, which compilers make a load.
 * - The header's words are stored where they are 0: a thread that was the first may have moved
 *   `end` on by then.
 * - `ready` is raised by a compare-exchange, a release. A writer loads it, an acquire, before it
 *   enters the sub-buffer.
 *
 * The session's thread makes sub-buffers ready before they are needed, and the first one of rings
 * that are not open yet. models/trace_grow.cc has all of it, concurrently with a reader. */
#include "base/bits.h"
#include "trace/trace.h"

#include <sys/stat.h>

#include "rcu/rcu.h"
#include "region/region.h"

#define LEAST_PAGE 4096
#define AHEAD 16u /* sub-buffers: 1 MiB */
#define SPARES 2u /* rings that are not open */
#define SUB NEAR__TRACE_SUB_SIZE

enum { UNCLAIMED, CLAIMING, CLAIMED }; /* near__trace_local.claim */

void near__trace_set_flag(struct near__trace_run *t, enum near__trace_session_flags flag)
{
	if (!(__atomic_load_n(&t->file.session->flags, __ATOMIC_RELAXED) & flag))
		__atomic_fetch_or(&t->file.session->flags, flag, __ATOMIC_RELAXED);
}

/* ---- sub-buffers ---- */

static void pages_touch(char *at, const char *end)
{
	for (; at < end; at += LEAST_PAGE) {
		uint64_t zero = 0;

		__atomic_compare_exchange_n((uint64_t *)at, &zero, 0, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	}
}

/* Without one the file's blocks are allocated by its mapping. As near__region_has_file, with one
 * system call. */
static int file_descriptor(const struct near__trace_run *t)
{
	struct stat st;

	return fstat(t->file.region.fd, &st) == 0 && st.st_dev == t->device && st.st_ino == t->inode
		       ? t->file.region.fd
		       : -1;
}

/* Bytes `from` to `end` of ring i, its header included. False: no room. */
static bool ring_provide(struct near__trace_run *t, unsigned i, uint64_t from, uint64_t end)
{
	struct region_caller c = near__region_enter();
	uint64_t ring = i * t->file.ring_stride;
	int err = near__region_provide_once(&t->file.region, file_descriptor(t),
					    t->file.objects[NEAR__AT_RINGS].offset + ring + from,
					    end - from);

	if (!err)
		pages_touch(t->file.rings + ring + from, t->file.rings + ring + end);
	return near__region_leave(c, !err);
}

static bool provide_or_refuse(struct near__trace_run *t, unsigned i, uint64_t from, uint64_t end)
{
	if (!near__trace_may_try(&t->refused))
		return false;
	if (!ring_provide(t, i, from, end)) {
		__atomic_fetch_or(&t->refused, 1, __ATOMIC_RELAXED);
		near__trace_set_flag(t, NEAR__TRACE_WAS_FULL);
		return false;
	}
	if (__atomic_load_n(&t->refused, __ATOMIC_RELAXED))
		__atomic_store_n(&t->refused, 0, __ATOMIC_RELAXED);
	return true;
}

static void raise_ready(struct near__trace_run *t, unsigned i, uint32_t sub)
{
	__atomic_compare_exchange_n(&t->local[i].ready, &sub, sub + 1, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

/* The first one with the ring's header. */
static bool provide_sub(struct near__trace_run *t, unsigned i, uint32_t sub)
{
	uint64_t end = NEAR__TRACE_PAGE + (sub + 1) * SUB;

	if (!provide_or_refuse(t, i, sub ? end - SUB : 0, end))
		return false;
	raise_ready(t, i, sub);
	return true;
}

bool near__trace_make_ready(struct near__trace_run *t, unsigned i, uint32_t sub)
{
	uint32_t ready;

	while ((ready = near__trace_ready(t, i)) <= sub)
		if (!provide_sub(t, i, ready))
			return false;
	return true;
}

uint64_t near__trace_end_for(struct near__trace_run *t, unsigned i, uint64_t position,
			     uint64_t room)
{
	uint32_t sub = (uint32_t)((position & (t->file.ring_size - 1)) / SUB);

	if (position % SUB + room >= near__trace_extent(t, i, sub))
		near__trace_make_ready(t, i, sub);
	return position / SUB * SUB + near__trace_extent(t, i, sub);
}

/* ---- rings ---- */

/* Whether the session may have this ring: by max_bytes. One that another thread is claiming, or
 * what this handler has interrupted, cannot be had now. */
static bool ring_claim(struct near__trace_run *t, unsigned i)
{
	uint32_t *state = &t->local[i].claim, is = UNCLAIMED;
	bool granted;

	if (t->most_rings >= t->slots + t->cpus)
		return true;
	if (!__atomic_compare_exchange_n(state, &is, CLAIMING, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED))
		return is == CLAIMED;
	granted = __atomic_fetch_add(&t->used, 1, __ATOMIC_RELAXED) < t->most_rings;
	if (!granted) {
		__atomic_fetch_sub(&t->used, 1, __ATOMIC_RELAXED);
		near__trace_set_flag(t, NEAR__TRACE_WAS_BOUND);
	}
	__atomic_store_n(state, granted ? CLAIMED : UNCLAIMED, __ATOMIC_RELAXED);
	return granted;
}

/* The thread that finds it set publishes the ring, too: the acquire pairs with the release of the
 * one that set it. */
static void set_once(uint64_t *word, uint64_t value)
{
	uint64_t none = 0;

	if (__atomic_load_n(word, __ATOMIC_ACQUIRE))
		return;
	__atomic_compare_exchange_n(word, &none, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

struct near__trace_ring *near__trace_provide(struct near__trace_run *t, unsigned i)
{
	struct near__trace_ring *r = near__trace_ring_at(t, i);

	if (!ring_claim(t, i))
		return NULL;
	if (!near__trace_ready(t, i) &&
	    !provide_or_refuse(t, i, 0, NEAR__TRACE_PAGE + NEAR__TRACE_BEGIN))
		return NULL;
	set_once(&r->mask, t->file.ring_size - 1);
	set_once(&r->end, near__trace_extent(t, i, 0));
	/* Release: a reader that finds the bit finds the ring. */
	NEAR__BIT_SET(near__trace_used(t->file.session), i, __ATOMIC_RELEASE);
	return r;
}

/* ---- ahead ---- */

/* How many should be ready. */
static uint64_t ring_wanted(const struct near__trace_run *t, unsigned i, uint32_t ahead)
{
	uint64_t position = __atomic_load_n(&near__trace_ring_at(t, i)->position, __ATOMIC_RELAXED);
	uint64_t n = position / SUB + 1 + ahead, all = t->file.ring_size / SUB;

	return n < all ? n : all;
}

bool near__trace_wants_more(const struct near__trace_run *t, unsigned i)
{
	return near__trace_ready(t, i) < ring_wanted(t, i, AHEAD / 2);
}

/* The first sub-buffers of rings that are opened next, if slots are the threads' cids. With
 * max_bytes a ring that is not opened must not take memory. */
static void provide_spares(struct near__trace_run *t)
{
	unsigned i = near__process.usable ? 0 : t->slots, spares = 0;
	unsigned end = near__process.usable ? t->slots : t->slots + t->cpus;

	if (t->most_rings < t->slots + t->cpus)
		return;
	for (; i < end && spares < SPARES; i++) {
		if (near__trace_is_used(t->file.session, i))
			continue;
		if (NEAR__TRACE_AHEAD > 0)
			near__rcu_open_ahead(near__trace.rcu, i);
		if (!near__trace_ready(t, i)) {
			if (!ring_provide(t, i, 0, NEAR__TRACE_PAGE + SUB))
				return;
			raise_ready(t, i, 0);
		}
		spares++;
	}
}

void near__trace_ahead(struct near__trace_run *t)
{
	provide_spares(t);
	for (unsigned i = 0; i < t->slots + t->cpus; i++)
		while (near__trace_is_used(t->file.session, i) &&
		       near__trace_ready(t, i) < ring_wanted(t, i, AHEAD) &&
		       !__atomic_load_n(&t->ends, __ATOMIC_RELAXED))
			if (!provide_sub(t, i, near__trace_ready(t, i)))
				break;
}
