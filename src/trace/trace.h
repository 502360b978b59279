/* SPDX-License-Identifier: MIT */
/* trace: what the files of the tracer share. format.h has the file, nearcpu/trace.h the sequence of
 * an event.
 *
 * A session has a file with rings. A table has the address of each slot's ring, or 0: one word for
 * each kind of clock. The session fills only the word of its own clock, so that an event never
 * writes the time of another one. The table is private memory that is never freed. A child of a
 * bare clone() finds it zeroed (MADV_WIPEONFORK), and writes nothing to its parent's rings.
 *
 * What can run concurrently with the end of a session, and what stops it:
 *
 * - A sequence that has loaded the address of a ring: the table is cleared, then near__fence()
 *   aborts it, unless it has committed.
 * - C code: slow paths, and writers of fallback rings. They are sections of near__trace.rcu, and
 *   load `current` within them. It is cleared first; after a grace period no slow path opens
 *   a ring.
 *
 * Then the file is unmapped. models/trace.pml has this, models/trace.cc a reader.
 *
 * The child of fork finds `current` cleared by its handler, and makes a file at its first event. A
 * slow path that the fork interrupted, by a signal handler, goes on in the child: it finds private
 * memory where the file was mapped. */
#ifndef NEARCPU_TRACE_TRACE_H
#define NEARCPU_TRACE_TRACE_H

#include <nearcpu/lock.h>
#include <nearcpu/rcu.h>
#include <nearcpu/region.h>
#include <nearcpu/trace.h>

#include <limits.h>
#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include "base/bits.h"
#include "base/block.h"
#include "base/clock.h"
#include "kernel/kernel.h"
#include "trace/format.h"

#define NEAR__TRACE_CLOCKS 4 /* words of the table for a slot: enum near_trace_clock - 1 */
#define NEAR__TRACE_RULES 32
#define NEAR__TRACE_PATTERN 96
#define NEAR__TRACE_CONDITION 96
#ifndef NEAR__TRACE_AHEAD /* tests have none */
#define NEAR__TRACE_AHEAD                                                                          \
	16u /* slots of the domain that the first start opens, also for children */
#endif
#ifndef NEAR__TRACE_POINTS_SIZE /* tests have less */
#define NEAR__TRACE_POINTS_SIZE ((uint64_t)32 << 20)
#endif
#define NEAR__TRACE_REFUSALS 1024u /* tries on a full disk, of which one is made */
#define NEAR__TRACE_READS_CONF 2   /* has_read_conf while that session begins */
#define NEAR__TRACE_RINGS_AT 128   /* before the data: the header of a ring */
/* Bytes of the first sub-buffer that a ring is opened with: some records, not less than the longest
 * needs. */
#define NEAR__TRACE_BEGIN                                                                          \
	(NEAR__TRACE_SUB_SIZE / 8 < 4096 ? NEAR__TRACE_SUB_SIZE : NEAR__TRACE_SUB_SIZE / 8)

enum near__trace_object { NEAR__AT_SESSION, NEAR__AT_POINTS, NEAR__AT_RINGS, NEAR__AT_CONTROL };

/* A ring, as its writers know it. */
struct near__trace_local {
	struct near__trace_ring *ring; /* NULL: not opened; a store, a release, publishes it */
	uint32_t claim;                /* with max_bytes: whether the session may have it; atomic */
	uint32_t ready;                /* sub-buffers from its begin on (grow.c); atomic */
	struct near_lock lock;         /* of a fallback ring */
};

/* A file with rings: that of the session, or another one, to which rings are copied. */
struct near__trace_file {
	struct near_region region;
	struct near_region_object objects[4];
	struct near__trace_session *session; /* NULL: no file */
	char *points, *rings;
	uint64_t ring_size, ring_stride;
};

/* The files of NEAR_TRACE_STREAM; with near__trace.streaming, or by the child's handler of fork. */
struct near__trace_stream {
	struct near__trace_file file;
	uint64_t number, bytes; /* of the file */
	uint64_t file_size;
	unsigned files;
	uint32_t refused;      /* tries of events since there was no room; atomic */
	char folder[PATH_MAX]; /* "": next to the session's */
};

