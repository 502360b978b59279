/* SPDX-License-Identifier: MIT */
/* The operations of near_trace. All bytes of an event's payload are the same, and no other event's:
 * so a record shows which event it is, and whether it is whole. Sessions are without a thread, and
 * their files are made before: an operation ends one and begins the next. */
#define _GNU_SOURCE
#include "objects.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/trace.h"

NEAR_TRACEPOINT(ops, event, NEAR_TRACE_INFO, (u64, bytes));
NEAR_TRACEPOINT(ops, text, NEAR_TRACE_INFO, (string, text));

#define T OBJ.trace
#define RING_SIZE (NEAR__TRACE_SUB_SIZE * NEAR__TRACE_LEAST_SUBS)
/* Where open rings begin: a chain ends this sub-buffer, and the next one is at the ring's begin. In
 * the emulator a sub-buffer has 512 bytes. */
#define FIRST (RING_SIZE - 512)
#define LONG 32 /* words of the longest record */
#define CHAIN ((LONG - 1) * 8 + 160)
#define TEXT 21
#define NONE 0x40 /* the byte of events that are no actor's */

/* ---- events ---- */

/* Until the event is known to be written or dropped, it may be either. */
static unsigned char next_byte(struct actor *me)
{
	if (me->events == OPS_EVENTS)
		abort();
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

static void trace_text(struct actor *me)
{
	char text[TEXT + 1] = "";

	memset(text, next_byte(me), TEXT);
	near_trace_ops_text(text);
}

/* Of each size class but the longest. */
void trace_sizes(struct actor *me)
{
	write_words(me, 1);
	write_words(me, 2);
	trace_text(me);
	write_words(me, 8);
	write_words(me, 16);
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

static struct near__trace_ring *ring_at(char *rings, unsigned i)
{
	return (struct near__trace_ring *)(rings + i * (RING_SIZE + NEAR__TRACE_PAGE) +
					   NEAR__TRACE_PAGE - NEAR__TRACE_RINGS_AT);
}

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
	s->size = s->run->region.total;
	s->rings = (size_t)(s->run->rings - (char *)s->run->region.header);
	s->used = (size_t)((char *)s->run->session->used - (char *)s->run->region.header);
	return s->run;
}

/* As if it were new, but for the blocks. */
static void rewind_session(struct ops_session *s, enum near_trace_clock clock)
{
	struct near__trace_run *t = s->run;
	unsigned n = t->slots + t->cpus;

	for (unsigned i = 0; i < t->slots; i++)
		t->row[i * NEAR__TRACE_CLOCKS] = 0;
	for (unsigned i = 0; i < n; i++) {
		if (near__trace_is_used(t->session, i))
			memset(ring_at(t->rings, i), 0, sizeof(struct near__trace_ring));
		t->local[i] = (struct near__trace_local){.ring = NULL};
	}
	memset(t->session->used, 0, (n + 63) / 64 * sizeof(uint64_t));
	t->session->discarded = t->session->chains_cut = 0;
	t->used = t->refused = 0;
	t->clock = clock;
	t->row = (uint64_t *)(uintptr_t)near__trace_table + (clock - 1);
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
	uintptr_t from = (uintptr_t)t->region.header;

	for (unsigned i = 0; i <= n && OPS_TRACE_CELLS + i < OPS_CELLS; i++) {
		ops_cells[OPS_TRACE_CELLS + i].at = from;
		ops_cells[OPS_TRACE_CELLS + i].bytes = (uintptr_t)ring_at(t->rings, i) - from;
		from = (uintptr_t)(ring_at(t->rings, i) + 1);
	}
}

void trace_create(enum ops_setup setup)
{
	if (!near__trace.is_ready)
		get_ready();
	near__trace.current = NULL;
	for (unsigned i = 0; i < OPS_SESSIONS; i++) {
		struct ops_session *s = &T.sessions[i];

		if (s->run && i + 1 < T.begun) { /* it was ended */
			close(s->file);
			s->run = NULL;
		}
		if (!s->run)
			make_session(s);
		rewind_session(s, clock_of(setup));
	}
	fill_cells(T.sessions[0].run);
	T.begun = 0;
	T.failed = NULL;
	publish();
}

/* The thread is known, and the ring of its slot open. */
void trace_enter(void)
{
	struct near__trace_run *t = near__trace.current;

	call_event(repeated(NONE));
	for (unsigned i = 0; i < t->slots; i++) {
		struct near__trace_ring *r = t->local[i].ring;

		if (!r)
			continue;
		r->position = FIRST;
		r->end = RING_SIZE;
	}
}

/* ---- what is in the rings ---- */

struct reader {
	bool (*see)(void *arg, unsigned ring, const uint64_t *record);
	void *arg;
};

static unsigned words_of(uint64_t head)
{
	return (unsigned)(head >> NEAR__TRACE_WORDS_SHIFT & 63);
}

static uint64_t oldest(uint64_t position)
{
	return position < RING_SIZE
		       ? 0
		       : ((position - RING_SIZE) / NEAR__TRACE_SUB_SIZE + 1) * NEAR__TRACE_SUB_SIZE;
}

/* False: the position is not behind a record, or see() returned false. */
static bool read_ring(struct near__trace_ring *r, unsigned i, const struct reader *reader)
{
	uint64_t at = oldest(r->position), end = r->position, last = 0;

	if (end >= FIRST && at < FIRST)
		at = FIRST;
	while (at < end) {
		const uint64_t *w = near__trace_word_at(r, at);
		unsigned words = words_of(*w);

		if (!*w) {
			at = (at | (NEAR__TRACE_SUB_SIZE - 1)) + 1;
			continue;
		}
		if (words < 3 || words > LONG + 2 || w[1] < last || !reader->see(reader->arg, i, w))
			return false;
		last = w[1];
		at += words * sizeof(uint64_t);
	}
	return at == end;
}

static bool read_rings(char *rings, const uint64_t *used, const struct reader *reader)
{
	unsigned n = near__trace.current->slots + near__trace.current->cpus;

	for (unsigned i = 0; i < n; i++)
		if (used[i / 64] >> i % 64 & 1 && !read_ring(ring_at(rings, i), i, reader))
			return false;
	return true;
}

/* The sessions that began; the last one has not ended. */
static bool read_all(const struct reader *reader)
{
	bool good = true;

	for (unsigned i = 0; i < T.begun && good; i++) {
		const struct ops_session *s = &T.sessions[i];
		char *m;

		if (i + 1 == T.begun)
			return read_rings(s->run->rings, s->run->session->used, reader);
		m = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED, s->file, 0);
		if (m == MAP_FAILED)
			return false;
		good = read_rings(m + s->rings, (uint64_t *)(m + s->used), reader);
		munmap(m, s->size);
	}
	return good;
}

