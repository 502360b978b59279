/* SPDX-License-Identifier: MIT */
/* reader: trace files (src/trace/format.h) as one stream of events in the order of their times.
 *
 * Files are read by pread in sub-buffers: what another process does to a file is never a fault, and
 * the memory depends on the number of rings alone. All that a file has is checked: it may be
 * anything. */
#ifndef NEARCPU_TRACE_READER_H
#define NEARCPU_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/format.h"

enum trace_kind {
	TRACE_UNSIGNED,
	TRACE_SIGNED,
	TRACE_HEX,
	TRACE_FLOAT,
	TRACE_BOOL,
	TRACE_ENUM,
	TRACE_STRING,
	TRACE_BYTES,
};

struct trace_label {
	const char *name;
	int64_t value;
};

struct trace_field {
	enum trace_kind kind;
	unsigned size; /* of an element */
	bool counted;  /* begins with a length */
	const char *name;
	struct trace_label *labels; /* of TRACE_ENUM */
	unsigned label_count;
};

struct trace_point {
	unsigned id;    /* in its file */
	unsigned index; /* among those of all files; UINT32_MAX: not yet */
	unsigned level;
	const char *name, *fields_text, *place;
	struct trace_field *fields;
	unsigned field_count;
	uint32_t fixed_size; /* of the payload; UINT32_MAX: it depends on lengths */
	bool unknown;        /* the file does not have it: its payload is shown as words */
	bool selected;       /* by the filter */
	uint64_t count;      /* of events that were returned */
	char *texts;
};

/* What a file does not have any more, and what the reader made of that. */
struct trace_loss {
	uint64_t discarded, chains_cut; /* as the traced program counted them */
	uint64_t overwritten;           /* bytes, before the reader came */
	uint64_t overtaken;             /* bytes that were overwritten while it read */
	uint64_t damaged, missing;      /* bytes; missing: behind the end of the file */
	uint64_t rings;                 /* in use, behind the end of the file */
	uint64_t payloads;              /* events whose payload is not what their fields need */
	uint64_t chains;                /* payloads of which parts are missing */
	uint64_t unknown;               /* events of tracepoints that the file does not have */
	uint64_t raised;                /* times that stepped back */
	uint64_t points;                /* 1: the list of tracepoints has damaged parts */
	uint64_t points_unread;         /* tracepoints whose names or fields make no sense */
	bool no_header, no_session, no_rate, no_date;
	bool was_full, was_bound, was_early; /* reasons for `discarded` */
	bool on_disk, unstable;              /* warnings: see the session */
};

struct trace_file {
	char *path;
	int fd;
	uint64_t size;
	char program[17];
	struct near__trace_session session;
	/* Offsets in the file; sizes. */
	uint64_t used_at, points_at, points_size, rings_at, rings_size, control_at;
	struct trace_point **points; /* by id */
	/* The first file of the session, as of a stream: it has the tracepoints of all. */
	struct trace_file *owner;
	unsigned point_count; /* of those that the file has */
	uint64_t *ring_at;    /* of each ring that a scan found; NULL: by rings_at */
	unsigned ring_count;
	bool recovers; /* what follows damage is searched for */
	bool is_guess; /* by a scan: this may be no list of tracepoints */
	/* ns = base_ns + (counter - base) * rate / 2^48 */
	uint64_t base, base_ns, rate;
	uint64_t measured;    /* ticks of the counter from which the rate follows; 0: not known */
	uint64_t least, most; /* times outside of these are damage */
	int64_t realtime;     /* CLOCK_REALTIME less CLOCK_MONOTONIC */
	struct trace_loss loss;
};

struct trace_ring {
	struct trace_file *file;
	unsigned index;
	uint64_t at, data_at; /* in the file: its header, its data */
	uint64_t size, end;   /* end: the position when it was opened */
	uint64_t read; /* of a stream: up to where other files have it, or where one begins */
	uint64_t next; /* position after what the buffer has */
	bool is_last;  /* the buffer ends where its sub-buffer does */
	char *buffer;
	uint32_t begin, limit;  /* of the buffer: the record, the end */
	const uint64_t *record; /* in the buffer */
	uint64_t ns;            /* its time */
	uint64_t discarded;
	unsigned last_cpu;
};

