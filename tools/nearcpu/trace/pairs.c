/* SPDX-License-Identifier: MIT */
/* Pairs of events: a table of those that have begun. */
#include "trace/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/tool.h"

#define PROBES 16u

uint64_t trace_mix(uint64_t key)
{
	key = (key ^ key >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 29;
}

uint64_t trace_value_hash(const struct trace_field *f, const struct trace_value *v)
{
	size_t size = (size_t)v->count * f->size;
	uint64_t sum = size;

	for (size_t i = 0; i < size; i++)
		sum = trace_mix(sum ^ (unsigned char)v->data[i]);
	return sum;
}

/* False: the event does not have the field. */
static bool key_of(const struct trace_pairs *p, const struct trace_event *e, uint64_t *key)
{
	*key = p->field ? trace_mix(e->file->session.pid) : trace_mix(e->pid) + e->tid;
	if (!p->field)
		return true;
	for (struct trace_cursor c = trace_fields(e); trace_next_field(&c);)
		if (strcmp(c.field->name, p->field) == 0) {
			*key += trace_value_hash(c.field, &c.value);
			return true;
		}
	return false;
}

/* The entry of the key, or a free one, or NULL. */
static struct trace_begun *begun_find(struct trace_pairs *p, uint64_t key, bool may_add)
{
	struct trace_begun *chosen = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct trace_begun *b = &p->open[(trace_mix(key) + i) % TRACE_MOST_OPEN];

		if (b->used && b->key == key)
			return b;
		if (may_add &&
		    (!chosen || (chosen->used && (!b->used || b->event.ns < chosen->event.ns))))
			chosen = b;
	}
	return chosen;
}

static void begun_take(struct trace_begun *b, uint64_t key, const struct trace_event *e)
{
	if (e->size > b->room) {
		free(b->payload);
		b->payload = allocate_zeros(e->size, 1);
		b->room = e->size;
	}
	if (e->size)
		memcpy(b->payload, e->payload, e->size);
	b->key = key;
	b->used = true;
	b->event = *e;
	b->event.payload = b->payload;
}

const struct trace_begun *trace_pairs_end(struct trace_pairs *p, const struct trace_event *e)
{
	struct trace_begun *b;
	uint64_t key;

	if (!p->open || strcmp(e->point->name, p->last) != 0 || !key_of(p, e, &key))
		return NULL;
	b = begun_find(p, key, false);
	if (b)
		b->used = false;
	else if (strcmp(e->point->name, p->first) != 0)
		p->unmatched++;
	return b;
}

void trace_pairs_begin(struct trace_pairs *p, const struct trace_event *e)
{
	struct trace_begun *b;
	uint64_t key;

	if (!p->open || strcmp(e->point->name, p->first) != 0 || !key_of(p, e, &key))
		return;
	b = begun_find(p, key, true);
	p->unmatched += b->used;
	begun_take(b, key, e);
}

uint64_t trace_pairs_unmatched(const struct trace_pairs *p)
{
	uint64_t sum = p->unmatched;

	for (unsigned i = 0; i < TRACE_MOST_OPEN; i++)
		sum += p->open[i].used;
	return sum;
}

/* ---- begin and end ---- */

static bool has_field(const struct trace_point *p, const char *field)
{
	for (unsigned i = 0; field && i < p->field_count; i++)
		if (strcmp(p->fields[i].name, field) == 0)
			return true;
	return !field;
}

static int check_name(const struct trace *t, const char *name, const char *field)
{
	bool found = false;

	for (unsigned i = 0; i < t->point_count; i++) {
		if (strcmp(t->points[i]->name, name) != 0)
			continue;
		found = true;
		if (has_field(t->points[i], field))
			return EXIT_DONE;
	}
	return found ? failure("trace", "'%s' has no field '%s'", name, field)
		     : failure("trace", "there is no tracepoint '%s'", name);
}

int trace_check_field(const struct trace *t, const char *field)
{
	for (unsigned i = 0; i < t->point_count; i++)
		if (has_field(t->points[i], field))
			return EXIT_DONE;
	return failure("trace", "no tracepoint has a field '%s'", field);
}

static int check_pair(const struct trace *t, const char *pair, const char *field, char **first)
{
	size_t n = strcspn(pair, ",");
	int code;

	if (!n || !pair[n] || !pair[n + 1])
		return usage_error("trace", "--between takes two names: FIRST,LAST");
	*first = copy_text(pair);
	(*first)[n] = 0;
	code = check_name(t, *first, field);
	return code ? code : check_name(t, *first + n + 1, field);
}

int trace_pairs_init(struct trace_pairs *p, const struct trace *t, const char *pair,
		     const char *field)
{
	int code = EXIT_DONE;

	*p = (struct trace_pairs){.field = field};
	if (pair)
		code = check_pair(t, pair, field, &p->first);
	if (pair && !code) {
		p->last = p->first + strlen(p->first) + 1;
		p->open = allocate_zeros(TRACE_MOST_OPEN, sizeof(*p->open));
	}
	return code;
}

void trace_pairs_free(struct trace_pairs *p)
{
	for (unsigned i = 0; p->open && i < TRACE_MOST_OPEN; i++)
		free(p->open[i].payload);
	free(p->open);
	free(p->first);
}
