/* SPDX-License-Identifier: MIT */
/* near_trace: rings are opened, sub-buffers switched, and the rings of threads that cannot run
 * sequences written. All of it in sections of near__trace.rcu. */
#include "trace/trace.h"

#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "base/futex.h"
#include "kernel/hint.h"

#define ROUNDS 16

uint64_t near__trace_now(uint32_t clock)
{
	uint64_t (*now)(void);

	switch (clock) {
	case NEAR_TRACE_COUNTER:
		return near_clock();
	case NEAR_TRACE_MONOTONIC:
		return near__clock_ns(CLOCK_MONOTONIC);
	case NEAR_TRACE_OWN:
		now = __atomic_load_n(&near__trace.now, __ATOMIC_RELAXED);
		return now ? now() : 0;
	default:
		return 0;
	}
}

static void discarded_count(uint64_t *discarded)
{
	__atomic_fetch_add(discarded, 1, __ATOMIC_RELAXED);
}

/* ---- opening ---- */

/* A handler may have forked since the ring was provided: then it is private memory, and the table
 * is that of the child's session. The word is taken back, too, if the handler forks before the
 * store. */
static void ring_publish(struct near__trace_run *t, struct near__trace_ring *r, uint32_t slot)
{
	uint64_t *word = &t->row[slot * NEAR__TRACE_CLOCKS], is = 0, no_ring = 0;

	/* Release: the sequence that loads the address finds the mask. */
	__atomic_compare_exchange_n(word, &is, (uintptr_t)r, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
	is = (uintptr_t)r;
	if (__atomic_load_n(&near__trace.current, __ATOMIC_RELAXED) != t)
		__atomic_compare_exchange_n(word, &is, no_ring, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	__atomic_store_n(&t->local[slot].ring, r, __ATOMIC_RELEASE);
}

/* Several threads of a slot may open the ring at the same time; each goes on with it. */
bool near__trace_open_local(struct near__trace_run *t)
{
	struct near__trace_local *l;
	struct near__trace_ring *r;
	uint32_t slot;

	if (near__self.state > NEAR__THREAD_LIVE || !near__thread_live())
		return false;
	slot = near__index_now();
	if (slot >= t->slots)
		return false;
	l = &t->local[slot];
	if (!__atomic_load_n(&l->ring, __ATOMIC_ACQUIRE)) {
		r = near__trace_provide(t, slot);
		if (r)
			ring_publish(t, r, slot);
		if (r)
			near__trace_switched(t, slot);
	}
	return __atomic_load_n(&l->ring, __ATOMIC_RELAXED) != NULL;
}

/* ---- sub-buffers ---- */

/* Whether no reader needs what is there. */
static bool ring_is_free(const struct near__trace_run *t, const struct near__trace_ring *r,
			 uint64_t next)
{
	uint64_t from = 0;

	if (t->mode == NEAR_TRACE_OVERWRITE)
		return true;
	/* Acquire: what the reader has read is written after it. */
	if (t->mode == NEAR_TRACE_STREAM)
		from = __atomic_load_n(&r->read, __ATOMIC_ACQUIRE);
	return next - from < t->file.ring_size;
}

/* On a full disk a ring that may overwrite goes on with the sub-buffers that it has. */
bool near__trace_has_room(struct near__trace_run *t, struct near__trace_ring *r, uint64_t *next)
{
	uint64_t mask = t->file.ring_size - 1;
	uint32_t sub = (uint32_t)((*next & mask) / NEAR__TRACE_SUB_SIZE);

	near__trace_stream_by_event(t, near__trace_index_of(t, r));
	if (ring_is_free(t, r, *next)) {
		if (near__trace_make_ready(t, near__trace_index_of(t, r), sub))
			return true;
		*next = (*next | mask) + 1;
		if (ring_is_free(t, r, *next))
			return true;
	}
	discarded_count(&r->discarded);
	return false;
}

void near__trace_switched(struct near__trace_run *t, unsigned i)
{
	if (__atomic_load_n(&t->has_thread, __ATOMIC_RELAXED) &&
	    (t->mode == NEAR_TRACE_STREAM || near__trace_wants_more(t, i)))
		near__futex_wake(&t->control->request, 1, true);
}

/* ---- fallback rings ---- */

/* With its lock. The release of a position is not followed by an earlier store of the next
 * record: the compiler keeps the order, and a reader's membarrier the CPU's. */
static enum near__trace_result ring_append(struct near__trace_run *t, struct near__trace_ring *r,
					   const struct near__trace_event *e, uint32_t cpu)
{
	unsigned i = near__trace_index_of(t, r);
	uint64_t position = r->position, next, *at;

	if (position + e->size >= near__trace_end_for(t, i, position, e->size)) {
		next = (position | (NEAR__TRACE_SUB_SIZE - 1)) + 1;
		if (!near__trace_has_room(t, r, &next))
			return NEAR__TRACE_FULL;
		__atomic_store_n(near__trace_word_at(r, position), 0, __ATOMIC_RELAXED);
		__atomic_store_n(&r->position, next, __ATOMIC_RELEASE);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		near__trace_switched(t, i);
		position = next;
	}
	at = near__trace_word_at(r, position);
	__atomic_store_n(&at[0], e->head | (uint64_t)cpu << NEAR__TRACE_CPU_SHIFT,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&at[1], near__trace_now(t->clock), __ATOMIC_RELAXED);
	near__trace_copy(at + 2, e->words, e->n);
	__atomic_store_n(&r->position, position + e->size, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return NEAR__TRACE_WRITTEN;
}

/* Without the lock: the ring is opened, has its first sub-buffer once half of the begin is used,
 * and one ahead once half of one is. */
static struct near__trace_ring *ring_prepare(struct near__trace_run *t, unsigned i)
{
	struct near__trace_local *l = &t->local[i];
	struct near__trace_ring *r = __atomic_load_n(&l->ring, __ATOMIC_ACQUIRE);
	uint64_t position, ahead;

	if (!r) {
		r = near__trace_provide(t, i);
		if (r)
			__atomic_store_n(&l->ring, r, __ATOMIC_RELEASE);
		return r;
	}
	position = __atomic_load_n(&r->position, __ATOMIC_RELAXED);
	ahead = position + NEAR__TRACE_SUB_SIZE / 2;
	if (position >= NEAR__TRACE_BEGIN / 2)
		near__trace_make_ready(
			t, i, (uint32_t)((ahead & (t->file.ring_size - 1)) / NEAR__TRACE_SUB_SIZE));
	return r;
}

static enum near__trace_result write_to(struct near__trace_run *t, unsigned i,
					const struct near__trace_event *e, uint32_t cpu)
{
	struct near__trace_local *l = &t->local[t->slots + i];
	struct near__trace_ring *r = ring_prepare(t, t->slots + i);
	enum near__trace_result result;

	if (!r || !near_lock_try_lock(&l->lock))
		return NEAR__TRACE_NO_RING;
	result = ring_append(t, r, e, cpu);
	near_lock_unlock(&l->lock);
	return result;
}

/* A thread that was preempted with a lock gets some chances to release it. A signal handler on that
 * thread has no use of them. */
bool near__trace_write_fallback(struct near__trace_run *t, const struct near__trace_event *e)
{
	uint32_t cpu = near_cpu(), first = near__hint();
	enum near__trace_result result;

	for (unsigned i = 0; i < t->cpus * ROUNDS; i++) {
		if (i && i % t->cpus == 0)
			sched_yield();
		result = write_to(t, (first + i) % t->cpus, e, cpu);
		if (result != NEAR__TRACE_NO_RING)
			return result == NEAR__TRACE_WRITTEN;
	}
	discarded_count(&t->file.session->discarded);
	return false;
}