/* A session. In memory of its own. */
struct near__trace_run {
	struct near__trace_file file;
	struct near__trace_control *control;
	dev_t device; /* of the file */
	ino_t inode;
	uint64_t *row; /* the table, from the word of this session's clock on */
	uint32_t mode, clock;
	uint32_t slots, cpus;
	uint64_t most_rings; /* by max_bytes */
	uint64_t used;       /* rings, with max_bytes; atomic */
	uint32_t refused;    /* sub-buffers since there was no room for one; atomic */
	uint32_t has_begun;  /* the thread, its work; atomic */
	bool has_thread, ends;
	uintptr_t thread;
	size_t size; /* of this memory */
	struct near__trace_stream stream;
	char path[PATH_MAX];
	struct near__trace_local local[];
};

struct near__trace_rule {
	char pattern[NEAR__TRACE_PATTERN];
	char condition[NEAR__TRACE_CONDITION]; /* "": none */
	uint32_t level;                        /* 0: off */
};

/* Of a thread. */
struct near__trace_thread {
	uint32_t chain;  /* the last chain's serial number; atomic for signal handlers */
	uint32_t inside; /* slow paths that the thread is in, one within the other */
	uint32_t ids;    /* of these two, how many are set; atomic for signal handlers */
	unsigned char trace_id[16], span_id[8];
	/* Of the thread's own stack, see stack.c; atomic for signal handlers. */
	uintptr_t stack_top, stack_low, stack_least;
};
NEAR__BLOCK_PART(near__trace_thread, struct near__trace_thread, trace);

/* One for each process. */
struct near__trace {
	struct near_rcu *rcu;            /* atomic: a child may take another one */
	struct near_lock lock;           /* of all below; no event takes it, but by a try */
	struct near_lock streaming;      /* of the files of a stream, and what they take */
	struct near__trace_run *current; /* read by events in sections of `rcu` */
	uint64_t (*now)(void);           /* of the session, with NEAR_TRACE_OWN */
	/* near__trace_control.request and .done of a session without a thread, in a mapping that
	 * stays. NULL: there was none. */
	const uint32_t *order;
	/* The child's session, by an event; NULL: it cannot be made now. */
	struct near__trace_run *(*resume)(void);
	int (*start_thread)(struct near__trace_run *t);
	void (*watch_forks)(void); /* registers the handlers of fork, once */
	/* near__trace_record, for a condition. */
	void (*record)(struct near_trace_point *p, const void *payload,
		       const struct near__trace_piece *pieces, unsigned n);
	/* Of a child without a thread, by events. */
	void (*check_orders)(void);
	void (*find_order)(struct near__trace_run *t);
	uint32_t *alive; /* after the table: 0 in a child of a bare clone */
	uint32_t watches_forks, is_ready;
	uint32_t is_child;  /* whose session's file is not made yet */
	uint32_t is_folder; /* options.path, when the session began */
	uint32_t is_ending; /* near_trace_stop has begun */
	uint32_t chain;     /* as near__trace_thread.chain, for threads without a block */
	uint32_t number;    /* of sessions of the process */
	uint32_t points_known, rules_known;
	uint64_t missed; /* events before the session's file, or a tracepoint, was there; atomic */
	uint32_t has_read_conf;   /* 1: a session of NEAR_CONF has begun, if there is one */
	uint32_t serves_children; /* a child of fork begins its session, with a thread, at once */
	uint64_t parent;
	struct near_trace_point *first, **last;
	struct near_trace_point *variants; /* see context.h */
	uint32_t *wakes; /* what the session's thread sleeps on; NULL: none does; atomic */
	/* NULL: there never was one. Then what records an event of a tracepoint that has one, as
	 * near__trace_choose; and whether a tracepoint has one. `f`: its condition, or NULL. */
	struct near__trace_triggers *triggers;
	void (*play_triggers)(struct near_trace_point *p, const void *payload,
			      const struct near__trace_piece *pieces, unsigned n,
			      const void *frame);
	bool (*bind)(struct near_trace_point *p, const struct near__trace_filter *f, bool is_on);
	/* Makes records of the objects that the process has by now; NULL: no event has had a
	 * stack. Atomic. */
	void (*find_objects)(void);
	/* Events of what a trigger does, near_trace:trigger and near_trace:snapshot. */
	void (*note_trigger)(uint32_t number, uint64_t ns);
	void (*note_snapshot)(const char *file, const char *trigger, int32_t error);
	struct near_trace_options options; /* of the session, for children */
	char path[PATH_MAX], last_path[PATH_MAX], stream[PATH_MAX];
	struct near__trace_rule rules[NEAR__TRACE_RULES];
};
extern NEAR__DATA struct near__trace near__trace NEAR__STATE(near__trace);

