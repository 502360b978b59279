/* SPDX-License-Identifier: MIT */
/* format: a trace file, as src/trace writes and nearcpu-trace(1) reads it. All numbers are in the
 * machine's byte order; the files of other byte orders are refused by the region's magic number.
 *
 * A trace file is a region (region.h) whose copies are not used. Its directory has, each once:
 *
 *     trace:session   struct near__trace_session
 *     trace:points    sparse: struct near__trace_point_record, one after the other, 8-byte aligned
 *     trace:rings     sparse: rings, each of `ring_stride` bytes
 *     trace:control   struct near__trace_control
 *
 * Rings 0 to slots - 1 are those of slots and written by sequences; the ones after them, as many as
 * there are possible CPUs, are written under locks. A ring is in use if its bit in `used` is set:
 * the blocks of its header and the begin of its first sub-buffer were allocated before, others when
 * they are needed. It has a header in the last 128 bytes of its first 4,096, and from there on
 * `ring_size` bytes of data, a power of two of sub-buffers.
 *
 * Positions count bytes since the ring was made; byte p is at p % ring_size. Records never cross
 * the end of a sub-buffer. A record begins with its head, which is not 0; where a head of 0 is,
 * the rest of the sub-buffer is unused. On a full disk whole sub-buffers are skipped, which then
 * have zeros. What is before `position` is whole. In a ring that overwrites, the oldest record that
 * can be read is the first of the sub-buffer after that of position - ring_size; of a process that
 * runs the same holds for the position that is loaded after the data was copied and
 * membarrier(GLOBAL_EXPEDITED) was called.
 *
 * After kill -9, at any instruction, a ring is whole up to its position: the store of the position
 * commits a record. A file that was cut off has rings whose end is missing. */
#ifndef NEARCPU_TRACE_FORMAT_H
#define NEARCPU_TRACE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define NEAR__TRACE_VERSION 1
#ifndef NEAR__TRACE_SUB_SHIFT    /* tests have smaller ones */
#define NEAR__TRACE_SUB_SHIFT 16 /* sub-buffers of 64 KiB */
#endif
#define NEAR__TRACE_SUB_SIZE (UINT64_C(1) << NEAR__TRACE_SUB_SHIFT)
#define NEAR__TRACE_LEAST_SUBS 4
#define NEAR__TRACE_PAGE 4096 /* from the begin of a ring to its data; of all machines */

#define NEAR__TRACE_SESSION_NAME "trace:session"
#define NEAR__TRACE_POINTS_NAME "trace:points"
#define NEAR__TRACE_RINGS_NAME "trace:rings"
#define NEAR__TRACE_SESSION_KIND 301 /* near_region_object.kind */
#define NEAR__TRACE_POINTS_KIND 302
#define NEAR__TRACE_RINGS_KIND 303

enum near__trace_clock {
	NEAR__TRACE_NO_CLOCK,  /* the time of each record is 0 */
	NEAR__TRACE_COUNTER,   /* near_clock() */
	NEAR__TRACE_MONOTONIC, /* CLOCK_MONOTONIC in ns */
	NEAR__TRACE_OWN,       /* the program's, in ns */
};

enum near__trace_mode {
	NEAR__TRACE_OVERWRITE,      /* a flight recorder: the newest records stay */
	NEAR__TRACE_STOP_WHEN_FULL, /* the oldest records stay */
	/* A thread of the process, or its events, take whole sub-buffers; as above while that is
	 * late. The file has what is from `read` of its rings on, and other files, FILE.1 and so
	 * on, have what is before. They are as NEAR__TRACE_STOP_WHEN_FULL; in their rings, `read`
	 * is where they begin in the ring of the session's file, so that they have the records up
	 * to `read` + `position`, whatever `read` of that ring is. */
	NEAR__TRACE_STREAM,
};

/* The counter and the clocks at one moment. The rate of the counter follows from two of them. */
struct near__trace_moment {
	uint64_t counter;
	uint64_t monotonic_ns, realtime_ns;
	uint64_t uncertainty_ns; /* of the counter against the clocks */
};

enum near__trace_session_flags {
	NEAR__TRACE_FENCES = 1,    /* the process has registered for membarrier(GLOBAL_EXPEDITED) */
	NEAR__TRACE_WAS_FULL = 2,  /* the file system: a ring could not be opened, or grow */
	NEAR__TRACE_WAS_BOUND = 4, /* a ring could not be opened, as max_bytes were reached */
	NEAR__TRACE_NO_THREAD = 8, /* events carry out orders, as in a child of fork */
	NEAR__TRACE_WAS_EARLY = 16, /* events came before the file was made, and were discarded */
	NEAR__TRACE_SNAPSHOT_FAILED = 32, /* a trigger's, as on a full disk */
	NEAR__TRACE_IS_SNAPSHOT = 64,     /* of a trigger: the session's file may have it, too */
	NEAR__TRACE_IS_SCHED = 128, /* of record --sched: payloads begin with the process, a u32 */
};

