/* SPDX-License-Identifier: MIT */
/* reader: trace files (src/trace/format.h) as one stream of events in the order of their times.
 *
 * Files are read by pread in sub-buffers: a file that another process truncates causes no fault,
 * and the memory depends on the number of rings alone. A file may contain anything, so that all of
 * it is checked. */
#ifndef NEARCPU_TRACE_READER_H
#define NEARCPU_TRACE_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/cpu_list.h"
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

struct trace_file;

struct trace_field {
	enum trace_kind kind;
	unsigned size; /* of an element */
	bool counted;  /* begins with a length */
	const char *name;
	struct trace_label *labels; /* of TRACE_ENUM */
	unsigned label_count;
	struct trace_point *point;
	bool is_stack; /* of return addresses */
};

struct trace_point {
	unsigned id;                   /* in its file */
	unsigned index;                /* in the list of the trace; UINT32_MAX: not yet */
	const struct trace_file *file; /* that has it; NULL: not in the list */
	unsigned level;
	const char *name, *fields_text, *place;
	struct trace_field *fields;
	unsigned field_count;
	uint32_t fixed_size; /* of the payload; UINT32_MAX: it depends on lengths */
	bool unknown;        /* the file does not have it: its payload is shown as words */
	bool is_object;      /* a line of maps: not in the list */
	bool selected;       /* by the filter */
	uint64_t count;      /* of events that were returned */
	char *texts;
};

/* What was lost, or is unknown. */
enum trace_lost {
	/* Numbers. */
	LOST_DISCARDED,  /* events, as the traced program counted them */
	LOST_CHAINS_CUT, /* likewise */
	LOST_OVERWRITTEN,
	LOST_OVERTAKEN,
	LOST_CHAINS,
	LOST_RAISED,
	LOST_DAMAGED,
	LOST_MISSING,
	LOST_RINGS,
	LOST_PAYLOADS,
	LOST_POINTS_UNREAD,
	LOST_UNKNOWN,
	LOST_LATE, /* of a trace that is followed */
	LOST_SWITCHES,
	/* Statements: 0 or not. */
	LOST_STATEMENTS,
	LOST_WAS_FULL = LOST_STATEMENTS,
	LOST_WAS_BOUND,
	LOST_NO_HEADER,
	LOST_NO_SESSION,
	LOST_POINTS, /* the list of tracepoints has damaged parts */
	LOST_NO_RATE,
	LOST_NO_DATE,
	LOST_UNSTABLE,
	LOST_ON_DISK,
	LOST_SNAPSHOT,
	LOST_WAS_EARLY, /* a reason for LOST_DISCARDED */
	LOST_KINDS,
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
	struct json_t *symbols;      /* what addresses are, see symbols.c; NULL: none */
	/* The first file of the session, as of a stream: it has the tracepoints of all. */
	struct trace_file *owner;
	unsigned point_count; /* of those that the file has */
	uint64_t *ring_at;    /* of each ring that a scan found; NULL: by rings_at */
	unsigned ring_count;
	bool recovers; /* what follows damage is searched for */
	bool is_guess; /* by a scan: this may be no list of tracepoints */
	unsigned left; /* 2: its program may write more; 1: its rings are read for the last time */
	/* ns = base_ns + (counter - base) * rate / 2^48 */
	uint64_t base, base_ns, rate;
	uint64_t measured;    /* ticks of the counter from which the rate follows; 0: not known */
	uint64_t least, most; /* times outside of these are damage */
	int64_t realtime;     /* CLOCK_REALTIME less CLOCK_MONOTONIC */
	uint64_t lost[LOST_KINDS];
};

struct trace_ring {
	struct trace_file *file;
	unsigned index;
	uint64_t at, data_at; /* in the file: its header, its data */
	uint64_t size, end;   /* end: the position when it was opened, or last updated */
	uint64_t seen;        /* of a trace that is followed: `end` of the round before */
	uint64_t read; /* of a stream: up to where other files have it, or where one begins */
	uint64_t next; /* position after what the buffer has */
	bool is_last;  /* the buffer ends where its sub-buffer does */
	char *buffer;
	uint32_t begin, limit;  /* of the buffer: the record, the end */
	const uint64_t *record; /* in the buffer; NULL: there is none */
	uint64_t ns;            /* its time */
	uint64_t discarded;
	unsigned last_cpu;
};

struct trace_event {
	struct trace_file *file;
	struct trace_point *point;
	uint64_t ns;
	uint64_t pid; /* of the file, or of a file of --sched that of the event */
	uint32_t cpu, tid, flags;
	uint32_t size; /* of the payload, a multiple of 8 */
	const char *payload;
};

