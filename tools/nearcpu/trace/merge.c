/* SPDX-License-Identifier: MIT */
/* All rings as one stream of events: a heap of their next records, and the payloads that several
 * records have, joined. An event whose payload is not complete yet holds those after it back. */
#include "trace/reader.h"

#include <stdlib.h>
#include <string.h>

#define MOST_HELD (UINT64_C(16) << 20) /* bytes; then the first payload is given up */
#define MOST_CHAINS 1000

struct part {
	struct part *next; /* in the order of their numbers */
	uint32_t number, size;
	char data[];
};

struct trace_held {
	struct trace_held *next, *next_open;
	struct trace_event event;
	uint32_t serial, parts, have; /* 0 parts: the payload is whole */
	uint64_t bytes;
	struct part *first, *last;
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

bool trace_begin(struct trace *t)
{
	t->heap = calloc(t->ring_count + 1, sizeof(struct trace_ring *));
	if (!t->heap)
		return false;
	for (unsigned i = 0; i < t->ring_count; i++)
		if (trace_ring_next(&t->rings[i]))
			t->heap[t->heap_count++] = &t->rings[i];
	for (unsigned i = t->heap_count / 2; i-- > 0;)
		sift_down(t, i);
	return true;
}

/* The ring with the next record; NULL: there is none. The record is valid until the next call. */
static struct trace_ring *next_ring(struct trace *t)
{
	if (t->taken && !trace_ring_next(t->taken))
		t->heap[0] = t->heap[--t->heap_count];
	if (t->taken && t->heap_count)
		sift_down(t, 0);
	t->taken = t->heap_count ? t->heap[0] : NULL;
	return t->taken;
}

/* ---- payloads of several records ---- */

static void free_held(struct trace *t, struct trace_held *h)
{
	struct part *next;

	for (struct part *p = h->first; p; p = next) {
		next = p->next;
		free(p);
	}
	t->held_bytes -= h->bytes;
	free(h->joined);
	free(h);
}

/* NULL without memory: the event is lost. */
static struct trace_held *hold(struct trace *t, const struct trace_event *e, uint32_t size)
{
	struct trace_held *h = calloc(1, sizeof(*h) + size);

	if (!h)
		return NULL;
	h->event = *e;
	h->event.payload = h->data;
	if (size)
		memcpy(h->data, e->payload, size);
	h->bytes = sizeof(*h) + size;
	t->held_bytes += h->bytes;
	if (t->last)
		t->last->next = h;
	else
		t->first = h;
	t->last = h;
	return h;
}

static struct trace_held *find_chain(struct trace *t, const struct trace_event *e, uint32_t serial)
{
	struct trace_held *h = t->open;

	while (h && (h->serial != serial || h->event.tid != e->tid ||
		     h->event.file->owner != e->file->owner))
		h = h->next_open;
	return h;
}

static void open_chain(struct trace *t, struct trace_held *h)
{
	h->next_open = t->open;
	t->open = h;
	t->open_chains++;
}

static void close_chain(struct trace *t, const struct trace_held *h)
{
	struct trace_held **at = &t->open;

	while (*at != h)
		at = &(*at)->next_open;
	*at = h->next_open;
	t->open_chains--;
}

/* A part whose first one was overwritten, or is damaged: each such payload counts once. */
static void count_orphan(struct trace *t, const struct trace_event *e, uint32_t serial)
{
	uint64_t key = (uint64_t)serial << 32 | e->tid;
	uint64_t *last = &t->orphans[e->tid % (sizeof(t->orphans) / sizeof(*t->orphans))];

	if (*last != key)
		e->file->loss.chains++;
	*last = key;
}

static void add_part(struct trace *t, struct trace_held *h, uint32_t number,
		     const struct trace_event *e)
{
	struct part *p = malloc(sizeof(*p) + e->size), **at = &h->first;

	if (!p)
		return;
	p->number = number;
	p->size = e->size;
	memcpy(p->data, e->payload, e->size);
	if (h->last && h->last->number < number)
		at = &h->last->next;
	while (*at && (*at)->number < number)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	if (!p->next)
		h->last = p;
	h->bytes += sizeof(*p) + e->size;
	t->held_bytes += sizeof(*p) + e->size;
	h->event.size += e->size;
	h->event.flags |= e->flags;
	if (++h->have == h->parts)
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
		if (h) {
			h->serial = serial;
			h->parts = parts;
			open_chain(t, h);
		}
	}
	if (h)
		add_part(t, h, number, e);
	else
		count_orphan(t, e, serial);
}

