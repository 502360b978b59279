/* SPDX-License-Identifier: MIT */
/* near_trace: events, written to a ring of the local slot in a mapped file.
 *
 * A tracepoint is declared in one line, and has typed fields. An event is one restartable sequence:
 * it reads the CPU's counter, stores a record into the slot's ring and commits it. The file can be
 * read while the program runs, and after it was killed at any instruction: nearcpu-trace(1).
 *
 * Cost:      a tracepoint that is off .3 ns: a load and a branch; an event 2 to 3 ns and the
 *            counter, which is most of it (10 ns on some CPUs); with CLOCK_MONOTONIC 9 ns and that.
 *            An event that a condition leaves out 3 to 5 ns. Of a trigger or with a context 10
 *            to 35 ns more, also with a call stack of 8 frames, with the thread's name 240 (AMD
 *            EPYC); others cost nothing for that.
 * Memory:    a ring per slot in use, of up to the size that the session has: what was written, and
 *            1 MiB ahead of it; the first 64 KiB of two further rings; a file of 64 KiB. With
 *            triggers or contexts some pages, and 64 KiB for each latency.
 * Safety:    events: any thread, signal handlers, constructors, forked children, with no set-up of
 *            the thread; they wait for no other thread. All else: any thread, not in signal
 *            handlers. errno is left alone; nothing is a cancellation point. Snapshots of
 *            triggers are taken by the session's thread, never by an event.
 * Order:     the records of a ring are in the order of their times, by the counter.
 * Fork:      the child's first event makes a file of its own, with the parent's options. The child
 *            has no thread: its events carry out the orders of other processes and what
 *            NEAR_TRACE_STREAM needs, and a tracepoint that is off costs 1.5 ns. See CHILDREN in
 *            nearcpu-trace(1). Events of a child of a bare clone() are dropped.
 * Fallback:  a ring for each CPU, under a lock that no event waits for: one that finds it held uses
 *            the next CPU's.
 *
 * Concurrent with:   event  start  stop  enable  trigger  snapshot
 *            each     yes    yes    yes    yes      yes       yes
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

#include <nearcpu/seq.h>
#include <nearcpu/trace_fields.h>

NEAR__BEGIN_DECLS

enum near_trace_level {
	NEAR_TRACE_DEFAULT, /* of an option or argument: NEAR_TRACE_DEBUG */
	NEAR_TRACE_ERROR,
	NEAR_TRACE_WARNING,
	NEAR_TRACE_NOTICE,
	NEAR_TRACE_INFO,
	NEAR_TRACE_DEBUG,
	NEAR_TRACE_VERBOSE,
};

/* In a tracepoint's level, as in NEAR_TRACE_INFO | NEAR_TRACE_CUT: a payload of more than 256 bytes
 * is cut, where it is else split into several records. */
#define NEAR_TRACE_CUT 0x100

/* ---- tracepoints ---- */

/* Private. A condition on a field. */
struct near__trace_filter {
	uint32_t changes; /* of the words below: odd while they change */
	uint32_t code;    /* the field and the comparison */
	uint64_t operand;
};

/* In `enabled`: events are recorded if the filter's condition is true. */
#define NEAR__TRACE_FILTERED 8
/* Not registered yet: a session that begins later counts its events as discarded. */
#define NEAR__TRACE_EARLY 16
/* In a process without a thread for orders: events that are not recorded check for one. */
#define NEAR__TRACE_WATCHED 32
/* With NEAR__TRACE_FILTERED: events may take a snapshot. */
#define NEAR__TRACE_TRIGGERED 64

/* Private. Static, one for each NEAR_TRACEPOINT, in a list of the process from its constructor
 * on. */
struct near_trace_point {
	uint32_t enabled; /* 0, or enum near_trace_clock: that of the session; see above, too */
	uint32_t level;
	uint64_t head; /* of a record with one word of payload, without thread and CPU */
	const char *name, *fields, *place;
	const int32_t *values; /* of the labels in `fields` */
	struct near_trace_point *next;
	uint64_t session; /* that has it in its file */
	uint32_t *probe;  /* NULL, or whether it is on for a lower layer of the library */
	struct near__trace_filter filter;
};

/* Of each slot and clock: the address of its ring, or 0. See src/trace/trace.h. */
extern NEAR__DATA const uint64_t *near__trace_table NEAR__STATE(near__trace_table);

NEAR_API void near__trace_register(struct near_trace_point *p);
/* An event with a payload of one word; of `size` bytes, where the last word is filled up with
 * zeros, and words[] has as many as the size class. */
