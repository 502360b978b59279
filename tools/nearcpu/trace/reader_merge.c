/* SPDX-License-Identifier: MIT */
/* All rings as one stream of events: a heap of their next records. Payloads of several records are
 * joined; an event whose payload is not complete yet holds the events after it back. */
#include "common/memory.h"
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

#define MOST_HELD (UINT64_C(16) << 20) /* bytes; then the first payload is given up */
#define MOST_CHAINS 1000
#define MOST_ROUNDS 20 /* until a payload is given up in a trace that is followed */

struct part {
	uint32_t number, size;
	char data[];
};

struct trace_held {
	STAILQ_ENTRY(trace_held) held;
	LIST_ENTRY(trace_held) open;
	struct trace_event event;
	uint32_t serial, parts, have; /* 0 parts: the payload is whole */
	unsigned round;               /* when it came */
	uint64_t bytes;
	struct part **got; /* as they came */
	char *joined;
	char data[];
};

/* ---- the heap ---- */

static bool is_before(const struct trace_ring *a, const struct trace_ring *b)
{
	return a->ns != b->ns ? a->ns < b->ns : a < b;
}

static void sift_down(struct trace *t, unsigned i)
{
	struct trace_ring **heap = t->heap, *r = heap[i];
	unsigned child;

	for (; (child = 2 * i + 1) < t->heap_count; i = child) {
		if (child + 1 < t->heap_count && is_before(heap[child + 1], heap[child]))
			child++;
		if (!is_before(heap[child], r))
			break;
		heap[i] = heap[child];
	}
	heap[i] = r;
}

void trace_begin(struct trace *t)
{
	free(t->heap);
	t->heap = allocate_zeros(t->ring_count, sizeof(struct trace_ring *));
	t->heap_count = 0;
	for (unsigned i = 0; i < t->ring_count; i++)
		if (t->rings[i].record || trace_ring_next(&t->rings[i]))
			t->heap[t->heap_count++] = &t->rings[i];
	for (unsigned i = t->heap_count / 2; i-- > 0;)
		sift_down(t, i);
}

/* Of a trace that is followed: whether a record was there in the round before. Most often it is
 * the first one. */
static bool may_take(const struct trace *t)
{
	for (unsigned i = 0; i < t->heap_count; i++)
		if (!t->follows ||
		    t->heap[i]->next - (t->heap[i]->limit - t->heap[i]->begin) <= t->heap[i]->seen)
			return true;
	return false;
}

/* The ring with the next record; NULL: there is none. The record is valid until the next call. */
static struct trace_ring *next_ring(struct trace *t)
{
	if (t->taken && !trace_ring_next(t->taken))
		t->heap[0] = t->heap[--t->heap_count];
	if (t->taken && t->heap_count)
		sift_down(t, 0);
	t->taken = may_take(t) ? t->heap[0] : NULL;
	return t->taken;
}

/* ---- payloads of several records ---- */

static void free_held(struct trace *t, struct trace_held *h)
{
	for (uint32_t i = 0; i < h->have; i++)
		free(h->got[i]);
	t->held_bytes -= h->bytes;
	free(h->got);
	free(h->joined);
	free(h);
}

static struct trace_held *hold(struct trace *t, const struct trace_event *e, uint32_t size)
{
	struct trace_held *h = allocate_zeros(1, sizeof(*h) + size);

	h->event = *e;
	h->event.payload = h->data;
	if (size)
		memcpy(h->data, e->payload, size);
	h->bytes = sizeof(*h) + size;
	h->round = t->round;
	t->held_bytes += h->bytes;
	STAILQ_INSERT_TAIL(&t->held, h, held);
	return h;
}

static struct trace_held *find_chain(struct trace *t, const struct trace_event *e, uint32_t serial)
{
	struct trace_held *h;

	LIST_FOREACH(h, &t->open, open)
	if (h->serial == serial && h->event.tid == e->tid && h->event.file->owner == e->file->owner)
		return h;
	return NULL;
}

static void close_chain(struct trace *t, struct trace_held *h)
{
	LIST_REMOVE(h, open);
	t->open_chains--;
}

