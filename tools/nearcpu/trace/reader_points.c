/* SPDX-License-Identifier: MIT */
/* Tracepoints: their records, and their fields from the text. */
#include "common/memory.h"
#include "trace/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_POINTS 65536
#define LEAST_RECORD sizeof(struct near__trace_point_record)

static const struct type {
	const char *name;
	enum trace_kind kind;
	unsigned size;
} types[] = {
	{"bool", TRACE_BOOL, 1},    {"u8", TRACE_UNSIGNED, 1},   {"u16", TRACE_UNSIGNED, 2},
	{"u32", TRACE_UNSIGNED, 4}, {"u64", TRACE_UNSIGNED, 8},  {"i8", TRACE_SIGNED, 1},
	{"i16", TRACE_SIGNED, 2},   {"i32", TRACE_SIGNED, 4},    {"i64", TRACE_SIGNED, 8},
	{"x8", TRACE_HEX, 1},       {"x16", TRACE_HEX, 2},       {"x32", TRACE_HEX, 4},
	{"x64", TRACE_HEX, 8},      {"f32", TRACE_FLOAT, 4},     {"f64", TRACE_FLOAT, 8},
	{"ptr", TRACE_HEX, 8},      {"string", TRACE_STRING, 1}, {"bytes", TRACE_BYTES, 1},
};

/* ---- texts ---- */

/* C++'s labels may have `::`, and names of tracepoints have one colon. */
static bool is_name(const char *s, bool has_colons)
{
	static const char letters[] =
		":abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

	return !s[strspn(s, has_colons ? letters : letters + 1)];
}

/* "red=1,blue=2" */
static bool parse_labels(struct trace_field *f, char *text)
{
	while (text && *text) {
		char *value = strsep(&text, ","), *name = strsep(&value, "="), *end;
		int64_t n;

		if (!value || !*name || !is_name(name, true))
			return false;
		n = strtoll(value, &end, 0);
		if (*end || end == value || n != (int32_t)n)
			return false;
		APPEND(f->labels, f->label_count, (struct trace_label){name, n});
	}
	return true;
}

static bool parse_type(struct trace_field *f, const char *name)
{
	f->counted = strncmp(name, "array_", 6) == 0;
	name += f->counted ? 6 : 0;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strcmp(name, types[i].name) == 0) {
			bool has_length = types[i].kind >= TRACE_STRING;

			if (f->counted && has_length)
				return false;
			f->kind = types[i].kind;
			f->size = types[i].size;
			f->counted |= has_length;
			return true;
		}
	return false;
}

/* "u32 code", "enum color{red=1,blue=2} c" */
static bool parse_field(struct trace_field *f, char *text)
{
	char *labels = NULL;

	if (strncmp(text, "enum ", 5) == 0) {
		strsep(&text, "{");
		labels = strsep(&text, "}");
		if (!labels || !text || *text++ != ' ')
			return false;
		f->kind = TRACE_ENUM;
		f->size = sizeof(int32_t);
		if (!parse_labels(f, labels))
			return false;
	} else if (!parse_type(f, strsep(&text, " ")) || !text) {
		return false;
	}
	f->name = text;
	f->is_stack = f->counted && f->size == 8 && strcmp(text, "stack") == 0;
	return *text && is_name(text, false);
}

static bool parse_fields(struct trace_point *p, char *text)
{
	while (text && *text) {
		struct trace_field *f;

		APPEND(p->fields, p->field_count, (struct trace_field){.point = p});
		f = &p->fields[p->field_count - 1];
		if (!parse_field(f, strsep(&text, ";")))
			return false;
		if (f->counted)
			p->fixed_size = UINT32_MAX;
		else if (p->fixed_size != UINT32_MAX)
			p->fixed_size += f->size;
	}
	return true;
}

static void free_point(struct trace_point *p)
{
	if (!p)
		return;
	for (unsigned i = 0; i < p->field_count; i++)
		free(p->fields[i].labels);
	free(p->fields);
	free(p->texts);
	free(p);
}

/* NULL: damaged. */
static struct trace_point *new_point(unsigned id, unsigned level, const char *name,
				     const char *fields, const char *place)
{
	size_t n = strlen(name) + 1, f = strlen(fields) + 1, l = strlen(place) + 1;
	struct trace_point *p = allocate_zeros(1, sizeof(*p));
	char *parsed;

	*p = (struct trace_point){.id = id, .index = UINT32_MAX, .level = level};
	p->texts = allocate_zeros(n + 2 * f + l, 1);
	p->name = memcpy(p->texts, name, n);
	p->is_object = strcmp(name, NEAR__TRACE_OBJECT) == 0;
	p->fields_text = memcpy(p->texts + n, fields, f);
	p->place = memcpy(p->texts + n + f, place, l);
	parsed = memcpy(p->texts + n + f + l, fields, f);
	if (is_name(name, true) && parse_fields(p, parsed))
		return p;
	free_point(p);
	return NULL;
}

/* ---- records ---- */

static bool is_text(const char *text, uint64_t size)
{
	return size && memchr(text, 0, size) == text + size - 1;
}