NEAR_API void near__trace_one(struct near_trace_point *p, uint64_t word);
NEAR_API void near__trace_words(struct near_trace_point *p, const uint64_t *words, size_t size);
NEAR_API void near__trace_pieces(struct near_trace_point *p, const struct near__trace_piece *pieces,
				 unsigned n);

/* Appends {head | cpu, time, word} to the ring of the local slot: the store of the position
 * commits, a release for readers. Fails if there is no ring, or no room before the end of the
 * sub-buffer and its end mark. The ring's header is struct near__trace_ring of src/trace/format.h;
 * its data begin 128 bytes after it. The clock is read before the position is loaded: in between
 * no other record can be written, or the sequence fails. It takes 1.4 ns less than in the other
 * order (measured on Granite Rapids). */
NEAR__INLINE bool near__trace_try(uint64_t head, uint64_t word)
{
	const uint64_t *table = __atomic_load_n(&near__trace_table, __ATOMIC_RELAXED);
	uint64_t ring, next, at, low, time;

	return NEAR_SEQ(
		NEAR_INDEX(ring)
		NEAR_SHIFT_LEFT(ring, 5)
		NEAR_LOAD8X(ring, table, ring)
		NEAR_BRANCH_ZERO(ring, near_failed)
		NEAR_CLOCK(time)
		NEAR_LOAD8(next, ring, 0)
		NEAR_LOAD8(at, ring, 8)
		NEAR_AND(at, next)
		NEAR_ADD(at, ring)
		NEAR_ADD_CONST(next, 24)
		NEAR_LOAD8(low, ring, 24)
		NEAR_BRANCH_NOT_BELOW(next, low, near_failed)
		NEAR__INDEX_CPU_TOO(low)
		NEAR_SHIFT_LEFT(low, 22)
		NEAR_OR(low, head)
		NEAR_STORE8(low, at, 128)
		NEAR_STORE8(time, at, 136)
		NEAR_STORE8(word, at, 144)
		NEAR_COMMIT8_RELEASE(next, ring),
		NEAR_OUT_CLOCK(time, ring, next, at, low), NEAR_IN(table, head, word));
}

NEAR__INLINE void near__trace_word(struct near_trace_point *p, uint64_t word)
{
	/* Acquire: pairs with the store that switched it on; the table is loaded after it. */
	uint32_t clock = __atomic_load_n(&p->enabled, __ATOMIC_ACQUIRE);
	uint32_t tid = near__more.tid;

	if (__builtin_expect(clock != 1 || !tid || !near__trace_try(p->head | tid, word), 0))
		near__trace_one(p, word);
}

/* NEAR_TRACEPOINT(provider, event, level, fields...), at file scope: defines
 * near_trace_<provider>_<event>(), whose parameters are the fields, up to 64 of them
 * (trace_fields.h). All names are letters, digits and `_`: others are refused when the tracepoint
 * is compiled, or registered. With NEAR_TRACE_USDT defined before this header is included, it has a
 * USDT probe, too. */
#define NEAR_TRACEPOINT(...)                                                                       \
	NEAR__TRACE_CAT(NEAR__TRACE_POINT_, NEAR__TRACE_FORM(__VA_ARGS__))(__VA_ARGS__)
/* 1: without a level; 2: without fields; 3: with some; 4: with more than 64. */
/* clang-format off */
#define NEAR__TRACE_FORM(...) NEAR__TRACE_SELECT(__VA_ARGS__, \
	4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, \
	4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, \
	4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, \
	3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, \
	3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 1, 1, 0)
/* clang-format on */

/* Names are those of C without `$` and without letters beyond ASCII, which have more bytes than
 * characters. Where no constant expression finds a `$`, the registration refuses it. */
#if defined(__clang__) && !defined(__cplusplus)
#define NEAR__TRACE_HAS_DOLLAR(text) false
#else
#define NEAR__TRACE_HAS_DOLLAR(text) (__builtin_strchr(text, '$') != NULL)
#endif
#ifdef __cplusplus
#define NEAR__TRACE_ASSERT static_assert
#else
#define NEAR__TRACE_ASSERT __extension__ _Static_assert
#endif
#define NEAR__TRACE_CHECK(text)                                                                    \
	NEAR__TRACE_ASSERT(sizeof(U"" text) == sizeof(U"") * sizeof(text) &&                       \
				   !NEAR__TRACE_HAS_DOLLAR(text),                                  \
			   "nearcpu: names of tracepoints and fields are letters, digits and _");

