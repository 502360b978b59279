/* SPDX-License-Identifier: MIT */
/* nearcpu trace export --perfetto: Perfetto's protocol buffers (perfetto_trace.proto). One sequence
 * of packets: what describes the trace, then the events, with a packet before an event that is the
 * first of its thread. Names are interned where they are first used. */
#include "trace/pairs.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/proto.h"

/* Numbers of fields. */
enum { TRACE_PACKET = 1 };
enum {
	PACKET_CLOCKS = 6,
	PACKET_TIME = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_DEFAULTS = 59,
	PACKET_TRACK = 60,
};
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { DEFAULTS_CLOCK = 58 };
enum { CLOCKS_CLOCK = 1, CLOCKS_PRIMARY = 2, CLOCK_ID = 1, CLOCK_TIME = 2 };
enum { REALTIME = 1, MONOTONIC = 3 }; /* builtin clocks */
enum { TRACK_UUID = 1, TRACK_NAME, TRACK_PROCESS, TRACK_THREAD, TRACK_PARENT };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2 };
enum { INTERNED_EVENT = 2, INTERNED_ARGUMENT = 3, NAME_ID = 1, NAME_TEXT = 2 };
enum { EVENT_ARGUMENT = 4, EVENT_TYPE = 9, EVENT_NAME = 10, EVENT_TRACK = 11, EVENT_FLOW = 47 };
enum { SLICE_BEGIN = 1, SLICE_END, INSTANT };
enum {
	ARGUMENT_NAME = 1,
	ARGUMENT_BOOL,
	ARGUMENT_UNSIGNED,
	ARGUMENT_SIGNED,
	ARGUMENT_DOUBLE,
	ARGUMENT_STRING,
	ARGUMENT_POINTER,
	ARGUMENT_JSON = 9,
};

#define CPU_NAME 1 /* of arguments; then those of the fields */

struct perfetto {
	FILE *out;
	struct trace *t;
	struct trace_pairs pairs;
	const char *flow;
	unsigned *first_name; /* of the fields of each tracepoint; 0: not yet */
	unsigned name_count, next_name;
	uint64_t *tracks; /* a set: open addressing, by the number of the track */
	size_t track_room, track_count;
};

/* ---- packets ---- */

static void put_packet(struct perfetto *p, struct memory_file *m)
{
	proto_put_number(m->file, PACKET_SEQUENCE, 1);
	proto_put_message(p->out, TRACE_PACKET, m);
	/* The failed write has emptied the buffer: with this byte the last one fails, too, and has
	 * the reason. */
	if (ferror(p->out))
		putc(0, p->out);
}

static void put_name(FILE *out, unsigned kind, unsigned id, const char *prefix, const char *name)
{
	struct memory_file m, text;

	fprintf(memory_open(&text), "%s%s", prefix, name);
	memory_close(&text);
	proto_put_number(memory_open(&m), NAME_ID, id);
	proto_put_bytes(m.file, NAME_TEXT, text.text, text.size);
	proto_put_message(out, kind, &m);
	free(text.text);
}

/* Of a tracepoint, with its first event: a live trace may get more of them. Its own name has the
 * number of its index, plus one. */
static void put_names(struct perfetto *p, FILE *out, const struct trace_point *point)
{
	struct memory_file m;

	while (p->name_count <= point->index)
		APPEND(p->first_name, p->name_count, 0);
	if (p->first_name[point->index])
		return;
	put_name(memory_open(&m), INTERNED_EVENT, point->index + 1, "", point->name);
	p->first_name[point->index] = p->next_name;
	for (unsigned k = 0; k < point->field_count; k++)
		put_name(m.file, INTERNED_ARGUMENT, p->next_name++,
			 trace_prefix_of(point->fields[k].name), point->fields[k].name);
	proto_put_message(out, PACKET_INTERNED, &m);
}

static void put_clock(FILE *out, unsigned id, uint64_t ns)
{
	struct memory_file m;

	proto_put_number(memory_open(&m), CLOCK_ID, id);
	proto_put_number(m.file, CLOCK_TIME, ns);
	proto_put_message(out, CLOCKS_CLOCK, &m);
}