/* Whether it is one whose sizes can be. */
static bool is_record(const struct trace_file *f, const struct near__trace_point_record *r,
		      const char *texts, uint64_t size)
{
	uint64_t texts_size = r->size - LEAST_RECORD, rest;

	if (r->size < LEAST_RECORD || r->size > size || r->size % 8 || !r->id ||
	    r->id >= MOST_POINTS || f->points[r->id] || r->name_size > texts_size ||
	    r->fields_size > texts_size - r->name_size)
		return false;
	rest = texts_size - r->name_size - r->fields_size;
	return is_text(texts, r->name_size) && is_text(texts + r->name_size, r->fields_size) &&
	       memchr(texts + r->name_size + r->fields_size, 0, rest);
}

/* Its events are shown as words. */
static void pass_over(struct trace_file *f, unsigned id, const char *name)
{
	f->lost[LOST_POINTS_UNREAD]++;
	if (f->is_guess)
		return;
	fprintf(stderr, "nearcpu trace: '%s': tracepoint ", f->path);
	trace_print_string(stderr, name, strlen(name), TRACE_AS_TEXT);
	fprintf(stderr,
		" has a name or fields that cannot be read; its events are of unknown:id_%u\n", id);
}

/* Its size; 0: it is damaged, or none. One whose texts cannot be read is passed over, but after
 * damage it is none. */
static uint32_t add_record(struct trace_file *f, const char *data, uint64_t size, bool was_damaged)
{
	struct near__trace_point_record r;
	const char *texts = data + LEAST_RECORD;
	struct trace_point *p;

	if (size < LEAST_RECORD)
		return 0;
	memcpy(&r, data, sizeof(r));
	if (!is_record(f, &r, texts, size))
		return 0;
	p = new_point(r.id, r.level, texts, texts + r.name_size,
		      texts + r.name_size + r.fields_size);
	if (!p && was_damaged)
		return 0;
	if (!p)
		pass_over(f, r.id, texts);
	f->points[r.id] = p;
	f->point_count += p && !p->is_object;
	return r.size;
}

uint64_t trace_read_points(struct trace_file *f, uint64_t size)
{
	char *data = size ? malloc(size) : NULL;
	uint64_t at = 0, damaged = 0;
	uint32_t n;

	if (!f->points)
		f->points = allocate_zeros(MOST_POINTS, sizeof(struct trace_point *));
	if (data) {
		size = trace_read(f, data, f->points_at, size);
		while (at < size) {
			n = add_record(f, data + at, size - at, damaged);
			if (!n && !f->recovers)
				break;
			damaged += n ? 0 : 8;
			at += n ? n : 8;
		}
	}
	free(data);
	f->points_at += at;
	f->points_size -= at;
	return at - damaged;
}

/* Those that the program has added since. */
static void read_more_points(struct trace_file *f)
{
	uint64_t before = f->session.points_bytes, now = before;

	if (!f->used_at || f->session.ended)
		return;
	trace_read(f, &now,
		   f->used_at - sizeof(f->session) +
			   offsetof(struct near__trace_session, points_bytes),
		   sizeof(now));
	if (now <= before || now - before > f->points_size)
		return;
	f->session.points_bytes = now;
	trace_read_points(f, now - before);
}

struct trace_point *trace_unknown_point(struct trace_file *f, unsigned id)
{
	struct trace_point *p = f->points[id];
	char name[32];

	if (!p)
		read_more_points(f);
	p = f->points[id];
	if (p)
		return p;
	snprintf(name, sizeof(name), "unknown:id_%u", id);
	p = new_point(id, 0, name, "array_x64 words", "");
	p->unknown = true;
	return f->points[id] = p;
}

void trace_free_points(struct trace_file *f)
{
	for (unsigned id = 0; f->points && id < MOST_POINTS; id++)
		free_point(f->points[id]);
	free(f->points);
	f->points = NULL;
	f->point_count = 0;
}

/* ---- payloads ---- */

/* How many elements, which the `left` bytes at *at begin with; *at moves behind that. UINT64_MAX:
 * there are not enough bytes. */
static uint64_t read_length(const char **at, uint64_t left)
{
	uint16_t length;
	uint32_t more;

	if (left < sizeof(length))
		return UINT64_MAX;
	memcpy(&length, *at, sizeof(length));
	*at += sizeof(length);
	if (length != NEAR__TRACE_LONG)
		return length;
	if (left < sizeof(length) + sizeof(more))
		return UINT64_MAX;
	memcpy(&more, *at, sizeof(more));
	*at += sizeof(more);
	return more;
}

bool trace_next_field(struct trace_cursor *c)
{
	const struct trace_point *p = c->event->point;
	const char *at = c->at, *end = c->event->payload + c->event->size;
	uint64_t n = 1;

	if (c->next == p->field_count)
		return false;
	c->field = &p->fields[c->next];
	if (c->field->counted)
		n = read_length(&at, (uint64_t)(end - at));
	if (n > (uint64_t)(end - at) / c->field->size)
		return false;
	c->value = (struct trace_value){at, (uint32_t)n};
	c->at = at + n * c->field->size;
	c->next++;
	return true;
}