/* A part of a payload whose first part was overwritten, or is damaged: the payload counts once. */
static void count_orphan(struct trace *t, const struct trace_event *e, uint32_t serial)
{
	uint64_t key = (uint64_t)serial << 32 | e->tid;
	uint64_t *last = &t->orphans[e->tid % (sizeof(t->orphans) / sizeof(*t->orphans))];

	if (*last != key)
		e->file->lost[LOST_CHAINS]++;
	*last = key;
}

static void add_part(struct trace *t, struct trace_held *h, uint32_t number,
		     const struct trace_event *e)
{
	struct part *p = allocate_zeros(1, sizeof(*p) + e->size);

	p->number = number;
	p->size = e->size;
	memcpy(p->data, e->payload, e->size);
	APPEND(h->got, h->have, p);
	h->bytes += sizeof(*p) + e->size;
	t->held_bytes += sizeof(*p) + e->size;
	h->event.size += e->size;
	h->event.flags |= e->flags;
	if (h->have == h->parts)
		close_chain(t, h);
}

static void take_part(struct trace *t, struct trace_event *e)
{
	uint64_t first;
	uint32_t serial, number, parts;
	struct trace_held *h;

	memcpy(&first, e->payload, sizeof(first));
	serial = (uint32_t)first;
	number = (uint32_t)(first >> 32 & 0xffff);
	parts = (uint32_t)(first >> 48);
	e->payload += sizeof(first);
	e->size -= (uint32_t)sizeof(first);
	h = find_chain(t, e, serial);
	if (number == 0 && !h && parts > 0) {
		struct trace_event empty = *e;

		empty.size = 0;
		h = hold(t, &empty, 0);
		h->serial = serial;
		h->parts = parts;
		LIST_INSERT_HEAD(&t->open, h, open);
		t->open_chains++;
	}
	if (h)
		add_part(t, h, number, e);
	else
		count_orphan(t, e, serial);
}

static int by_number(const void *a, const void *b)
{
	const struct part *const *p = a, *const *q = b;

	return ((*p)->number > (*q)->number) - ((*p)->number < (*q)->number);
}

/* Whether all numbers are there, once each. */
static bool join(struct trace_held *h)
{
	uint32_t at = 0;

	if (h->parts == 0)
		return true;
	if (h->have != h->parts)
		return false;
	h->joined = allocate_zeros(h->event.size, 1);
	qsort(h->got, h->have, sizeof(struct part *), by_number);
	for (uint32_t i = 0; i < h->have; i++) {
		if (h->got[i]->number != i)
			return false;
		memcpy(h->joined + at, h->got[i]->data, h->got[i]->size);
		at += h->got[i]->size;
	}
	h->event.payload = h->joined;
	h->event.flags &= ~(uint32_t)NEAR__TRACE_PART;
	return true;
}

/* ---- events ---- */

static bool must_wait(const struct trace *t)
{
	const struct trace_held *h = STAILQ_FIRST(&t->held);

	return h->have != h->parts && !t->all_read && t->held_bytes < MOST_HELD &&
	       t->open_chains < MOST_CHAINS && t->round - h->round <= MOST_ROUNDS;
}

/* The first of those that are held; false: it was not complete. */
static bool take_held(struct trace *t, struct trace_event *e)
{
	struct trace_held *h = STAILQ_FIRST(&t->held);

	STAILQ_REMOVE_HEAD(&t->held, held);
	if (h->have != h->parts)
		close_chain(t, h);
	if (!join(h)) {
		h->event.file->lost[LOST_CHAINS]++;
		free_held(t, h);
		return false;
	}
	t->returned = h;
	*e = h->event;
	return true;
}

