/* SPDX-License-Identifier: MIT */
/* The file in which libnearcpu-locks.so records the waits of one process, FOLDER/PID.N. It has its
 * final size from the begin; the blocks after the first page are allocated at the first wait.
 *
 * nearcpu locks reads it while it is written, or when a killed process has left it. An
 * entry of `sites` or `threads` is complete once its last word is not 0, which is stored
 * with release. An event is complete if its number is the one that its place is to have. Counts are
 * added to one by one. */
#ifndef NEARCPU_WAITS_FORMAT_H
#define NEARCPU_WAITS_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define NEAR__WAITS_MAGIC UINT64_C(0x31305354494157) /* "WAITS01" */

/* How many of each there may be. */
enum {
	NEAR__WAITS_SITES = 4096,
	NEAR__WAITS_THREADS = 2048,
	NEAR__WAITS_EVENTS = 32768,
	NEAR__WAITS_MAPS = 262144,
	NEAR__WAITS_FRAMES = 16,
	NEAR__WAITS_BUCKETS = 160,
};

/* What is waited for. HELD is no wait: a thread released what others waited for, and the time is
 * for how long they had. */
enum near__wait_kind {
	NEAR__WAIT_MUTEX,
	NEAR__WAIT_READ,
	NEAR__WAIT_WRITE,
	NEAR__WAIT_COND,
	NEAR__WAIT_SEM,
	NEAR__WAIT_PARK, /* the parking lot of this library */
	NEAR__WAIT_HELD,
	NEAR__WAIT_KINDS,
};

/* Times are of CLOCK_MONOTONIC, in ns. A bucket has the times whose highest three bits are the
 * same: less than a quarter above its lower bound. */
static inline unsigned near__waits_bucket(uint64_t ns)
{
	unsigned bit = 63 - (unsigned)__builtin_clzll(ns | 4), i;

	i = (bit - 2) * 4 + (unsigned)(ns >> (bit - 2));
	return i < NEAR__WAITS_BUCKETS ? i : NEAR__WAITS_BUCKETS - 1;
}

/* The times of bucket i are less than that. */
static inline uint64_t near__waits_bound(unsigned i)
{
	return i < 8 ? i + 1 : (uint64_t)(i % 4 + 5) << (i / 4 - 1);
}

/* Waits of one kind for one lock at one call stack. The lock is 0 where the table had no room for
 * each of them. */
struct near__waits_site {
	_Atomic uint64_t key; /* a hash of all that; 0: free */
	uint64_t lock;
	uint32_t kind, depth;
	uint64_t stack[NEAR__WAITS_FRAMES]; /* where calls return to, the innermost first */
	_Atomic uint64_t count, total, longest, longest_end, failed;
	_Atomic uint32_t buckets[NEAR__WAITS_BUCKETS];
	_Atomic uint32_t is_complete;
	uint32_t room;
};

struct near__waits_thread {
	_Atomic uint32_t tid; /* 0: free; or the last one, which all other threads share */
	char name[16];        /* at its first wait */
	uint32_t room;
	_Atomic uint64_t count[NEAR__WAIT_KINDS], total[NEAR__WAIT_KINDS];
	_Atomic uint64_t is_complete;
};

struct near__waits_event {
	_Atomic uint64_t number; /* from 1 on; UINT64_MAX: it is being written */
	uint64_t begin, ns;
	uint32_t site, thread; /* indexes */
	uint32_t holder;       /* its tid when the wait began, or 0: unknown, or none */
	uint32_t is_since;     /* held_ns is since the holder has it; else it is the least */
	uint64_t held_ns;      /* how long the holder had it then */
};

struct near__waits_head {
	uint64_t magic, size;
	_Atomic uint32_t is_on;     /* the command stores it */
	_Atomic uint32_t allocated; /* 1: the blocks are there; else they are not: errno + 1 */
	uint32_t pid, is_fork;      /* of the process that was forked and has executed nothing */
	uint64_t begin, begin_realtime; /* of the record */
	_Atomic uint64_t end;           /* 0: it has not exited, or not by exit() */
	char program[256];              /* its name, as it was executed */
	_Atomic uint32_t sites, room;   /* how many there are */
	_Atomic uint64_t events;        /* how many there were */
	/* What found no room: sites are recorded without the lock, or not at all. */
	_Atomic uint64_t merged, lost;
};

struct near__waits {
	union {
		struct near__waits_head head;
		char page[4096];
	};
	struct near__waits_site sites[NEAR__WAITS_SITES];
	struct near__waits_thread threads[NEAR__WAITS_THREADS];
	char maps[NEAR__WAITS_MAPS]; /* lines of /proc/PID/maps; the last may be incomplete */
	struct near__waits_event ring[NEAR__WAITS_EVENTS];
};

#endif