static void put_begin(struct perfetto *p)
{
	uint64_t begin = p->t->begin, date = begin + (uint64_t)p->t->files[0].realtime;
	struct memory_file packet, m;

	memory_open(&packet);
	put_clock(memory_open(&m), MONOTONIC, begin);
	put_clock(m.file, REALTIME, date);
	proto_put_number(m.file, CLOCKS_PRIMARY, MONOTONIC);
	proto_put_message(packet.file, PACKET_CLOCKS, &m);
	put_packet(p, &packet);
	proto_put_number(memory_open(&packet), PACKET_FLAGS, FLAG_CLEARED);
	proto_put_number(memory_open(&m), DEFAULTS_CLOCK, MONOTONIC);
	proto_put_message(packet.file, PACKET_DEFAULTS, &m);
	put_name(memory_open(&m), INTERNED_ARGUMENT, CPU_NAME, "", "cpu");
	proto_put_message(packet.file, PACKET_INTERNED, &m);
	put_packet(p, &packet);
}

/* ---- tracks ---- */

/* Of a process: its pid; of a thread: both; of pairs by a field: with the highest bit. */
static uint64_t thread_track(const struct trace_event *e)
{
	return e->pid << 32 | e->tid;
}

static uint64_t pair_track(const struct trace_event *e, size_t index)
{
	return UINT64_C(1) << 63 | e->file->session.pid << 32 | index;
}

static bool track_add(struct perfetto *p, uint64_t track)
{
	size_t at, room = p->track_room, old = room;
	uint64_t *tracks = p->tracks;

	if (2 * p->track_count >= room) {
		p->track_room = room ? 2 * room : 64;
		p->tracks = allocate_zeros(p->track_room, sizeof(*p->tracks));
		p->track_count = 0;
		for (size_t i = 0; i < old; i++)
			if (tracks[i])
				track_add(p, tracks[i]);
		free(tracks);
	}
	for (at = trace_mix(track); p->tracks[at % p->track_room]; at++)
		if (p->tracks[at % p->track_room] == track)
			return false;
	p->tracks[at % p->track_room] = track;
	p->track_count++;
	return true;
}

/* kind: TRACK_PROCESS, _THREAD, or _NAME of pairs. */
static void put_track(struct perfetto *p, const struct trace_event *e, uint64_t track,
		      unsigned kind)
{
	uint64_t pid = kind == TRACK_NAME ? e->file->session.pid : e->pid;
	struct memory_file packet, m, of;
	const char *name = "";

	if (!track_add(p, track))
		return;
	if (kind != TRACK_PROCESS)
		put_track(p, e, pid << 32 | UINT32_MAX, TRACK_PROCESS);
	memory_open(&packet);
	proto_put_number(memory_open(&m), TRACK_UUID, track);
	if (kind == TRACK_NAME) {
		proto_put_text(m.file, TRACK_NAME, p->pairs.first);
		proto_put_number(m.file, TRACK_PARENT, pid << 32 | UINT32_MAX);
	} else {
		proto_put_number(memory_open(&of), PROCESS_PID, pid); /* THREAD_PID, too */
		for (unsigned i = 0; i < p->t->file_count && kind == TRACK_PROCESS; i++)
			if (p->t->files[i].session.pid == pid)
				name = p->t->files[i].program;
		if (kind == TRACK_PROCESS)
			proto_put_text(of.file, PROCESS_NAME, name);
		else
			proto_put_number(of.file, THREAD_TID, e->tid);
		proto_put_message(m.file, kind, &of);
	}
	proto_put_message(packet.file, PACKET_TRACK, &m);
	put_packet(p, &packet);
}

/* ---- events ---- */

