/* SPDX-License-Identifier: MIT */
/* The operations of near_trace: what they wrote. A record's bytes show which event it is. */
#define _GNU_SOURCE
#include "trace.h"

#include <sys/mman.h>

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
		at = trace_begin(i);
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
		if (used[i / 64] >> i % 64 & 1 && !read_ring(trace_ring_at(rings, i), i, reader))
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
			return read_rings(s->run->file.rings,
					  near__trace_used(s->run->file.session), reader);
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
	} else if (id == trace_text_id()) {
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
	if (near__trace.current->file.session->discarded)
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

/* It may be less than what there is when the copy ends. */
static bool see_copied(void *unused, unsigned ring, const uint64_t *w)
{
	(void)unused;
	(void)ring;
	return byte_of(w) != 0;
}

bool trace_is_whole(char *rings, const uint64_t *used)
{
	const struct reader reader = {see_copied, NULL};

	return read_rings(rings, used, &reader);
}

/* ---- what can be observed ---- */

struct list {
	unsigned char *to;
	unsigned n, most;
	uint64_t in_fallback; /* a bit for each event */
};

/* Of events in fallback rings only which there are: it is chance which CPU's ring has one. */
static bool add(void *arg, unsigned ring, const uint64_t *w)
{
	struct list *l = arg;
	unsigned char byte = byte_of(w);

	if (byte == NONE || l->n + 2 >= l->most)
		return true;
	if (ring >= near__trace.current->slots) {
		l->in_fallback |= UINT64_C(1) << (byte - NONE);
		return true;
	}
	l->to[l->n++] = (unsigned char)('0' + ring);
	l->to[l->n++] = byte;
	return true;
}

void trace_list(char *out, unsigned size, const struct actor *a, const struct actor *b)
{
	struct list l = {(unsigned char *)out, 0, size, 0};

	if (a->events || b->events)
		read_all(&(struct reader){add, &l});
	for (unsigned i = 1; i <= 2 * OPS_EVENTS && l.n + 2 < size; i++) {
		if (!(l.in_fallback >> i & 1))
			continue;
		l.to[l.n++] = 'f';
		l.to[l.n++] = (unsigned char)(NONE + i);
	}
	out[l.n] = '\0';
}
