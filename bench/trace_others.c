/* SPDX-License-Identifier: MIT */
/* The implementations that need no library: rings of CPUs by getcpu and atomics, as in the table of
 * the commit that introduced rseq (2018), and lines in a file. */
#include "bench.h"

#include <errno.h>
#include <nearcpu/percpu.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "trace.h"

static uint32_t this_thread(void)
{
	static __thread uint32_t tid;

	if (!tid)
		tid = (uint32_t)syscall(SYS_gettid);
	return tid;
}

/* ---- rings of CPUs: reserved by a compare-exchange, committed by an add, as LTTng's ---- */

#define SUB_SIZE ((uint64_t)64 << 10)
#define SUBS (TRACE_RING / SUB_SIZE)
#define RECORD 24

struct ring {
	uint64_t reserved;
	char pad[BENCH_LINE - sizeof(uint64_t)];
	uint64_t committed[SUBS]; /* bytes of each sub-buffer */
	uint64_t data[TRACE_RING / sizeof(uint64_t)];
};
static struct ring *rings;

static int init_rings(void)
{
	rings = bench_alloc(near_cpus(), sizeof(*rings));
	return rings ? 0 : -ENOMEM;
}

static uint64_t no_clock(void) { return 0; }

static inline __attribute__((always_inline)) void ring_append(uint64_t (*clock)(void),
							      uint32_t value)
{
	uint32_t cpu = (uint32_t)sched_getcpu();
	struct ring *r = &rings[cpu];
	uint64_t old = __atomic_load_n(&r->reserved, __ATOMIC_RELAXED), at, time, *to;

	do {
		at = old % SUB_SIZE + RECORD > SUB_SIZE ? (old | (SUB_SIZE - 1)) + 1 : old;
		time = clock();
	} while (!__atomic_compare_exchange_n(&r->reserved, &old, at + RECORD, false,
					      __ATOMIC_RELAXED, __ATOMIC_RELAXED));
	to = &r->data[at % TRACE_RING / sizeof(uint64_t)];
	to[0] = this_thread() | (uint64_t)cpu << 32;
	to[1] = time;
	to[2] = value;
	/* Release: a reader of the count finds the record. */
	__atomic_fetch_add(&r->committed[at / SUB_SIZE % SUBS], RECORD, __ATOMIC_RELEASE);
}

TRACE_LOOP(ring_counter, ring_append(near_clock, (uint32_t)i))
TRACE_LOOP(ring_monotonic, ring_append(now_ns, (uint32_t)i))
TRACE_LOOP(ring_none, ring_append(no_clock, (uint32_t)i))

static const char *check_rings(uint64_t events)
{
	uint64_t bytes = 0;

	for (unsigned cpu = 0; cpu < near_cpus(); cpu++)
		for (unsigned i = 0; i < SUBS; i++)
			bytes += rings[cpu].committed[i];
	return bench_compare(bytes / RECORD, events);
}

/* ---- lines ---- */

#define LINES 65536 /* of a thread, then the file is written from its beginning again */

static FILE *lines;

static int init_lines(void)
{
	char name[] = "/dev/shm/nearcpu-XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0)
		return -errno;
	unlink(name);
	lines = fdopen(fd, "w");
	return lines ? 0 : -errno;
}

static const char *check_lines(uint64_t events)
{
	(void)events;
	return fflush(lines) || ferror(lines) ? "the file cannot be written" : NULL;
}

#define LINE(format, ...)                                                                          \
	struct timespec t;                                                                         \
	if (i % LINES == LINES - 1)                                                                \
		rewind(lines);                                                                     \
	clock_gettime(CLOCK_MONOTONIC, &t);                                                        \
	fprintf(lines, "%lld.%09ld %u " format "\n", (long long)t.tv_sec, t.tv_nsec,               \
		this_thread(), __VA_ARGS__)
#define LL(i) (unsigned long long)(i)

TRACE_LOOP(line_number, LINE("number value=%u", (uint32_t)i))
TRACE_LOOP(line_string, LINE("string text=%s", trace_text()))
TRACE_LOOP(line_words, LINE("words a=%llu b=%llu c=%llu d=%llu e=%llu f=%llu g=%llu h=%llu",
			    TRACE_EIGHT(LL(i))))

#define RING(id, name, loop)                                                                       \
	static const struct trace_impl id##_impl = {name, init_rings, .number = loop,              \
						    .check = check_rings};
RING(ring, "cmpxchg", ring_counter)
RING(ring_monotonic, "cmpxchg-monotonic", ring_monotonic)
RING(ring_none, "cmpxchg-none", ring_none)
static const struct trace_impl lines_impl = {"fprintf",  init_lines,  line_number,
					     line_words, line_string, check_lines};

const struct trace_impl *const trace_others[] = {&ring_impl, &ring_monotonic_impl, &ring_none_impl,
						 &lines_impl, NULL};