struct trace_event {
	struct trace_file *file;
	struct trace_point *point;
	uint64_t ns;
	uint32_t cpu, tid, flags;
	uint32_t size; /* of the payload, a multiple of 8 */
	const char *payload;
};

struct trace_filter {
	const char *names; /* patterns, separated by commas; NULL: all */
	uint64_t from, to; /* ns since the trace's begin; to: UINT64_MAX */
	const char *cpus;  /* a list: 0-3,8 */
	uint64_t tid;      /* 0: all */
	uint64_t level;    /* at most that */
};

struct trace_held;

struct trace {
	struct trace_file *files;
	unsigned file_count;
	uint64_t begin; /* of the first session, in ns */
	const struct trace_filter *filter;
	struct trace_ring *rings, **heap;
	unsigned ring_count, heap_count;
	struct trace_ring *taken; /* whose record was returned */
	/* Events behind a payload whose parts are not all read yet. */
	struct trace_held *first, *last, *returned;
	uint64_t held_bytes;
	/* The payloads of these that are not complete: one that never is holds many events back. */
	struct trace_held *open;
	unsigned open_chains;
	bool all_read;
	uint64_t orphans[64]; /* the last payloads without a begin, by thread */
	char *raw;            /* a payload of an unknown tracepoint */
	unsigned points;      /* in all files */
};

struct trace_value {
	const char *data;
	uint32_t count; /* of elements */
};

/* ---- files: they return an exit status, after a message ---- */

/* `recover`: what is damaged is not refused, but searched for what is whole. */
int trace_file_open(struct trace_file *f, const char *path, bool recover);
void trace_file_close(struct trace_file *f);

/* Bytes of the file: how many it has there. */
size_t trace_read(const struct trace_file *f, void *to, uint64_t at, size_t size);

/* The rate of the counter and the bounds of times, from the session. */
void trace_set_clock(struct trace_file *f);
uint64_t trace_ns(const struct trace_file *f, uint64_t time);
bool trace_session_is_whole(const struct near__trace_session *s);

/* Finds session, tracepoints and rings of a file whose begin is damaged. */
void trace_scan(struct trace_file *f);

/* Copies the tracepoints from points_at on, which moves behind them; how many bytes are whole. A
 * tracepoint that makes no sense is passed over, with a message. */
uint64_t trace_read_points(struct trace_file *f, uint64_t size);
/* A new one, or one that the program has added since. */
struct trace_point *trace_unknown_point(struct trace_file *f, unsigned id);
void trace_free_points(struct trace_file *f);

/* ---- rings ---- */

/* False: it was never used, or is no ring. */
bool trace_ring_open(struct trace_ring *r, struct trace_file *f, unsigned index);

/* What is before that position is not returned. */
void trace_ring_skip(struct trace_ring *r, uint64_t position);

/* The next record; false: there are no more, or no memory. */
bool trace_ring_next(struct trace_ring *r);

/* ---- events ---- */

/* Files, or folders of them. An exit status, after a message. */
int trace_open(struct trace *t, char **paths, const struct trace_filter *filter, bool recover);
void trace_close(struct trace *t);

/* The next event, which is valid until the next call; false: there are no more. */
bool trace_next(struct trace *t, struct trace_event *e);

/* What the functions above share. */
bool trace_begin(struct trace *t);
void trace_end_merge(struct trace *t);
void trace_number(struct trace *t, struct trace_point *p);

/* Of all files. */
struct trace_loss trace_total_loss(const struct trace *t);
bool trace_is_damaged(const struct trace_loss *l);

/* The value of the field at *at, which moves behind it; false: it does not end before `end`. */
bool trace_take(const struct trace_field *f, const char **at, const char *end,
		struct trace_value *v);

static inline const char *trace_end(const struct trace_event *e)
{
	return e->payload + e->size;
}

#endif