struct found {
	unsigned char records[2 * OPS_EVENTS];
	unsigned char parts[2 * OPS_EVENTS]; /* bits */
};

static bool all_are(const unsigned char *p, size_t n, unsigned char byte)
{
	while (n && *p == byte)
		p++, n--;
	return !n;
}

/* The byte of the event; 0: the record is not whole. */
static unsigned char byte_of(const uint64_t *w)
{
	const unsigned char *p = (const unsigned char *)(w + 2);
	size_t n = (words_of(*w) - 2) * sizeof(uint64_t);
	uint64_t id = *w >> NEAR__TRACE_ID_SHIFT & 65535;

	if (*w >> NEAR__TRACE_FLAGS_SHIFT & NEAR__TRACE_PART) {
		p += sizeof(uint64_t);
		n -= sizeof(uint64_t);
	} else if (id == (near__trace_point_ops_text.head >> NEAR__TRACE_ID_SHIFT & 65535)) {
		if (n != 24 || p[0] != TEXT || p[1] || p[2 + TEXT])
			return 0;
		p += 2;
		n = TEXT;
	}
	return all_are(p, n, *p) ? *p : 0;
}

static bool see(void *arg, unsigned ring, const uint64_t *w)
{
	struct found *f = arg;
	unsigned byte = byte_of(w), i = byte - NONE - 1, part;

	(void)ring;
	if (byte == NONE)
		return true;
	if (byte < NONE || i >= 2 * OPS_EVENTS)
		return false;
	part = *w >> NEAR__TRACE_FLAGS_SHIFT & NEAR__TRACE_PART ? w[2] >> 32 & 1 : 0;
	f->records[i]++;
	if (f->parts[i] >> part & 1)
		return false;
	f->parts[i] |= 1u << part;
	return true;
}