/* Whether all numbers are there, once each. */
static bool join(struct trace_held *h)
{
	uint32_t at = 0, number = 0;

	if (h->parts == 0)
		return true;
	h->joined = h->have == h->parts ? malloc((size_t)h->event.size + 1) : NULL;
	for (struct part *p = h->joined ? h->first : NULL; p; p = p->next) {
		if (p->number != number++)
			return false;
		memcpy(h->joined + at, p->data, p->size);
		at += p->size;
	}
	h->event.payload = h->joined;
	h->event.flags &= ~(uint32_t)NEAR__TRACE_PART;
	return h->joined;
}

/* ---- events ---- */

static bool must_wait(const struct trace *t)
{
	const struct trace_held *h = t->first;

	return h->have != h->parts && !t->all_read && t->held_bytes < MOST_HELD &&
	       t->open_chains < MOST_CHAINS;
}

/* The first of those that are held; false: it was not complete. */
static bool take_held(struct trace *t, struct trace_event *e)
{
	struct trace_held *h = t->first;

	t->first = h->next;
	if (!t->first)
		t->last = NULL;
	if (h->have != h->parts)
		close_chain(t, h);
	if (!join(h)) {
		h->event.file->loss.chains++;
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
		.cpu = (uint32_t)(head >> NEAR__TRACE_CPU_SHIFT & 0x3fff),
		.tid = (uint32_t)(head & 0x3fffff),
		.flags = (uint32_t)(head >> NEAR__TRACE_FLAGS_SHIFT),
		.size = (uint32_t)((head >> NEAR__TRACE_WORDS_SHIFT & 0x3f) - 2) * 8,
		.payload = (const char *)(r->record + 2),
	};
	if (!e->point)
		e->point = trace_unknown_point(r->file, id);
}

/* The next event, whatever it is; false: there are no more. */
static bool next_event(struct trace *t, struct trace_event *e)
{
	struct trace_ring *r;

	for (;;) {
		while (t->first && !must_wait(t))
			if (take_held(t, e))
				return true;
		r = next_ring(t);
		t->all_read = !r;
		if (!r && !t->first)
			return false;
		if (!r)
			continue;
		event_of(r, e);
		if (!e->point)
			continue;
		if (e->flags & NEAR__TRACE_PART)
			take_part(t, e);
		else if (!t->first)
			return true;
		else
			hold(t, e, e->size);
	}
}

/* The words of an event whose fields are not known, as an array. */
static bool make_raw(struct trace *t, struct trace_event *e)
{
	uint16_t head = NEAR__TRACE_LONG;
	uint32_t words = e->size / 8;
	char *raw = realloc(t->raw, e->size + sizeof(head) + sizeof(words));

	if (!raw)
		return false;
	memcpy(raw, &head, sizeof(head));
	memcpy(raw + sizeof(head), &words, sizeof(words));
	memcpy(raw + sizeof(head) + sizeof(words), e->payload, e->size);
	t->raw = raw;
	e->payload = raw;
	e->size += (uint32_t)(sizeof(head) + sizeof(words));
	e->file->loss.unknown++;
	return true;
}

static bool is_whole(const struct trace_event *e)
{
	const struct trace_point *p = e->point;
	const char *at = e->payload;
	struct trace_value v;

	if (p->fixed_size != UINT32_MAX)
		return p->fixed_size <= e->size;
	for (unsigned i = 0; i < p->field_count; i++)
		if (!trace_take(&p->fields[i], &at, trace_end(e), &v))
			return false;
	return true;
}

static bool has_cpu(const char *list, unsigned long cpu)
{
	while (*list) {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (cpu >= first && cpu <= last)
			return true;
		list = *end ? end + 1 : end;
	}
	return false;
}

static bool passes(const struct trace *t, const struct trace_event *e)
{
	const struct trace_filter *f = t->filter;
	uint64_t since = e->ns > t->begin ? e->ns - t->begin : 0;

	return e->point->selected && since >= f->from && since <= f->to &&
	       (!f->tid || e->tid == f->tid) && (!f->cpus || has_cpu(f->cpus, e->cpu));
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
			trace_number(t, e->point);
		if (!passes(t, e))
			continue;
		if (e->point->unknown ? make_raw(t, e) : is_whole(e)) {
			e->point->count++;
			return true;
		}
		e->file->loss.payloads++;
	}
}

void trace_end_merge(struct trace *t)
{
	struct trace_held *next;

	for (struct trace_held *h = t->first; h; h = next) {
		next = h->next;
		free_held(t, h);
	}
	if (t->returned)
		free_held(t, t->returned);
	for (unsigned i = 0; i < t->ring_count; i++)
		free(t->rings[i].buffer);
	free(t->rings);
	free(t->heap);
	free(t->raw);
}