static void event_of(const struct trace_ring *r, struct trace_event *e)
{
	uint64_t head = r->record[0];
	unsigned id = (unsigned)(head >> NEAR__TRACE_ID_SHIFT & 0xffff);

	*e = (struct trace_event){
		.file = r->file,
		.point = r->file->owner->points[id],
		.ns = r->ns,
		.pid = r->file->session.pid,
		.cpu = (uint32_t)(head >> NEAR__TRACE_CPU_SHIFT & 0x3fff),
		.tid = (uint32_t)(head & 0x3fffff),
		.flags = (uint32_t)(head >> NEAR__TRACE_FLAGS_SHIFT),
		.size = (uint32_t)((head >> NEAR__TRACE_WORDS_SHIFT & 0x3f) - 2) * 8,
		.payload = (const char *)(r->record + 2),
	};
	if (!e->point)
		e->point = trace_unknown_point(r->file, id);
	if (r->file->session.flags & NEAR__TRACE_IS_SCHED && !(e->flags & NEAR__TRACE_PART))
		e->pid = (uint32_t)r->record[2];
}

/* The next event, whatever it is; false: there are no more. */
static bool next_event(struct trace *t, struct trace_event *e)
{
	while (!t->all_read || !STAILQ_EMPTY(&t->held)) {
		const struct trace_ring *r;

		if (!STAILQ_EMPTY(&t->held) && !must_wait(t)) {
			if (take_held(t, e))
				return true;
			continue;
		}
		r = next_ring(t);
		t->all_read = !r && !t->follows;
		if (!r && t->follows)
			return false;
		if (!r)
			continue;
		event_of(r, e);
		if (e->flags & NEAR__TRACE_PART)
			take_part(t, e);
		else if (STAILQ_EMPTY(&t->held))
			return true;
		else
			hold(t, e, e->size);
	}
	return false;
}

/* The words of an event whose fields are not known, as an array. */
static void make_raw(struct trace *t, struct trace_event *e)
{
	uint16_t head = NEAR__TRACE_LONG;
	uint32_t words = e->size / 8;
	char *raw = allocate_zeros(e->size + sizeof(head) + sizeof(words), 1);

	free(t->raw);
	memcpy(raw, &head, sizeof(head));
	memcpy(raw + sizeof(head), &words, sizeof(words));
	memcpy(raw + sizeof(head) + sizeof(words), e->payload, e->size);
	t->raw = raw;
	e->payload = raw;
	e->size += (uint32_t)(sizeof(head) + sizeof(words));
	e->file->lost[LOST_UNKNOWN]++;
}

static bool is_whole(const struct trace_event *e)
{
	struct trace_cursor c = trace_fields(e);

	if (e->point->fixed_size != UINT32_MAX)
		return e->point->fixed_size <= e->size;
	while (trace_next_field(&c))
		continue;
	return c.next == e->point->field_count;
}

static bool passes(const struct trace *t, const struct trace_event *e)
{
	const struct trace_filter *f = t->filter;
	uint64_t since = e->ns > t->begin ? e->ns - t->begin : 0;

	return e->point->selected && since >= f->from && since <= f->to &&
	       (!f->tid || e->tid == f->tid) && (!f->cpus || cpu_list_has(f->cpus, e->cpu));
}

bool trace_next(struct trace *t, struct trace_event *e)
{
	for (;;) {
		if (t->returned)
			free_held(t, t->returned);
		t->returned = NULL;
		if (!next_event(t, e))
			return false;
		if (e->point->index == UINT32_MAX)
			trace_number(t, e->file, e->point);
		if (!passes(t, e))
			continue;
		if (e->point->unknown)
			make_raw(t, e);
		if (is_whole(e)) {
			e->point->count++;
			e->file->lost[LOST_LATE] += e->ns < t->last_ns;
			t->last_ns = e->ns;
			return true;
		}
		e->file->lost[LOST_PAYLOADS]++;
	}
}

void trace_end_merge(struct trace *t)
{
	struct trace_held *h;

	while ((h = STAILQ_FIRST(&t->held))) {
		STAILQ_REMOVE_HEAD(&t->held, held);
		free_held(t, h);
	}
	if (t->returned)
		free_held(t, t->returned);
	for (unsigned i = 0; i < t->ring_count; i++)
		free(t->rings[i].buffer);
	free(t->rings);
	free(t->heap);
	free(t->raw);
	free(t->points);
}