/* Of a chain both parts; of others the one record. */
static bool is_there(const struct found *f, unsigned i, const struct actor *of)
{
	unsigned parts = of->chains >> i % OPS_EVENTS & 1 ? 3 : 1;

	return f->parts[i] == parts;
}

/* Events that a session's end came between may have been dropped. */
const char *trace_conserved(const struct actor *a, const struct actor *b)
{
	struct found f = {0};
	struct reader reader = {see, &f};
	bool may_drop = a->restarts || b->restarts;

	if (T.failed)
		return T.failed;
	if (!a->events && !b->events && !may_drop)
		return NULL;
	if (!near__trace.current || near__trace.is_ending)
		return "no session of the tracer has begun";
	if (!read_all(&reader))
		return "a record of the tracer is torn, or there twice";
	if (near__trace.current->session->discarded)
		return "an event was discarded";
	for (unsigned i = 0; i < 2 * OPS_EVENTS; i++) {
		const struct actor *of = i < OPS_EVENTS ? a : b;

		if (i % OPS_EVENTS >= of->events && f.parts[i])
			return "an event was written that there was not";
		if (i % OPS_EVENTS < of->events && !may_drop && !is_there(&f, i, of))
			return "an event is lost";
	}
	return NULL;
}

/* ---- snapshots ---- */

/* What is copied is whole; it may be less than what there is when the copy ends. */
static bool see_copied(void *unused, unsigned ring, const uint64_t *w)
{
	(void)unused;
	(void)ring;
	return byte_of(w) != 0;
}

static void check_copy(const char *path)
{
	const struct near__trace_run *t = near__trace.current;
	const struct reader reader = {see_copied, NULL};
	const char *header = (const char *)t->region.header;
	size_t used = (size_t)((char *)t->session->used - header);
	int file = open(path, O_RDWR | O_CLOEXEC);
	char *m = mmap(NULL, t->region.total, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (m == MAP_FAILED)
		abort();
	if (!read_rings(m + (t->rings - header), (uint64_t *)(m + used), &reader))
		T.failed = "a record of a snapshot is torn";
	munmap(m, t->region.total);
	close(file);
}

void trace_snapshot(struct actor *me)
{
	char path[OPS_PATH];

	make_path(path, me->id ? "b" : "a");
	if (near_trace_snapshot(path))
		return; /* there is no session now */
	check_copy(path);
	unlink(path);
}

/* ---- what can be observed ---- */

struct list {
	unsigned char *to;
	unsigned n, most;
};

static bool add(void *arg, unsigned ring, const uint64_t *w)
{
	struct list *l = arg;
	unsigned char byte = byte_of(w);

	if (byte != NONE && l->n + 2 < l->most) {
		l->to[l->n++] = (unsigned char)('0' + ring);
		l->to[l->n++] = byte;
	}
	return true;
}

void trace_list(char *out, unsigned size, const struct actor *a, const struct actor *b)
{
	struct list l = {(unsigned char *)out, 0, size};

	if (a->events || b->events)
		read_all(&(struct reader){add, &l});
	out[l.n] = '\0';
}