struct trace_filter {
	const char *names; /* patterns, separated by commas; NULL: all */
	uint64_t from, to; /* ns since the trace's begin; to: UINT64_MAX */
	const struct cpu_list *cpus;
	uint64_t tid;   /* 0: all */
	uint64_t level; /* at most that */
	bool follow;
};

struct trace_held;

struct trace {
	struct trace_file *files;
	unsigned file_count;
	uint64_t begin; /* of the first session, in ns */
	const struct trace_filter *filter;
	char **paths;            /* that it was opened with */
	char *names, **patterns; /* of the filter; patterns: parts of `names` */
	unsigned pattern_count;
	struct trace_ring *rings, **heap;
	unsigned ring_count, heap_count;
	struct trace_ring *taken; /* whose record was returned */
	/* See reader_follow.c. */
	bool follows;       /* there may be more */
	unsigned round;     /* how often rings were updated */
	uint64_t loaded_ns; /* when, at last */
	uint64_t last_ns;   /* of the event that was returned last */
	/* Events behind a payload whose parts are not all read yet. */
	STAILQ_HEAD(, trace_held) held;
	struct trace_held *returned;
	uint64_t held_bytes;
	/* The payloads of these that are not complete: one that never is holds many events back. */
	LIST_HEAD(, trace_held) open;
	unsigned open_chains;
	bool all_read;
	uint64_t orphans[64];        /* the last payloads without a begin, by thread */
	char *raw;                   /* a payload of an unknown tracepoint */
	struct trace_point **points; /* of all files, by their indexes */
	unsigned point_count;
};

struct trace_value {
	const char *data;
	uint32_t count; /* of elements */
};

/* What `discarded` of the session counts. */
static inline enum trace_lost trace_discarded(const struct trace_file *f)
{
	return f->session.flags & NEAR__TRACE_IS_SCHED ? LOST_SWITCHES : LOST_DISCARDED;
}

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

/* Reads the tracepoints from points_at on, which moves behind them. Returns how many bytes are
 * whole. A tracepoint whose texts cannot be read is passed over, with a message. */
uint64_t trace_read_points(struct trace_file *f, uint64_t size);
/* A new one, or one that the program has added since. */
struct trace_point *trace_unknown_point(struct trace_file *f, unsigned id);
void trace_free_points(struct trace_file *f);

/* ---- rings ---- */

/* False: it was never used, or is no ring. */
bool trace_ring_open(struct trace_ring *r, struct trace_file *f, unsigned index);

/* The same of a ring that may have been opened: loads what its program has written since. */
bool trace_ring_update(struct trace_ring *r);

/* Records before that position are not returned. */
void trace_ring_skip(struct trace_ring *r, uint64_t position);

/* The next record; false: there are no more. */
bool trace_ring_next(struct trace_ring *r);

/* ---- events ---- */

/* Files, or folders of them. An exit status, after a message. */
int trace_open(struct trace *t, char **paths, const struct trace_filter *filter, bool recover);
void trace_close(struct trace *t);

/* The next event, which is valid until the next call; false: there are no more. */
bool trace_next(struct trace *t, struct trace_event *e);

/* With filter->follow, when there are no more: waits a little; false: the programs have ended, and
 * all was returned, or adding a file has failed, which sets *code. */
bool trace_follow(struct trace *t, int *code);

/* Whether the process exists that has made it. */
bool trace_is_there(const struct trace_file *f);

/* A file of --sched is to have one order of events with the program's: its relation of the counter
 * to the clock, which was measured for longer, is that of all files of the machine. */
void trace_share_clock(struct trace *t);

/* Whether it has what a stream has moved from another one of these files. */
bool trace_is_moved(const struct trace *t, const struct trace_file *f);

/* What the functions above share. */
void trace_begin(struct trace *t);
/* Once t->follows is set: files that were not there, in folders. */
int trace_add_paths(struct trace *t, bool recover);
void trace_end_merge(struct trace *t);
void trace_number(struct trace *t, const struct trace_file *f, struct trace_point *p);

/* Of all files. */
uint64_t trace_lost(const struct trace *t, enum trace_lost what);
bool trace_is_damaged(const struct trace *t);

/* The fields of an event, one after the other. */
struct trace_cursor {
	const struct trace_event *event;
	const char *at;                  /* behind the field */
	unsigned next;                   /* how many there were */
	const struct trace_field *field; /* the current one */
	struct trace_value value;
};

static inline struct trace_cursor trace_fields(const struct trace_event *e)
{
	return (struct trace_cursor){.event = e, .at = e->payload};
}

/* False: there are no more, or the next one does not end within the payload. */
bool trace_next_field(struct trace_cursor *c);

#endif
