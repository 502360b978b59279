/* SPDX-License-Identifier: MIT */
/* near_trace: events, written to a ring of the local slot in a mapped file.
 *
 * A tracepoint is declared in one line, and has typed fields. An event is one restartable sequence:
 * it reads the CPU's counter, stores a record into the slot's ring and commits it. The file can be
 * read while the program runs, and after it was killed at any instruction: nearcpu-trace(1).
 *
 * Cost:      a tracepoint that is off .3 ns: a load and a branch; an event 2 to 3 ns and the clock,
 *            which is most of it (10 ns on some CPUs).
 * Memory:    a ring per slot in use, of the size that the session has; a file of 64 KiB.
 * Safety:    events: any thread, signal handlers, constructors, forked children, with no set-up of
 *            the thread. Start, stop, enable: any thread, not in signal handlers. errno is left
 *            alone; nothing is a cancellation point.
 * Order:     the records of a ring are in the order of their times, by the counter.
 *
 *     NEAR_TRACEPOINT(shop, order, NEAR_TRACE_INFO, (u32, id), (string, customer), (f64, total));
 *
 *     near_trace_start(&(struct near_trace_options){0});   // or: nearcpu trace record -- program
 *     near_trace_shop_order(17, "alice", 9.99);
 *
 * Source: LTTng (2005), whose rings have two phases, reserve and commit, and are of the machine's
 * CPUs; differs in that one sequence writes the record, that rings follow the concurrency, and that
 * no daemon is needed.
 */
#ifndef NEARCPU_TRACE_H
#define NEARCPU_TRACE_H

#include <nearcpu/trace_fields.h>

#ifdef __cplusplus
extern "C" {
#endif

enum near_trace_mode { NEAR_TRACE_OVERWRITE, NEAR_TRACE_STOP_WHEN_FULL, NEAR_TRACE_STREAM };
enum near_trace_clock {
	NEAR_TRACE_COUNTER = 1, /* the default where the CPU has one */
	NEAR_TRACE_MONOTONIC,   /* CLOCK_MONOTONIC */
	NEAR_TRACE_OWN,         /* options.now */
	NEAR_TRACE_NO_CLOCK,
};

/* Zero fields mean the default. */
struct near_trace_options {
	const char *path;   /* a folder, that exists, or a new file; default /dev/shm */
	const char *enable; /* patterns, separated by commas, as of near_trace_enable; default "*" */
	enum near_trace_level level; /* events of this level and more important ones; default DEBUG */
	enum near_trace_mode mode;
	enum near_trace_clock clock;
	uint64_t (*now)(void); /* with NEAR_TRACE_OWN: ns; safe in signal handlers */
	size_t ring_size;      /* of each slot; a power of two, 256 KiB or more; default 1 MiB */
	uint64_t max_bytes;    /* of the file: slots that would exceed it discard; default none */
	/* With NEAR_TRACE_STREAM: files of this size, of which this many stay; defaults 64 MiB, 4. */
	uint64_t file_size;
	unsigned files;
};

/* Starts the process's session. Returns 0; -EALREADY: there is one; -EINVAL: an option; and what
 * near_region_open returns. Then near_trace_error() is a sentence. */
NEAR_API int near_trace_start(const struct near_trace_options *options);

/* Stops it: events that have begun end first. The file stays. -ENOENT: there is none. */
NEAR_API int near_trace_stop(void);

/* Why the last start, enable or snapshot of this thread failed, or NULL. */
NEAR_API const char *near_trace_error(void);

/* The session's file; NULL: there is none. Valid until the next start. */
NEAR_API const char *near_trace_path(void);

/* Switches on the tracepoints whose "provider:event" matches a pattern (fnmatch(3)) and whose level
 * is at least that important; also those of objects that are loaded later. Returns how many match
 * now. Without a session they stay off. */
NEAR_API int near_trace_enable(const char *pattern, enum near_trace_level level);
NEAR_API int near_trace_disable(const char *pattern);

/* Copies what the rings have to a new file, while events go on. Errors as near_region_open. */
NEAR_API int near_trace_snapshot(const char *file);

/* A message, as printf; the tracepoint is "log:" and the level's name. Not in signal handlers. */
NEAR_API void near_trace_message(enum near_trace_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Later versions add fields at the end. */
struct near_trace_stats {
	uint64_t discarded; /* events that found no room */
	uint64_t chains_cut;
	uint64_t bytes;     /* that rings take */
	unsigned rings;     /* in use */
	unsigned points;    /* known, */
	unsigned enabled;   /* and on */
};

/* Fills *out, of which the caller knows `size` bytes. 0; -EINVAL: size is 0; -ENOENT: no session. */
NEAR_API int near_trace_stats(struct near_trace_stats *out, size_t size);

#ifdef __cplusplus
}
#endif

#endif
