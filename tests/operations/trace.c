/* SPDX-License-Identifier: MIT */
/* The operations of near_trace. All bytes of an event's payload are the same, and no other event's:
 * so a record shows which event it is, and whether it is whole. Sessions are without a thread, and
 * their files are made before: an operation ends one and begins the next. */
#define _GNU_SOURCE
#include "trace.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

NEAR_TRACEPOINT(ops, event, NEAR_TRACE_INFO, (u64, bytes));
NEAR_TRACEPOINT(ops, text, NEAR_TRACE_INFO, (string, text));

#define CHAIN ((LONG - 1) * 8 + 160)

/* ---- events ---- */

/* Until the event is known to be written or dropped, it may be either. */
static unsigned char next_byte(struct actor *me)
{
	if (me->events == OPS_EVENTS)
		abort();
	T.is_used = true;
	return (unsigned char)(NONE + 1 + me->id * OPS_EVENTS + me->events++);
}

static uint64_t repeated(unsigned char byte)
{
	return byte * UINT64_C(0x0101010101010101);
}

__attribute__((noinline)) static void call_event(uint64_t value)
{
	near_trace_ops_event(value);
}

static void write_words(struct actor *me, unsigned n)
{
	uint64_t words[LONG];

	memset(words, next_byte(me), sizeof(words));
	near__trace_words(&near__trace_point_ops_event, words, n * sizeof(uint64_t));
}

void trace_event(struct actor *me)
{
	call_event(repeated(next_byte(me)));
}

/* Of a size class each. */
void trace_pair(struct actor *me)
{
	write_words(me, 2);
}

void trace_text(struct actor *me)
{
	char text[TEXT + 1] = "";

	memset(text, next_byte(me), TEXT);
	near_trace_ops_text(text);
}

void trace_eight(struct actor *me)
{
	write_words(me, 8);
}

void trace_sixteen(struct actor *me)
{
	write_words(me, 16);
}

uint64_t trace_text_id(void)
{
	return near__trace_point_ops_text.head >> NEAR__TRACE_ID_SHIFT & 65535;
}

/* Two records, of which the second one is in the next sub-buffer. */
void trace_chain(struct actor *me)
{
	char bytes[CHAIN];
	struct near__trace_piece piece = {.data = bytes, .size = CHAIN};

	me->chains |= 1u << me->events;
	memset(bytes, next_byte(me), CHAIN);
	near__trace_pieces(&near__trace_point_ops_event, &piece, 1);
}

/* ---- sessions ---- */

static void make_path(char *path, const char *what)
{
	snprintf(path, OPS_PATH, "/dev/shm/nearcpu-ops-%d-%s", (int)getpid(), what);
}

/* As near_trace_start does, with near__trace.lock. */
static void publish(void)
{
	struct near__trace_run *t;

	if (near__trace.current || T.begun == OPS_SESSIONS)
		return;
	t = T.sessions[T.begun++].run;
	near_rcu_assign(near__trace.current, t);
	__atomic_store_n(&near__trace_point_ops_event.enabled, t->clock, __ATOMIC_RELEASE);
	__atomic_store_n(&near__trace_point_ops_text.enabled, t->clock, __ATOMIC_RELEASE);
}

/* One that another actor is ending is left to it. */
void trace_restart(struct actor *me)
{
	T.is_used = true;
	if (near_trace_stop())
		return;
	near_lock_lock(&near__trace.lock);
	publish();
	near_lock_unlock(&near__trace.lock);
	me->restarts++;
}

static struct near__trace_run *make_session(struct ops_session *s)
{
	struct near_trace_options o = {.clock = NEAR_TRACE_COUNTER, .ring_size = RING_SIZE};
	char path[OPS_PATH];

	make_path(path, "session");
	o.path = path;
	if (near__trace_open(&s->run, &o))
		abort();
	s->file = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	s->size = s->run->file.region.total;
	s->rings = (size_t)(s->run->file.rings - (char *)s->run->file.region.header);
	s->used = (size_t)((char *)near__trace_used(s->run->file.session) -
			   (char *)s->run->file.region.header);
	return s->run;
}

/* As if no ring had been opened; the file has their blocks. */
static void close_rings(struct near__trace_run *t)
{
	unsigned n = t->slots + t->cpus;

	for (unsigned i = 0; i < n; i++) {
		if (near__trace_is_used(t->file.session, i))
			memset(trace_ring_at(t->file.rings, i), 0, sizeof(struct near__trace_ring));
		t->local[i] = (struct near__trace_local){.ring = NULL};
	}
	memset(near__trace_used(t->file.session), 0, (n + 63) / 64 * sizeof(uint64_t));
	t->used = 0;
}

static void empty_rings(struct near__trace_run *t)
{
	for (unsigned i = 0; i < t->slots + t->cpus; i++) {
		struct near__trace_ring *r = t->local[i].ring;

		if (!r)
			continue;
		r->position = 0;
		r->end = NEAR__TRACE_SUB_SIZE;
		if (i < t->slots)
			t->row[i * NEAR__TRACE_CLOCKS] = (uintptr_t)r;
	}
}