/* False in a child of a bare clone(): the session is its parent's, and so is the thread. */
static inline bool near__trace_is_own(void)
{
	return !near__trace.alive || __atomic_load_n(near__trace.alive, __ATOMIC_RELAXED);
}

/* Takes near__trace.lock. If there may be other threads, the handlers of fork are registered
 * before: else the child of one would find the lock held by a thread that it does not have. */
void near__trace_lock(void);
/* What an event does: without signals, as a handler on this thread could fork, which takes the
 * locks; and without waiting. False: the lock is held. */
bool near__trace_try_lock(struct near_lock *lock, sigset_t *signals);
void near__trace_unlock(struct near_lock *lock, const sigset_t *signals);

/* Starts the session that NEAR_CONF wants, if this has not been done. */
void near__trace_start_by_conf(void);

/* ---- rings (ring.c) ---- */

enum near__trace_result { NEAR__TRACE_WRITTEN, NEAR__TRACE_FULL, NEAR__TRACE_NO_RING };

/* What an event is made of. */
struct near__trace_event {
	uint64_t head; /* with the thread; the sequence adds the CPU */
	uint64_t size; /* of the record in bytes */
	/* With a clock that is read before the sequence: it fails if the ring is another one by
	 * then, or has another position. */
	uint64_t ring, position, time;
	const uint64_t *words; /* of payload */
	unsigned n;
	uint64_t room; /* that the sequence wants: of its size class, and for an end mark */
	bool is_rest;  /* of a chain */
};

static inline struct near__trace_ring *near__trace_ring_of(const struct near__trace_file *f,
							   unsigned i)
{
	return (struct near__trace_ring *)(f->rings + i * f->ring_stride + NEAR__TRACE_PAGE -
					   NEAR__TRACE_RINGS_AT);
}

static inline struct near__trace_ring *near__trace_ring_at(const struct near__trace_run *t,
							   unsigned i)
{
	return near__trace_ring_of(&t->file, i);
}

/* Acquire: pairs with the release when the ring was made. */
static inline bool near__trace_is_used(const struct near__trace_session *s, unsigned i)
{
	return NEAR__BIT_LOAD(near__trace_used(s), i, __ATOMIC_ACQUIRE);
}

static inline uint64_t *near__trace_word_at(struct near__trace_ring *r, uint64_t position)
{
	/* Relaxed: the ring's address came by an acquire. Another thread may set it to the same. */
	uint64_t mask = __atomic_load_n(&r->mask, __ATOMIC_RELAXED);

	return (uint64_t *)((char *)r + NEAR__TRACE_RINGS_AT + (position & mask));
}

static inline unsigned near__trace_index_of(const struct near__trace_run *t,
					    const struct near__trace_ring *r)
{
	return (unsigned)((uint64_t)((const char *)r - t->file.rings) / t->file.ring_stride);
}

/* Opens the ring of the local slot. False: the caller uses a fallback ring. */
bool near__trace_open_local(struct near__trace_run *t);

/* Whether the sub-buffer at *next may be written; if not, a discarded record is counted. On a full
 * disk *next becomes the begin of the ring's next lap, unless the oldest records are to stay. */
bool near__trace_has_room(struct near__trace_run *t, struct near__trace_ring *r, uint64_t *next);

/* After a switch: wakes the thread, if it streams or has to make sub-buffers ready. A thread that
 * does not sleep yet is woken by the next switch, or by its deadline. */
void near__trace_switched(struct near__trace_run *t, unsigned i);