/* Strings, which need be UTF-8, labels and arrays. */
static void put_text_value(FILE *out, const struct trace_field *f, const struct trace_value *v)
{
	struct memory_file m;
	json_t *json;

	trace_print_value(memory_open(&m), f, v, TRACE_AS_JSON);
	memory_close(&m);
	json = json_loadb(m.text, m.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
	if (json_is_string(json))
		proto_put_bytes(out, ARGUMENT_STRING, json_string_value(json),
				json_string_length(json));
	else
		proto_put_bytes(out, ARGUMENT_JSON, m.text, m.size);
	json_decref(json);
	free(m.text);
}

static double load_double(const char *at, unsigned size)
{
	double value;
	float small;

	memcpy(&small, at, sizeof(small));
	if (size == sizeof(small))
		return (double)small;
	memcpy(&value, at, sizeof(value));
	return value;
}

static void put_value(FILE *out, const struct trace_field *f, const struct trace_value *v)
{
	if (f->counted || f->kind == TRACE_ENUM)
		put_text_value(out, f, v);
	else if (f->kind == TRACE_FLOAT)
		proto_put_double(out, ARGUMENT_DOUBLE, load_double(v->data, f->size));
	else if (f->kind == TRACE_SIGNED)
		proto_put_number(out, ARGUMENT_SIGNED,
				 (uint64_t)trace_load_signed(v->data, f->size));
	else
		proto_put_number(out,
				 f->kind == TRACE_BOOL  ? ARGUMENT_BOOL
				 : f->kind == TRACE_HEX ? ARGUMENT_POINTER
							: ARGUMENT_UNSIGNED,
				 trace_load_unsigned(v->data, f->size));
}

static void put_arguments(struct perfetto *p, FILE *out, const struct trace_event *e)
{
	struct memory_file m;

	proto_put_number(memory_open(&m), ARGUMENT_NAME, CPU_NAME);
	proto_put_number(m.file, ARGUMENT_UNSIGNED, e->cpu);
	proto_put_message(out, EVENT_ARGUMENT, &m);
	for (struct trace_cursor c = trace_fields(e); trace_next_field(&c);) {
		proto_put_number(memory_open(&m), ARGUMENT_NAME,
				 p->first_name[e->point->index] + c.next - 1);
		put_value(m.file, c.field, &c.value);
		proto_put_message(out, EVENT_ARGUMENT, &m);
		if (p->flow && strcmp(p->flow, c.field->name) == 0)
			proto_put_fixed(out, EVENT_FLOW, trace_value_hash(c.field, &c.value));
	}
}

static void put_event(struct perfetto *p, const struct trace_event *e, unsigned type,
		      uint64_t track)
{
	struct memory_file packet, m;

	proto_put_number(memory_open(&packet), PACKET_TIME, e->ns);
	proto_put_number(packet.file, PACKET_FLAGS, FLAG_NEEDS_STATE);
	put_names(p, packet.file, e->point);
	proto_put_number(memory_open(&m), EVENT_TYPE, type);
	proto_put_number(m.file, EVENT_TRACK, track);
	if (type != SLICE_END)
		proto_put_number(m.file, EVENT_NAME, e->point->index + 1);
	if (type != SLICE_END)
		put_arguments(p, m.file, e);
	proto_put_message(packet.file, PACKET_EVENT, &m);
	put_packet(p, &packet);
}

/* Readers sort by the time; of equal ones the end of a pair comes before the next one's begin. */
static void put_pair(struct perfetto *p, const struct trace_begun *b, const struct trace_event *end)
{
	bool by_field = p->pairs.field;
	uint64_t track = by_field ? pair_track(end, (size_t)(b - p->pairs.open))
				  : thread_track(end);

	put_track(p, end, track, by_field ? TRACK_NAME : TRACK_THREAD);
	put_event(p, &b->event, SLICE_BEGIN, track);
	put_event(p, end, SLICE_END, track);
}

static void put_events(struct perfetto *p)
{
	const struct trace_begun *b;
	struct trace_event e;

	while (!trace_must_stop(p->out) && trace_next(p->t, &e)) {
		put_track(p, &e, thread_track(&e), TRACK_THREAD);
		put_event(p, &e, INSTANT, thread_track(&e));
		b = trace_pairs_end(&p->pairs, &e);
		if (b)
			put_pair(p, b, &e);
		trace_pairs_begin(&p->pairs, &e);
	}
}

int trace_perfetto(struct trace *t, const struct trace_wanted *w)
{
	struct perfetto p = {.t = t, .flow = w->flow, .next_name = CPU_NAME + 1};
	struct output o;
	int code = trace_pairs_init(&p.pairs, t, w->between, w->by);

	if (!code && w->flow)
		code = trace_check_field(t, w->flow);
	if (!code)
		code = output_open(&o, "trace", w->path);
	if (!code) {
		p.out = o.file;
		put_begin(&p);
		put_events(&p);
		code = output_close(&o, child_report_interrupt("trace"));
	}
	free(p.first_name);
	free(p.tracks);
	trace_pairs_free(&p.pairs);
	return code;
}