/* As if it were new; or with the rings that it has: to allocate them in each run takes long. */
static void rewind_session(struct ops_session *s, enum near_trace_clock clock, bool keeps_rings)
{
	struct near__trace_run *t = s->run;

	for (unsigned i = 0; i < t->slots; i++)
		t->row[i * NEAR__TRACE_CLOCKS] = 0;
	if (!keeps_rings)
		close_rings(t);
	t->file.session->discarded = t->file.session->chains_cut = 0;
	t->refused = 0;
	t->clock = clock;
	t->row = (uint64_t *)(uintptr_t)near__trace_table + (clock - 1);
	if (keeps_rings)
		empty_rings(t);
}

/* What is made once: by a session of its own, which has a thread where one can be made. */
static void get_ready(void)
{
	struct near_trace_options o = {.clock = NEAR_TRACE_MONOTONIC};
	char path[OPS_PATH];

	make_path(path, "first");
	o.path = path;
	if (near_trace_start(&o) || near_trace_stop())
		abort();
	unlink(path);
	T.first_is_odd = near_slot() % 2;
}

static enum near_trace_clock clock_of(enum ops_setup setup)
{
	if (setup == OPS_EMPTY)
		return NEAR_TRACE_MONOTONIC;
	return setup == OPS_KILLED ? NEAR_TRACE_NO_CLOCK : NEAR_TRACE_COUNTER;
}

/* ---- what the objects need ---- */

static void fill_cells(const struct near__trace_run *t)
{
	unsigned n = t->slots + t->cpus;
	uintptr_t from = (uintptr_t)t->file.region.header;

	for (unsigned i = 0; i <= n && OPS_TRACE_CELLS + i < OPS_CELLS; i++) {
		ops_cells[OPS_TRACE_CELLS + i].at = from;
		ops_cells[OPS_TRACE_CELLS + i].bytes =
			(uintptr_t)trace_ring_at(t->file.rings, i) - from;
		from = (uintptr_t)(trace_ring_at(t->file.rings, i) + 1);
	}
}

/* Sessions that no operation used stay as they are: it takes long to make them. */
static void create(void)
{
	enum ops_setup setup = OBJ.setup;

	if (T.begun && T.setup == setup && !T.is_used)
		return;
	T.setup = setup;
	T.is_used = false;
	if (!near__trace.is_ready)
		get_ready();
	near__trace.current = NULL;
	/* The first one last: they have one table of rings. */
	for (unsigned i = OPS_SESSIONS; i-- > 0;) {
		struct ops_session *s = &T.sessions[i];

		if (s->run && i + 1 < T.begun) { /* it was ended */
			close(s->file);
			s->run = NULL;
		}
		if (!s->run)
			make_session(s);
		rewind_session(s, clock_of(setup), i == 0 && setup == OPS_OPEN);
	}
	fill_cells(T.sessions[0].run);
	T.begun = 0;
	T.failed = NULL;
	publish();
}

static bool has_entered(const struct near__trace_run *t)
{
	unsigned slot = near_slot();
	const struct near__trace_ring *r = t->local[slot].ring;

	return r && r->position == trace_begin(slot);
}

/* The thread is known, and the ring of its slot open. */
static void enter(void)
{
	static _Thread_local bool is_known;
	struct near__trace_run *t = near__trace.current;

	if (is_known && has_entered(t))
		return;
	is_known = true;
	call_event(repeated(NONE));
	for (unsigned i = 0; i < t->slots; i++) {
		struct near__trace_ring *r = t->local[i].ring;

		if (!r)
			continue;
		near__trace_make_ready(t, i, NEAR__TRACE_LEAST_SUBS - 1);
		r->position = trace_begin(i);
		r->end = RING_SIZE;
	}
}

/* ---- snapshots ---- */

static void check_copy(const char *path)
{
	const struct near__trace_run *t = near__trace.current;
	const char *header = (const char *)t->file.region.header;
	size_t used = (size_t)((char *)near__trace_used(t->file.session) - header);
	int file = open(path, O_RDWR | O_CLOEXEC);
	char *m = mmap(NULL, t->file.region.total, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (m == MAP_FAILED)
		abort();
	if (!trace_is_whole(m + (t->file.rings - header), (uint64_t *)(m + used)))
		T.failed = "a record of a snapshot is torn";
	munmap(m, t->file.region.total);
	close(file);
}

void trace_snapshot(struct actor *me)
{
	char path[OPS_PATH];

	T.is_used = true;
	make_path(path, me->id ? "b" : "a");
	if (near_trace_snapshot(path))
		return; /* there is no session now */
	check_copy(path);
	unlink(path);
}

static void describe(struct ops_text *t, const struct actor *a, const struct actor *b)
{
	char events[64];

	trace_list(events, sizeof(events), a, b);
	put(t, " trace ");
	put(t, events);
}

const struct ops_kind kind_trace = {
	.begin = create,
	.enter = enter,
	.describe = describe,
	.conserved = trace_conserved,
};
