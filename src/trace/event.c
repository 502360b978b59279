/* SPDX-License-Identifier: MIT */
/* near_trace: events. The sequences for payloads of more than a word, or other clocks; and what
 * happens if one fails. src/trace/trace.h has the argument. */
#include "trace/trace.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rcu/rcu.h"

/* ---- sequences ---- */

/* ring = row[slot * 4], which may be 0; or fails without a ring. */
#define RING NEAR_INDEX(ring) NEAR_SHIFT_LEFT(ring, 5) NEAR_LOAD8X(ring, row, ring)
#define LOCAL_RING RING NEAR_BRANCH_ZERO(ring, near_failed)

/* next = ring->position; at = where its word is, less the header. */
#define POSITION                                                                                   \
	NEAR_LOAD8(next, ring, 0)                                                                  \
	NEAR_LOAD8(at, ring, 8)                                                                    \
	NEAR_AND(at, next)                                                                         \
	NEAR_ADD(at, ring)

/* Appends a record of e->size bytes; of its payload copies a whole size class, which needs `room`
 * bytes. As near__trace_try in nearcpu/trace.h:
 *
 *     ring = row[slot * 4];                                    fails without a ring
 *     time = the counter, if it is the clock; next = ring->position;
 *     `checks` may fail; and fails without room before ring->end
 *     at = the word at `next`; at[0] = e->head | cpu; at[1] = time; at[2...] = the payload
 *     ring->position = next + e->size                          the commit */
#define EVENT(ROOM, CLOCK, CHECKS, TIME, COPY)                                                     \
	LOCAL_RING                                                                                 \
	CLOCK                                                                                      \
	POSITION                                                                                   \
	CHECKS                                                                                     \
	NEAR_MOVE(low, next)                                                                       \
	ROOM NEAR_LOAD8(t, ring, 24) NEAR_BRANCH_NOT_BELOW(low, t, near_failed)                    \
		NEAR_LOAD8(low, e, 8) NEAR_ADD(next, low) NEAR__INDEX_CPU_TOO(low)                 \
			NEAR_SHIFT_LEFT(low, 22) NEAR_LOAD8(t, e, 0) NEAR_OR(low, t)               \
				NEAR_STORE8(low, at, 128) TIME                                     \
				NEAR_STORE8(time, at, 136) NEAR_ADD_CONST(at, 144) COPY            \
				NEAR_COMMIT8_RELEASE(next, ring)
_Static_assert(NEAR__TRACE_CPU_SHIFT == 22 && NEAR__TRACE_CLOCKS * sizeof(uint64_t) == 1 << 5 &&
		       NEAR__TRACE_RINGS_AT == 128 &&
		       offsetof(struct near__trace_ring, mask) == 8 &&
		       offsetof(struct near__trace_ring, end) == 24 &&
		       offsetof(struct near__trace_event, size) == 8,
	       "the numbers in EVENT and near__trace_try");

#define NOTHING
#define SAME_RING NEAR_LOAD8(t, e, 16) NEAR_BRANCH_NE(ring, t, near_failed)
#define SAME_NEXT NEAR_LOAD8(t, e, 24) NEAR_BRANCH_NE(next, t, near_failed)
#define SAME_POSITION SAME_RING SAME_NEXT
#define TIME_GIVEN NEAR_LOAD8(time, e, 32)
_Static_assert(offsetof(struct near__trace_event, ring) == 16 &&
		       offsetof(struct near__trace_event, position) == 24 &&
		       offsetof(struct near__trace_event, time) == 32,
	       "SAME_POSITION, TIME_GIVEN");

#define COPY1 NEAR_LOAD8(low, words, 0) NEAR_STORE8(low, at, 0)
#define COPY2 NEAR_COPY2(at, 0, words, 0, low)
#define COPY4 NEAR_COPY4(at, 0, words, 0, low)
#define COPY8 COPY4 NEAR_COPY4(at, 32, words, 32, low)
#define COPY16 COPY8 NEAR_COPY4(at, 64, words, 64, low) NEAR_COPY4(at, 96, words, 96, low)
#define COPY32                                                                                     \
	COPY16 NEAR_COPY4(at, 128, words, 128, low) NEAR_COPY4(at, 160, words, 160, low)           \
		NEAR_COPY4(at, 192, words, 192, low) NEAR_COPY4(at, 224, words, 224, low)
#define ROOM1 NEAR_ADD_CONST(low, 24)
#define ROOM2 NEAR_ADD_CONST(low, 32)
#define ROOM4 NEAR_ADD_CONST(low, 48)
#define ROOM8 NEAR_ADD_CONST(low, 80)
#define ROOM16 NEAR_ADD_CONST(low, 144)
#define ROOM32 NEAR_ADD_CONST(low, 136) NEAR_ADD_CONST(low, 136)