/* On a full disk one of many tries. Relaxed: a count. */
static inline bool near__trace_may_try(uint32_t *refused)
{
	return !__atomic_load_n(refused, __ATOMIC_RELAXED) ||
	       __atomic_add_fetch(refused, 1, __ATOMIC_RELAXED) % NEAR__TRACE_REFUSALS == 0;
}

/* ---- the memory of rings (grow.c) ---- */

/* Sets a flag of the session. */
void near__trace_set_flag(struct near__trace_run *t, enum near__trace_session_flags flag);

/* Acquire: pairs with the release of the thread that made the last one ready. */
static inline uint32_t near__trace_ready(const struct near__trace_run *t, unsigned i)
{
	return __atomic_load_n(&t->local[i].ready, __ATOMIC_ACQUIRE);
}

/* Makes the first sub-buffers of ring i ready, up to number `sub`. False: the disk is full. */
bool near__trace_make_ready(struct near__trace_run *t, unsigned i, uint32_t sub);

/* Bytes of this sub-buffer of ring i, which is open, or has one that is ready, that can be loaded
 * and stored. */
static inline uint64_t near__trace_extent(const struct near__trace_run *t, unsigned i, uint32_t sub)
{
	if (near__trace_ready(t, i) > sub)
		return NEAR__TRACE_SUB_SIZE;
	return sub ? 0 : NEAR__TRACE_BEGIN;
}

/* Where the sub-buffer of this position of ring i, which is open, ends; or the begin of the first
 * one, if more than `room` is left in it, or the disk is full. */
uint64_t near__trace_end_for(struct near__trace_run *t, unsigned i, uint64_t position,
			     uint64_t room);

/* Makes ring i ready for its first records. NULL: no room. */
struct near__trace_ring *near__trace_provide(struct near__trace_run *t, unsigned i);

/* By the session's thread: makes ready what will be written next; whether it has to soon. */
void near__trace_ahead(struct near__trace_run *t);
bool near__trace_wants_more(const struct near__trace_run *t, unsigned i);

/* In a ring under a lock, or nowhere. False: the record is discarded. */
bool near__trace_write_fallback(struct near__trace_run *t, const struct near__trace_event *e);

uint64_t near__trace_now(uint32_t clock);