/* The point and its constructor, which runs before those without a priority and those of C++. */
#define NEAR__TRACE_DEFINE(name, text, level, fields)                                              \
	NEAR__TRACE_CHECK(text ";" fields)                                                         \
	static struct near_trace_point near__trace_point_##name = {NEAR__TRACE_EARLY,              \
								   (uint32_t)(level),              \
								   UINT64_C(3) << 52,              \
								   text,                           \
								   fields,                         \
								   __FILE__                        \
								   ":" NEAR__TRACE_LINE(__LINE__), \
								   near__trace_values_##name,      \
								   NULL,                           \
								   0,                              \
								   NULL,                           \
								   {0, 0, 0}};                     \
	__attribute__((constructor(103))) static void near__trace_register_##name(void)            \
	{                                                                                          \
		near__trace_register(&near__trace_point_##name);                                   \
	}
#define NEAR__TRACE_LINE(line) NEAR__TRACE_LINE_(line)
#define NEAR__TRACE_LINE_(line) #line
#define NEAR__TRACE_IS_ON(name)                                                                    \
	__builtin_expect(                                                                          \
		__atomic_load_n(&near__trace_point_##name.enabled, __ATOMIC_RELAXED) != 0, 0)

#define NEAR__TRACE_POINT_4(...) NEAR__TRACE_ASSERT(0, "nearcpu: a tracepoint has up to 64 fields")
#define NEAR__TRACE_POINT_2(provider, event, level)                                                \
	static const int32_t near__trace_values_##provider##_##event[] = {0};                      \
	NEAR__TRACE_DEFINE(provider##_##event, #provider ":" #event, level, "")                    \
	__attribute__((unused)) static inline void near_trace_##provider##_##event(void)           \
	{                                                                                          \
		NEAR__TRACE_PROBE(provider, event);                                                \
		if (NEAR__TRACE_IS_ON(provider##_##event))                                         \
			near__trace_word(&near__trace_point_##provider##_##event, 0);              \
	}                                                                                          \
	NEAR__SEMICOLON

#define NEAR__TRACE_POINT_3(provider, event, level, ...)                                           \
	static const int32_t near__trace_values_##provider##_##event[] = {                         \
		NEAR__TRACE_EACH(NEAR__TRACE_VALUES, NEAR__TRACE_NOTHING, __VA_ARGS__) 0};         \
	NEAR__TRACE_DEFINE(provider##_##event, #provider ":" #event, level,                        \
			   NEAR__TRACE_EACH(NEAR__TRACE_TEXT, NEAR__TRACE_SEMICOLON, __VA_ARGS__)) \
	__attribute__((unused)) static inline void near__trace_on_##provider##_##event(            \
		NEAR__TRACE_EACH(NEAR__TRACE_PARAM, NEAR__TRACE_COMMA, __VA_ARGS__))               \
	{                                                                                          \
		NEAR__TRACE_WRITE(                                                                 \
			&near__trace_point_##provider##_##event,                                   \
			(0 NEAR__TRACE_EACH(NEAR__TRACE_SIZE, NEAR__TRACE_NOTHING, __VA_ARGS__)),  \
			__VA_ARGS__)                                                               \
	}                                                                                          \
	__attribute__((unused)) static inline void near_trace_##provider##_##event(                \
		NEAR__TRACE_EACH(NEAR__TRACE_PARAM, NEAR__TRACE_COMMA, __VA_ARGS__))               \
	{                                                                                          \
		NEAR__TRACE_PROBE(provider, event,                                                 \
				  NEAR__TRACE_EACH(NEAR__TRACE_PASS, NEAR__TRACE_COMMA,            \
						   __VA_ARGS__));                                  \
		if (NEAR__TRACE_IS_ON(provider##_##event))                                         \
			near__trace_on_##provider##_##event(NEAR__TRACE_EACH(                      \
				NEAR__TRACE_PASS, NEAR__TRACE_COMMA, __VA_ARGS__));                \
	}                                                                                          \
	NEAR__SEMICOLON

/* Words of the sequence that copies `size` bytes. */
#define NEAR__TRACE_CLASS(size)                                                                    \
	((size) <= 16 ? 2 : (size) <= 32 ? 4 : (size) <= 64 ? 8 : (size) <= 128 ? 16 : 32)
/* One of three: a word, words, or pieces with variable lengths. The size is constant. */
#define NEAR__TRACE_WRITE(point, size, ...)                                                        \
	if (size <= 8) {                                                                           \
		uint64_t near__bits = 0;                                                           \
		unsigned near__shift = 0;                                                          \
		NEAR__TRACE_EACH(NEAR__TRACE_BITS, NEAR__TRACE_NOTHING, __VA_ARGS__)               \
		(void)near__shift;                                                                 \
		near__trace_word(point, near__bits);                                               \
	} else if (size <= 256) {                                                                  \
		uint64_t near__words[NEAR__TRACE_CLASS(size)];                                     \
		char *near__put = (char *)near__words;                                             \
		NEAR__TRACE_EACH(NEAR__TRACE_LOCAL, NEAR__TRACE_NOTHING, __VA_ARGS__)              \
		near__words[size <= 256 ? (size - 1) / 8 : 0] = 0;                                 \
		NEAR__TRACE_EACH(NEAR__TRACE_PUT, NEAR__TRACE_NOTHING, __VA_ARGS__)                \
		(void)near__put;                                                                   \
		near__trace_words(point, near__words, size);                                       \
	} else {                                                                                   \
		NEAR__TRACE_EACH(NEAR__TRACE_LOCAL, NEAR__TRACE_NOTHING, __VA_ARGS__)              \
		const struct near__trace_piece near__pieces[] = {                                  \
			NEAR__TRACE_EACH(NEAR__TRACE_PIECE, NEAR__TRACE_NOTHING, __VA_ARGS__)};    \
		near__trace_pieces(point, near__pieces,                                            \
				   sizeof(near__pieces) / sizeof(*near__pieces));                  \
	}

/* ---- sessions ---- */

enum near_trace_mode { NEAR_TRACE_OVERWRITE, NEAR_TRACE_STOP_WHEN_FULL, NEAR_TRACE_STREAM };
enum near_trace_clock {
	NEAR_TRACE_COUNTER = 1, /* near_clock(); the default where the CPU has one */
	NEAR_TRACE_MONOTONIC,   /* CLOCK_MONOTONIC; the default elsewhere */
	NEAR_TRACE_OWN,         /* options.now */
	NEAR_TRACE_NO_CLOCK,
};

/* Zero fields mean the default. */
struct near_trace_options {
	const char *path;   /* a folder, that exists, or a new file; default /dev/shm */
	const char *enable; /* patterns as of near_trace_enable, with commas; default "*" */
	/* Events of this level and more important ones; default NEAR_TRACE_DEBUG. */
	enum near_trace_level level;
	enum near_trace_mode mode;
	enum near_trace_clock clock;
	uint64_t (*now)(void); /* with NEAR_TRACE_OWN: ns; safe in signal handlers */
	size_t ring_size;      /* of each slot; a power of two, 256 KiB or more; default 1 MiB */
	uint64_t max_bytes;    /* of the file: slots that would exceed it discard; default none */
	/* With NEAR_TRACE_STREAM: files of this size, of which this many stay; 64 MiB, 4. */
	const char *stream; /* the folder of these files; default: that of the session's file */
	uint64_t file_size; /* 256 KiB or more */
	unsigned files;
	uint64_t reserved[4]; /* 0 */
};

/* Starts the process's session. Returns 0; -EALREADY: there is one; -EINVAL: an option is wrong, or
 * a reserved word is not 0; -E2BIG: more than 32 patterns; -EEXIST: the file exists; -ENOENT,
 * -ENOTDIR: a folder does not; -ENAMETOOLONG; -ENOMEM; and what near_region_open returns. Then
 * near_trace_error() is a sentence. */
NEAR_API int near_trace_start(const struct near_trace_options *options);

/* Stops it: events that have begun end first. The file stays. Returns 0; -ENOENT: there is none. */
NEAR_API int near_trace_stop(void);

/* Why this thread's last call that failed has failed, if that was a start, enable, disable,
 * snapshot, trigger or context: a sentence. NULL: none failed, or a call about a region or shared
 * ids did after it. */
NEAR_API const char *near_trace_error(void);

/* The session's file; NULL: there is none. Valid until the next start. */
NEAR_API const char *near_trace_path(void);

/* Switches on the tracepoints whose "provider:event" matches a pattern (fnmatch(3), without classes
 * as [:alpha:]) and whose level is at least that important; also those of objects that are loaded
 * later. Without a session they stay off. Returns how many match now; -EINVAL: it is no pattern, or
 * no level; -E2BIG: there are 32 patterns since the last "*". */
NEAR_API int near_trace_enable(const char *pattern, enum near_trace_level level);
NEAR_API int near_trace_disable(const char *pattern);

/* The same as near_trace_enable for events of which a field has such a value: "size>4096",
 * "color==RED". The condition is a field, one of == != < <= > >=, and a number or a label. A
 * tracepoint without that field, or where it is no number, does not match. -EINVAL: it is no
 * condition, too. */
NEAR_API int near_trace_enable_if(const char *pattern, enum near_trace_level level,
				  const char *condition);

/* Copies what the rings have to a new file, while events go on. Returns 0; -ENOENT: there is no
 * session, or no folder; -EEXIST: the file exists; and what near_region_open returns. */
NEAR_API int near_trace_snapshot(const char *file);

/* Makes events take snapshots, from now on. The text is an event, such as "shop:order", or a
 * pattern of events, and pairs of a word and what it takes:
 *
 *     if CONDITION   as of near_trace_enable_if: of a field of that event
 *     to LAST        the time from that event to this one, of the same thread, is
 *     over TIME      as long or longer: 500us, 10ms, 2s
 *     by FIELD       the two have this field in common, not the thread
 *     before TIME    the snapshot has the events from then on; default: all that the rings have
 *     after TIME     and those until then; default 0
 *     every TIME     at most one snapshot of the process in that time; default 60s
 *     keep N         the last N snapshots of this trigger stay, 1 to 16; default 4
 *     in FOLDER      where they are; default: that of the session's file. The last of the words
 *
 * The snapshot's file is SESSION.snapshot-N. The tracepoints are on, whatever the patterns are.
 * NULL removes all triggers, and so does the end of the session. Returns how many tracepoints match
 * now; -ENOENT: there is no session; -EINVAL: the text is wrong, or the session does not overwrite;
 * -E2BIG: there are 8; -EAGAIN: no thread could be made; -ENOMEM. */
NEAR_API int near_trace_trigger(const char *text);

/* What events may have besides their fields: further fields, after these. */
enum near_trace_with {
	NEAR_TRACE_WITH_IDS = 1,    /* (bytes, trace_id), (bytes, span_id): near_trace_set_ids */
	NEAR_TRACE_WITH_THREAD = 2, /* (string, thread): its name */
	/* (u32, pid), (u64, pid_namespace), the inode of /proc/self/ns/pid, (string, cgroup). */
	NEAR_TRACE_WITH_PROCESS = 4,
	/* (array_x64, stack): return addresses, that in the function with the tracepoint first, of
	 * as many frames as the record has room for, up to 31. By frame pointers: programs are
	 * compiled with -fno-omit-frame-pointer. */
	NEAR_TRACE_WITH_STACK = 8,
};

/* The events of tracepoints that match the pattern have these of enum near_trace_with, or 0, from
 * now on; the last pattern that matches decides. Returns how many match now; -ENOENT: there is no
 * session; -EINVAL: it is no pattern, or there is no such context; -E2BIG: there are 8 patterns
 * since the last "*"; -ENOMEM. The end of the session removes all. */
NEAR_API int near_trace_context(const char *pattern, unsigned what);

/* The calling thread's, 16 and 8 bytes, which are copied, as W3C's Trace Context and OpenTelemetry
 * have them; NULL: none. A scheduler of fibers calls it when it switches. Returns 0; -ENOMEM, for
 * the first call of a thread. Also in signal handlers. */
NEAR_API int near_trace_set_ids(const void *trace_id, const void *span_id);

/* A message, as printf; the tracepoint is "log:" and the level's name. Not in signal handlers. */
NEAR_API void near_trace_message(enum near_trace_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Later versions add fields at the end. */
struct near_trace_stats {
	uint64_t discarded; /* events that found no room */
	uint64_t chains_cut;
	uint64_t bytes;   /* that rings take */
	unsigned rings;   /* in use */
	unsigned points;  /* known, */
	unsigned enabled; /* and on */
	/* Of triggers: events that were true of one; of these, those that took no snapshot, as the
	 * last one was too young or another event waited for one; snapshots; and those that could
	 * not be made, as on a full disk. */
	uint64_t triggered, limited, snapshots, failed;
};

/* Fills *out, of which the caller knows `size` bytes. 0; -EINVAL: size is 0; -ENOENT: no
 * session. */
NEAR_API int near_trace_stats(struct near_trace_stats *out, size_t size);

NEAR__END_DECLS

#endif