/* A given time costs more than a call: there is one copy of these. */
#define OUTPUTS ring, next, at, low, t
#define DEFINE(n)                                                                                  \
	static bool try_clock_##n(const uint64_t *row, const struct near__trace_event *e)          \
	{                                                                                          \
		const uint64_t *words = e->words;                                                  \
		uint64_t ring, next, at, low, t, time;                                             \
                                                                                                   \
		return NEAR_SEQ(EVENT(ROOM##n, NEAR_CLOCK(time), NOTHING, NOTHING, COPY##n),       \
				NEAR_OUT_CLOCK(time, OUTPUTS), NEAR_IN(row, e, words));      \
	}                                                                                          \
	__attribute__((noinline)) static bool try_given_##n(const uint64_t *row,                   \
							    const struct near__trace_event *e)     \
	{                                                                                          \
		const uint64_t *words = e->words;                                                  \
		uint64_t ring, next, at, low, t, time;                                             \
                                                                                                   \
		return NEAR_SEQ(EVENT(ROOM##n, NOTHING, SAME_POSITION, TIME_GIVEN, COPY##n),       \
				NEAR_OUT(time, OUTPUTS), NEAR_IN(row, e, words));            \
	}
DEFINE(1)
DEFINE(2)
DEFINE(4)
DEFINE(8)
DEFINE(16)
DEFINE(32)

/* As near__trace_try, with a time of 0. */
static bool try_without_clock(const uint64_t *row, uint64_t head, uint64_t word)
{
	uint64_t ring, next, at, low;

	return NEAR_SEQ(
		LOCAL_RING
		POSITION
		NEAR_ADD_CONST(next, 24)
		NEAR_LOAD8(low, ring, 24)
		NEAR_BRANCH_NOT_BELOW(next, low, near_failed)
		NEAR__INDEX_CPU_TOO(low)
		NEAR_SHIFT_LEFT(low, 22)
		NEAR_OR(low, head)
		NEAR_STORE8(low, at, 128)
		NEAR_XOR(low, low)
		NEAR_STORE8(low, at, 136)
		NEAR_STORE8(word, at, 144)
		NEAR_COMMIT8_RELEASE(next, ring),
		NEAR_OUT(ring, next, at, low), NEAR_IN(row, head, word));
}

/* The local ring and its position, at one moment: e->ring = row[slot * 4], e->position = its
 * position, which commits. */
static bool try_peek(const uint64_t *row, struct near__trace_event *e)
{
	uint64_t ring, next;

	return NEAR_SEQ(
		LOCAL_RING
		NEAR_LOAD8(next, ring, 0)
		NEAR_STORE8(ring, e, 16)
		NEAR_COMMIT8(next, e, 24),
		NEAR_OUT(ring, next), NEAR_IN(row, e));
}

/* Ends the sub-buffer of e->position: a head of 0, then ring->position = end, which commits. Fails
 * if another thread of the slot has been here. */
static bool try_switch(const uint64_t *row, const struct near__trace_event *e, uint64_t end)
{
	uint64_t ring, next, at, t, zero = 0;

	return NEAR_SEQ(
		RING
		SAME_RING
		POSITION
		SAME_NEXT
		NEAR_STORE8(zero, at, 128)
		NEAR_COMMIT8_RELEASE(end, ring),
		NEAR_OUT(ring, next, at, t), NEAR_IN(row, e, end, zero));
}

/* ring->end = the end of the sub-buffer of e->position, or of what is ready of it, which commits.
 * Fails if the position is another one by then: `end` never is after the end of the position's
 * sub-buffer. */
static bool try_set_end(const uint64_t *row, const struct near__trace_event *e, uint64_t end)
{
	uint64_t ring, next, t;

	return NEAR_SEQ(
		RING
		SAME_RING
		NEAR_LOAD8(next, ring, 0)
		SAME_NEXT
		NEAR_COMMIT8(end, ring, 24),
		NEAR_OUT(ring, next, t), NEAR_IN(row, e, end));
}

static const struct class
{
	bool (*clock)(const uint64_t *row, const struct near__trace_event *e);
	bool (*given)(const uint64_t *row, const struct near__trace_event *e);
	uint64_t room;
} classes[] = {
	{try_clock_1, try_given_1, 24},    {try_clock_2, try_given_2, 32},
	{try_clock_4, try_given_4, 48},    {try_clock_8, try_given_8, 80},
	{try_clock_16, try_given_16, 144}, {try_clock_32, try_given_32, 272},
};

/* The smallest that has n words. */
static const struct class *class_of(unsigned n)
{
	return &classes[n <= 1 ? 0 : 32 - __builtin_clz(n - 1)];
}

static const uint64_t *row_of(uint32_t clock)
{
	const uint64_t *table = __atomic_load_n(&near__trace_table, __ATOMIC_RELAXED);

	return table + (clock - 1);
}

/* Loads nothing of a ring but in sequences. */
static inline bool try_once(uint32_t clock, const struct class *c, struct near__trace_event *e)
{
	const uint64_t *row = row_of(clock);

	if (clock == NEAR_TRACE_COUNTER)
		return c->clock(row, e);
	if (!try_peek(row, e))
		return false;
	e->time = clock == NEAR_TRACE_MONOTONIC ? near__clock_ns(CLOCK_MONOTONIC)
						: near__trace_now(clock);
	return c->given(row, e);
}

/* ---- failed sequences ---- */

/* Else a signal handler has forked since the event began, and the ring is of the child's session,
 * which has the table. */
static bool is_ring_of(const struct near__trace_run *t, const struct near__trace_ring *r)
{
	return (uint64_t)((const char *)r - t->file.rings) < t->slots * t->file.ring_stride;
}

/* What is to be done about it. NEAR__TRACE_WRITTEN: try again. */
static enum near__trace_result event_mend(struct near__trace_run *t, struct near__trace_event *e)
{
	struct near__trace_ring *r;
	uint64_t next, end;
	unsigned i;

	if (!try_peek(t->row, e))
		return near__trace_open_local(t) ? NEAR__TRACE_WRITTEN : NEAR__TRACE_NO_RING;
	r = (struct near__trace_ring *)(uintptr_t)e->ring;
	if (!is_ring_of(t, r))
		return NEAR__TRACE_NO_RING;
	i = near__trace_index_of(t, r);
	end = near__trace_end_for(t, i, e->position, e->room);
	if (e->position + e->room >= end) {
		next = (e->position | (NEAR__TRACE_SUB_SIZE - 1)) + 1;
		if (!near__trace_has_room(t, r, &next))
			return NEAR__TRACE_FULL;
		if (!try_switch(t->row, e, next))
			return NEAR__TRACE_WRITTEN;
		near__trace_switched(t, i);
		e->position = next;
		end = near__trace_end_for(t, i, next, e->room);
	}
	if (__atomic_load_n(&r->end, __ATOMIC_RELAXED) != end)
		try_set_end(t->row, e, end);
	return NEAR__TRACE_WRITTEN;
}

/* In a section of near__trace.rcu. False: the record is discarded, and counted. */
static bool write_in(struct near__trace_run *t, const struct class *c, struct near__trace_event *e)
{
	NEAR__TRY_WHILE(true) {
		if (try_once(t->clock, c, e))
			return true;
		switch (event_mend(t, e)) {
		case NEAR__TRACE_FULL:
			return false;
		case NEAR__TRACE_NO_RING:
			return near__trace_write_fallback(t, e);
		default:
			break;
		}
	}
	return near__trace_write_fallback(t, e);
}

/* Begins a section, and finds the session; for an event, a child begins its own. If a handler has
 * forked before the session was loaded, this is the child, and the section is in a domain for which
 * nobody waits any more: there is another one. */
static struct near__trace_run *section_begin(bool is_event, struct near_rcu **domain,
					     uint64_t *token)
{
	struct near__trace_run *t;

	do {
		*domain = __atomic_load_n(&near__trace.rcu, __ATOMIC_RELAXED);
		*token = near__rcu_count_in(*domain);
		/* Acquire: what starts a trace stores more than what the pointer leads to. */
		t = __atomic_load_n(&near__trace.current, __ATOMIC_ACQUIRE);
		if (!t && is_event && __atomic_load_n(&near__trace.is_child, __ATOMIC_RELAXED))
			t = near__trace.resume();
	} while (*domain != __atomic_load_n(&near__trace.rcu, __ATOMIC_RELAXED));
	return t;
}

/* A signal handler that forks in the middle leaves the section to its child (see
 * leave_domain in session.c). Without a record it checks for orders alone. */
static bool write_slowly(uint32_t clock, const struct class *c, struct near__trace_event *e)
{
	struct near__trace_thread *mine = near__storage_is_own() ? near__trace_thread_own() : NULL;
	bool written = false;
	struct near__trace_run *t;
	struct near_rcu *domain;
	uint64_t token;

	if (!__atomic_load_n(near__trace.alive, __ATOMIC_RELAXED))
		return false;
	if (mine)
		mine->inside++;
	t = section_begin(e != NULL, &domain, &token);
	if (t && e && t->clock == clock)
		written = write_in(t, c, e);
	if (t && e && !written && e->is_rest)
		__atomic_fetch_add(&t->file.session->chains_cut, 1, __ATOMIC_RELAXED);
	if (t)
		near__trace_look_for_order(t);
	NEAR__TSAN_RELEASE(&domain->slots);
	near__rcu_count_out(domain, token);
	if (mine)
		mine->inside--;
	return written;
}

/* ---- records ---- */

static uint32_t trace_this_thread(void)
{
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	if (near__storage_is_own())
		near__more.tid = tid;
	return tid;
}

uint32_t near__trace_tid(void)
{
	uint32_t tid = near__storage_is_own() ? near__more.tid : 0;

	return tid ? tid : trace_this_thread();
}

/* What is left to do if the common case was none. */
__attribute__((noinline)) static bool write_otherwise(uint32_t clock, const struct class *c,
						      struct near__trace_event *e, bool is_rest)
{
	if (!(e->head & ((UINT64_C(1) << NEAR__TRACE_TID_BITS) - 1)))
		e->head |= trace_this_thread();
	e->n = (unsigned)(e->size / sizeof(uint64_t)) - 2;
	e->room = c->room;
	e->time = 0;
	e->is_rest = is_rest;
	return try_once(clock, c, e) || write_slowly(clock, c, e);
}

void near__trace_check_orders(void)
{
	write_slowly(0, NULL, NULL);
}

/* Apart, also in clang's code: one copy of its sequences. */
__attribute__((noinline)) bool near__trace_write(struct near_trace_point *p, const uint64_t *words,
						 unsigned n, uint64_t flags, bool is_rest)
{
	uint32_t enabled = __atomic_load_n(&p->enabled, __ATOMIC_ACQUIRE);
	uint32_t clock = enabled &
			 ~(NEAR__TRACE_FILTERED | NEAR__TRACE_WATCHED | NEAR__TRACE_TRIGGERED);
	uint32_t tid = near__storage_is_own() ? near__more.tid : 0;
	const struct class *c = class_of(n);
	struct near__trace_event e;

	if (clock - 1 >= NEAR_TRACE_NO_CLOCK) {
		near__trace_write_none(enabled);
		return true;
	}
	e.head = (p->head & ((UINT64_C(1) << NEAR__TRACE_WORDS_SHIFT) - 1)) | tid |
		 (uint64_t)(n + 2) << NEAR__TRACE_WORDS_SHIFT | flags << NEAR__TRACE_FLAGS_SHIFT;
	e.size = (n + 2) * sizeof(uint64_t);
	e.words = words;
	if (clock == NEAR_TRACE_COUNTER && tid && c->clock(row_of(NEAR_TRACE_COUNTER), &e))
		return true;
	return write_otherwise(clock, c, &e, is_rest);
}

/* The common case of CLOCK_MONOTONIC first. Apart: near__trace_one has no stack frame for the
 * word. */
__attribute__((noinline)) static void write_word(struct near_trace_point *p, uint64_t word)
{
	uint32_t clock = __atomic_load_n(&p->enabled, __ATOMIC_ACQUIRE);
	uint32_t tid = near__storage_is_own() ? near__more.tid : 0;
	struct near__trace_event e;

	if (clock == NEAR_TRACE_MONOTONIC && tid) {
		e.head = p->head | tid;
		e.size = 3 * sizeof(uint64_t);
		e.words = &word;
		if (try_once(NEAR_TRACE_MONOTONIC, &classes[0], &e))
			return;
	}
	near__trace_write(p, &word, 1, 0, false);
}

/* As words_choose in src/trace/payload.c. */
__attribute__((noinline)) static void word_choose(struct near_trace_point *p, uint64_t word)
{
	near__trace_choose(p, &word, NULL, 1, __builtin_frame_address(0));
}

void near__trace_one(struct near_trace_point *p, uint64_t word)
{
	uint32_t clock = __atomic_load_n(&p->enabled, __ATOMIC_ACQUIRE);
	uint32_t tid = near__more.tid;

	if (clock > NEAR_TRACE_NO_CLOCK && clock & NEAR__TRACE_FILTERED)
		word_choose(p, word);
	else if (clock == NEAR__TRACE_WATCHED)
		near__trace_watch();
	else if (clock != NEAR_TRACE_NO_CLOCK || !tid ||
		 !try_without_clock(row_of(NEAR_TRACE_NO_CLOCK), p->head | tid, word))
		write_word(p, word);
}