/* The words that concurrent readers load: relaxed, since the position is a release. */
static inline void near__trace_copy(uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		__atomic_store_n(&to[i], __atomic_load_n(&from[i], __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
}

/* ---- events (event.c) ---- */

/* A record of n words of payload, 1 to 32; words[] has those of its size class. False: it is
 * discarded, and counted. */
bool near__trace_write(struct near_trace_point *p, const uint64_t *words, unsigned n,
		       uint64_t flags, bool is_rest);

/* A payload of these pieces. */
void near__trace_write_pieces(struct near_trace_point *p, const struct near__trace_piece *pieces,
			      unsigned n);
/* One of both: a payload without lengths, of n words, or n pieces. */
void near__trace_record(struct near_trace_point *p, const void *payload,
			const struct near__trace_piece *pieces, unsigned n);
/* The calling thread's id. */
uint32_t near__trace_tid(void);

void near__trace_check_orders(void);
/* By an event that is not recorded, of a tracepoint that is watched, in no section. */
static inline void near__trace_watch(void)
{
	const uint32_t *order = __atomic_load_n(&near__trace.order, __ATOMIC_ACQUIRE);

	if (order && __atomic_load_n(&order[0], __ATOMIC_RELAXED) !=
			     __atomic_load_n(&order[1], __ATOMIC_RELAXED))
		near__trace.check_orders();
}
/* Relaxed: as near__trace_is_filtered. */
static inline bool near__trace_is_watched(const struct near_trace_point *p)
{
	return __atomic_load_n(&p->enabled, __ATOMIC_RELAXED) == NEAR__TRACE_WATCHED;
}

/* ---- orders: what other processes ask for, as `nearcpu trace enable` does (orders.c) ----
 *
 * The session's thread carries them out; in a child of fork, which has none, the next event that
 * checks for them. */

/* Carries the order out; with near__trace.lock, if `locked`. */
void near__trace_obey(struct near__trace_run *t, uint32_t request, bool locked);
void near__trace_find_order(struct near__trace_run *t);
/* near__trace.order begins, and ends, to be that of a session; with near__trace.lock. */
void near__trace_map_order(const struct near__trace_run *t);
void near__trace_unmap_order(void);
/* Acquire: pairs with the release that follows the order's text. */
static inline bool near__trace_has_order(const struct near__trace_run *t)
{
	return __atomic_load_n(&t->control->request, __ATOMIC_ACQUIRE) !=
	       __atomic_load_n(&t->control->done, __ATOMIC_RELAXED);
}
/* Relaxed: changes with near__trace.lock, under which it is loaded again before an order is
 * obeyed. */
static inline bool near__trace_has_thread(const struct near__trace_run *t)
{
	return __atomic_load_n(&t->has_thread, __ATOMIC_RELAXED);
}

/* By an event, after its stores of `end`: another process stores `request`, then 0 to `end`. */
static inline void near__trace_look_for_order(struct near__trace_run *t)
{
	if (near__trace_has_thread(t))
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (near__trace_has_order(t))
		near__trace.find_order(t);
}

/* An event of a tracepoint that is off, or not registered. The next session, or the registration,
 * counts what is early. */
static inline void near__trace_write_none(uint32_t enabled)
{
	if (enabled & NEAR__TRACE_EARLY)
		__atomic_fetch_add(&near__trace.missed, 1, __ATOMIC_SEQ_CST);
	if (enabled & NEAR__TRACE_WATCHED)
		near__trace_watch();
}

/* The thread, control.c. */
int near__trace_start_thread(struct near__trace_run *t);
void near__trace_end_thread(struct near__trace_run *t);

/* ---- sessions ---- */

/* Makes the file and what belongs to it; with near__trace.lock. 0 or an error. */
int near__trace_open(struct near__trace_run **out, const struct near_trace_options *o);
bool near__trace_is_folder(const char *path);
/* Adds near__trace.missed to what the session has discarded. */
void near__trace_count_missed(struct near__trace_run *t);
/* Gives up the parent's session in the child. */
void near__trace_detach(struct near__trace_run *t);
/* Whether the fork may have come from a signal handler within a slow path, which goes on in the
 * child. A thread without a block does not know. */
bool near__trace_is_interrupted(void);

/* Stores why the call fails, see near_trace_error; `reason` is constant. Returns `error`. */
int near__trace_fail(int error, const char *reason);

/* The objects of a file with `rings` rings. Returns the bytes of all. */
uint64_t near__trace_define(struct near_region_object *objects, uint64_t rings,
			    uint64_t ring_stride);

/* Makes the file, with that many rings of the size that is set. 0 or an error, with its reason, of
 * which -EEXIST is one that another path may not have. */
int near__trace_file_make(struct near__trace_file *f, const char *path, uint64_t rings);

/* As near_trace_snapshot, with near__trace.lock: of what is since that time of CLOCK_MONOTONIC,
 * and some before it, or 0: of all. `flags`: further ones of its session. */
int near__trace_snapshot(const char *file, uint64_t since_ns, uint32_t flags);

/* ---- copies (ring_copy.c, trace_snapshot.c, stream.c) ---- */

/* Makes file `path`, with rings of this size, and what the session and its tracepoints are. */
int near__trace_copy_open(struct near__trace_file *c, const char *path,
			  const struct near__trace_run *t, uint64_t ring_size, uint32_t mode);
/* `t` may have more tracepoints by now. False: no room. */
bool near__trace_copy_points(struct near__trace_file *c, const struct near__trace_run *t);
void near__trace_copy_close(struct near__trace_file *c);
/* Allocates the blocks of ring i from byte `from` of its data on, and the header's. NULL: no
 * room. */
struct near__trace_ring *near__trace_copy_ring(struct near__trace_file *c, unsigned i,
					       uint64_t from, uint64_t size);

/* The size of the rings of a file of up to NEAR_REGION_MAX_COMMON. It is larger: the rings of a
 * file that is full are not. */
uint64_t near__trace_stream_ring(uint64_t file_size);

/* Moves whole sub-buffers to the files; at the end of the session all that is left. False: the disk
 * is full. */
bool near__trace_stream(struct near__trace_run *t, bool all);
/* By an event that enters a sub-buffer of ring i, where there is no thread: moves up to two. */
void near__trace_stream_by_event(struct near__trace_run *t, unsigned i);

/* ---- tracepoints (points.c); with near__trace.lock ---- */

/* One that a constructor registers; takes the lock. */
void near__trace_add_point(struct near_trace_point *p);
int near__trace_set_rules(const char *patterns, enum near_trace_level level);
int near__trace_add_rule(const char *pattern, size_t length, enum near_trace_level level,
			 const char *condition);
/* Writes those from `from` on. False: no room. */
bool near__trace_write_points(struct near__trace_run *t, struct near_trace_point *from);
/* Sets `enabled` of all by the rules; 0: all off. Returns how many are on. */
int near__trace_apply(uint32_t clock);
/* As near_trace_enable_if, without a thread that starts. */
int near__trace_change(const char *pattern, enum near_trace_level level, const char *condition);
/* As fnmatch(3) without flags and without classes of characters, and safe in signal handlers: that
 * one may allocate, in a locale whose characters have several bytes. */
bool near__trace_match(const char *pattern, const char *text);

/* ---- triggers (trigger.h) ---- */

/* As near_trace_trigger, in a process with a thread; "": removes all. */
int near__trace_change_triggers(const char *text);
/* None is left; or, in a child of fork, none has fired. */
void near__trace_forget_triggers(void);
void near__trace_leave_triggers(void);
/* By the session's thread, at last if it `ends`. Returns for how long it may sleep. */
int64_t near__trace_serve_triggers(struct near__trace_run *t, bool ends);

/* Without near__trace.lock. Relaxed: the function is constant. */
static inline void near__trace_find_objects(void)
{
	if (__atomic_load_n(&near__trace.find_objects, __ATOMIC_RELAXED))
		near__trace.find_objects();
}

/* ---- conditions (filter.c) ---- */

bool near__trace_is_condition(const char *text);
/* The filter of this tracepoint; false: it has no such field, or the value is not of its type. */
bool near__trace_compile(struct near__trace_filter *out, const struct near_trace_point *p,
			 const char *text);
/* Before the tracepoint is switched on; with near__trace.lock. */
void near__trace_set_filter(struct near_trace_point *p, const struct near__trace_filter *f);
/* It is as one that changes, until it is set. */
void near__trace_open_filter(struct near_trace_point *p);
/* The code of a field that is a number, for near__trace_value; 0: there is none. */
uint32_t near__trace_field_code(const struct near_trace_point *p, const char *name);
/* How many there are, and bytes of a payload without lengths. */
void near__trace_count_fields(const struct near_trace_point *p, uint32_t *fields, uint32_t *bytes);
bool near__trace_is_true(const struct near__trace_filter *f, const void *payload,
			 const struct near__trace_piece *pieces);
uint64_t near__trace_value(uint32_t code, const void *payload,
			   const struct near__trace_piece *pieces);
/* Relaxed: near__trace_write loads it again. Another filter, or none, is no less right. */
static inline bool near__trace_is_filtered(const struct near_trace_point *p)
{
	uint32_t enabled = __atomic_load_n(&p->enabled, __ATOMIC_RELAXED);

	return NEAR__UNLIKELY(enabled & NEAR__TRACE_FILTERED);
}
/* An event of such a tracepoint, with n words of a payload without lengths, or with n pieces; the
 * frame of the function that the program has called, see stack.c. */
void near__trace_choose(struct near_trace_point *p, const void *payload,
			const struct near__trace_piece *pieces, unsigned n, const void *frame);

/* ---- clocks (clock.c) ---- */

void near__trace_read_moment(struct near__trace_moment *m);
/* monotonic_ns: of that clock. */
void near__trace_read_clock(struct near__trace_moment *m, clockid_t clock);
void near__trace_store_moment(struct near__trace_session *s);
bool near__trace_is_unstable(void);

#endif