struct near__trace_session {
	uint32_t version; /* stored last when the session is made */
	uint32_t mode, clock;
	uint32_t slots, cpus;
	uint32_t slot_kind; /* enum near_slot_kind */
	uint32_t unstable;  /* 1: the kernel does not use the counter as its clock */
	uint32_t ended;     /* 1: the process stopped tracing and closed the file */
	uint32_t flags;     /* enum near__trace_session_flags; atomic */
	uint32_t on_disk;   /* 1: the file is not in a memory file system */
	uint64_t ring_size, ring_stride;
	uint64_t pid, parent; /* in the process's pid namespace */
	uint64_t number;      /* of the process's sessions, or of the rotated files, from 1 */
	struct near__trace_moment begin;
	/* Stored again now and then, and at the end: the copy (latest_count + 1) % 2, then
	 * `latest_count` + 1, a release. The copy latest_count % 2 is whole. */
	struct near__trace_moment latest[2];
	uint64_t latest_count;
	uint64_t points_bytes; /* of trace:points that are whole: a store publishes a record */
	uint64_t discarded;  /* records for which there was no ring; atomic. See also the rings' */
	uint64_t chains_cut; /* payloads whose rest found no room; atomic */
};

/* The words after it: a bit for each ring that has been opened, (slots + cpus + 63) / 64 words. */
static inline uint64_t *near__trace_used(const struct near__trace_session *s)
{
	return (uint64_t *)(uintptr_t)(s + 1);
}

/* A tracepoint. Its fields are those of a text: "u32 code;string path;enum color{red=1,blue=2} c".
 * Names are letters, digits and `_`. */
struct near__trace_point_record {
	uint32_t size; /* of this record with its texts, a multiple of 8 */
	uint32_t id;   /* 1 to 65535 */
	uint32_t level;
	uint32_t name_size, fields_size; /* of the texts, each with its terminating 0 */
	uint32_t flags;
	char texts[]; /* name ("provider:event"), fields, "file:line" */
};

/* A tracepoint without events, whose place is a line of /proc/PID/maps: code of the program, or of
 * a library, of which call stacks have addresses. */
#define NEAR__TRACE_OBJECT "near_trace:object"

struct near__trace_ring {
	/* Bytes written; the store commits a record. Written by the slot's sequences, or under
	 * the ring's lock. */
	uint64_t position __attribute__((aligned(64)));
	uint64_t mask;      /* ring_size - 1 */
	uint64_t discarded; /* records that found no room; atomic */
	uint64_t end; /* for sequences: of what is ready of the position's sub-buffer, or less */
	uint64_t unused[4];
	/* NEAR__TRACE_STREAM: what the reader has taken; of its files, where they begin. */
	uint64_t read __attribute__((aligned(64)));
	uint64_t reader_unused[7];
};
_Static_assert(sizeof(struct near__trace_ring) == 128, "the begin of a ring");

/* A record: the head, the time, and `words` - 2 words of payload, one of zeros without fields. */
#define NEAR__TRACE_TID_BITS 22    /* from bit 0 */
#define NEAR__TRACE_CPU_SHIFT 22   /* 14 bits */
#define NEAR__TRACE_ID_SHIFT 36    /* 16 bits: the tracepoint */
#define NEAR__TRACE_WORDS_SHIFT 52 /* 6 bits: of the record, 3 to 34 */
#define NEAR__TRACE_FLAGS_SHIFT 58 /* 6 bits */
#define NEAR__TRACE_MAX_WORDS 34   /* 256 bytes of payload */
/* At the begin of a sub-buffer, of a snapshot: it was overwritten while it was copied. */
#define NEAR__TRACE_DROPPED ((UINT64_C(1) << NEAR__TRACE_WORDS_SHIFT) - 1)

enum near__trace_flags {
	NEAR__TRACE_CUT = 1, /* strings or arrays of the payload were cut, the last ones */
	/* The payload is a part of a longer one. Its first word has the serial number of the chain
	 * among those of the thread (32 bits), the number of this part (16), and, of part 0 only,
	 * that of all parts (16). The payloads after it, joined, are that of the event, whose
	 * time, CPU and id are those of part 0. */
	NEAR__TRACE_PART = 2,
};

/* A payload: the fields in their order, packed, without padding; zeros up to 8 bytes. A string,
 * an array and bytes begin with a 16-bit length, of elements, or with NEAR__TRACE_LONG and then a
 * 32-bit length. A string has no terminating 0. Booleans have one byte, pointers 8, an enum 4.
 *
 * The field types: bool, u8, u16, u32, u64, i8, i16, i32, i64, x8 ... x64 (shown in hexadecimal),
 * f32, f64, ptr, string, bytes, enum NAME{label=value,...}, and array_T of the numeric ones. */
#define NEAR__TRACE_LONG 0xffff

/* Orders from another process. It holds a lock on the first byte of this object (an open file
 * description's), writes the text, adds one to `request` and wakes its futex, which is not private.
 * The traced process's thread carries the order out, writes the answer, stores `request` to `done`
 * and wakes that. Orders: "enable PATTERN [LEVEL [CONDITION]]", "disable PATTERN", "snapshot FILE",
 * "trigger TEXT", "flush". Several of them, but no snapshot, are lines of one. The answer is empty,
 * or an error message.
 *
 * With NEAR__TRACE_NO_THREAD the next event does so, and takes no snapshot. For that the other
 * process stores 0 to `end` of the rings of slots, after a fence.
 *
 * Whichever of the two stores `request` to `claimed` first decides: the thread or the event, to
 * carry the order out; or the other process, which gives it up, or puts it before a new one. */
#define NEAR__TRACE_CONTROL_NAME "trace:control"
#define NEAR__TRACE_CONTROL_KIND 304
struct near__trace_control {
	uint32_t request, done;
	char order[1024], answer[1024]; /* with their terminating 0 */
	uint32_t claimed, unused;
};

/* False: the other one has. */
static inline _Bool near__trace_claim(struct near__trace_control *c, uint32_t request)
{
	return __atomic_exchange_n(&c->claimed, request, __ATOMIC_ACQ_REL) != request;
}

#endif
