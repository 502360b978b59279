/* SPDX-License-Identifier: MIT */
/* trigger: events that make the session's thread take a snapshot of the rings.
 *
 * A tracepoint of a trigger has NEAR__TRACE_TRIGGERED in `enabled`, and a filter that always is as
 * one that changes: its events leave the common case, as those with a condition do, and come to
 * play_triggers. No other event executes an instruction more. Such an event is
 * recorded first; then, if the trigger's condition is true, it stores the time to `pending` and
 * wakes the thread, which takes the snapshot: an event may be in a signal handler or in malloc, and
 * a snapshot takes milliseconds and a lock. In a process without the thread, as a child of fork,
 * the triggers rest: its tracepoints have the common case, until near_trace_trigger or
 * near_trace_enable makes a thread.
 *
 * What runs concurrently:
 *
 * - Events with a change of triggers. What an event reads of a tracepoint is one struct
 *   near__trace_bound, which is never freed, and has a number of changes, odd while it changes: the
 *   event copies it, and is recorded alone if it has changed. The words of a trigger that
 *   events write are atomic. An event that has copied its struct before all triggers were removed
 *   may count for the one that takes the place.
 * - An event with another one: the one whose compare-exchange of `state` finds the trigger armed
 *   stores `pending`; others are counted. The thread, which takes the snapshot when it finds
 *   `pending`, arms the trigger again when the interval has passed.
 * - The begin and the end of a latency, in a table by key. An entry's key is changed to BUSY by a
 *   compare-exchange, an acquire, and from it by a release: an entry is changed by one thread at a
 *   time. No event waits for one that is busy: a signal handler may have interrupted it.
 * - The thread with a change of triggers, and with the end of the session: by near__trace.lock.
 *
 * The child of fork gets empty tables from the kernel (MADV_WIPEONFORK); its handler sets the
 * rest. */
#ifndef NEARCPU_TRACE_TRIGGER_H
#define NEARCPU_TRACE_TRIGGER_H

#include "trace/trace.h"

#define NEAR__TRACE_TRIGGERS 8
#define NEAR__TRACE_TRIGGER_TEXT 256
#define NEAR__TRACE_KEEP 16 /* snapshots of a trigger that stay, at most */
#define NEAR__TRACE_IDS 65536
#define NEAR__TRACE_CONTEXTS 8
#define NEAR__TRACE_CGROUP 160

struct near__trace_begun; /* a begin of a latency */

struct near__trace_trigger {
	char text[NEAR__TRACE_TRIGGER_TEXT];  /* as it was given */
	char words[NEAR__TRACE_TRIGGER_TEXT]; /* the same in parts, to which these point, or NULL */
	const char *event, *condition, *end, *by, *folder;
	uint64_t over, before, after, every; /* ns */
	uint32_t keep;
	uint32_t made_count, made[NEAR__TRACE_KEEP]; /* the numbers of its last snapshots */
	/* What events load and store: atomic. */
	struct near__trace_begun *begun; /* the table of a latency */
	uint64_t longest;                /* as `over` */
	uint64_t pending;                /* when the event was, by CLOCK_MONOTONIC; 0: none waits */
	uint32_t state;                  /* of those below */
};

/* An event makes FIRED of ARMED, and then stores `pending`; the thread makes the others. */
enum { NEAR__TRACE_RESTS, NEAR__TRACE_ARMED, NEAR__TRACE_FIRED };

/* What a tracepoint is to a trigger. */
enum { NEAR__TRACE_FIRES = 1, NEAR__TRACE_BEGINS = 2, NEAR__TRACE_ENDS = 4, NEAR__TRACE_IF = 8 };

struct near__trace_role {
	uint32_t is;  /* of these */
	uint32_t key; /* the code of the field; 0: the thread */
	struct near__trace_filter condition;
};

/* What a tracepoint is to all of them. */
struct near__trace_bound {
	uint32_t changes, unused; /* odd while it changes */
	uint32_t fields, bytes;   /* of a payload without lengths */
	uint64_t is_filtered;     /* by near_trace_enable_if: */
	struct near__trace_filter filter;
	struct near__trace_role role[NEAR__TRACE_TRIGGERS];
	uint64_t what; /* enum near_trace_with; 0: none */
	struct near_trace_point *variant;
} __attribute__((aligned(8)));
_Static_assert(sizeof(struct near__trace_bound) % sizeof(uint64_t) == 0, "it is copied by words");

/* Made by the first trigger or context of the process, and never freed. */
struct near__trace_triggers {
	uint32_t count;  /* with near__trace.lock */
	uint32_t number; /* of the last snapshot */
	uint64_t last;   /* when it was taken, by CLOCK_MONOTONIC; 0: none */
	/* Atomic; see struct near_trace_stats. */
	uint64_t triggered, limited, snapshots, failed;
	struct near__trace_trigger list[NEAR__TRACE_TRIGGERS];
	/* See context.h. */
	uint32_t contexts, pid;
	uint64_t pid_namespace;
	char cgroup[NEAR__TRACE_CGROUP];
	struct {
		char pattern[NEAR__TRACE_PATTERN];
		uint32_t what;
	} context[NEAR__TRACE_CONTEXTS];
	char *room; /* near__trace_room */
	size_t room_left;
	struct near__trace_bound *bound[NEAR__TRACE_IDS]; /* of tracepoints, by id */
};

/* Takes the text apart (trigger_text.c). 0 or an error, with its reason. */
int near__trace_trigger_parse(struct near__trace_trigger *g, const char *text);

#endif
