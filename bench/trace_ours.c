/* SPDX-License-Identifier: MIT */
/* The implementations by near_trace, and the yardsticks. */
#include "bench.h"

#include <nearcpu/counter.h>
#include <nearcpu/region.h>
#include <nearcpu/trace.h>
#include <errno.h>
#include <fcntl.h>

#include "trace.h"
#include "base/bits.h"
#include "trace/format.h"

NEAR_TRACEPOINT(near_bench, number, NEAR_TRACE_INFO, (u32, value));
NEAR_TRACEPOINT(near_bench, words, NEAR_TRACE_INFO, (u64, a), (u64, b), (u64, c), (u64, d),
		(u64, e), (u64, f), (u64, g), (u64, h));
NEAR_TRACEPOINT(near_bench, string, NEAR_TRACE_INFO, (string, text));

TRACE_LOOP(number, near_trace_near_bench_number((uint32_t)i))
TRACE_LOOP(words, near_trace_near_bench_words(TRACE_EIGHT(i)))
TRACE_LOOP(string, near_trace_near_bench_string(trace_text()))

static int file = -1;                     /* the session's, which has no name */
static uint64_t record_size, record_room; /* that is copied by a sequence */

static int trace_start(enum near_trace_clock clock)
{
	int err = near_trace_start(
		&(struct near_trace_options){.clock = clock, .ring_size = TRACE_RING});

	if (err)
		return err;
	file = open(near_trace_path(), O_RDWR | O_CLOEXEC);
	err = file < 0 ? -errno : 0;
	unlink(near_trace_path());
	return err;
}

#define INIT(id, clock)                                                                            \
	static int init_##id(void) { return trace_start(clock); }
INIT(counter, NEAR_TRACE_COUNTER)
INIT(monotonic, NEAR_TRACE_MONOTONIC)
INIT(none, NEAR_TRACE_NO_CLOCK)

static int init_disabled(void)
{
	int err = trace_start(NEAR_TRACE_COUNTER);

	near_trace_disable("*");
	return err;
}

/* ---- what the rings have: each event of a row has a record of the same size ---- */

static uint64_t records(const struct near__trace_ring *r, uint64_t room)
{
	uint64_t whole = (NEAR__TRACE_SUB_SIZE - 1 - room) / record_size + 1;

	return (r->position >> NEAR__TRACE_SUB_SHIFT) * whole +
	       r->position % NEAR__TRACE_SUB_SIZE / record_size;
}

static uint64_t events_count(const struct near_region *r, const struct near__trace_session *s,
			     uint64_t rings)
{
	/* The header is before the data. */
	const char *header =
		near_region_common(r, rings) + NEAR__TRACE_PAGE - sizeof(struct near__trace_ring);
	uint64_t n = 0;

	for (uint64_t i = 0; i < s->slots + s->cpus; i++)
		if (near__bit(near__trace_used(s), i))
			n += records((const void *)(header + i * s->ring_stride),
				     i < s->slots ? record_room : record_size);
	return n;
}

static const char *trace_check(uint64_t events)
{
	struct near_region_object session = {0}, rings = {0};
	struct near_region r;
	const char *wrong = "the trace file is damaged";

	if (near_region_open_fd(&r, file))
		return wrong;
	if (!near_region_object(&r, 0, &session) && !near_region_object(&r, 2, &rings))
		wrong = bench_compare(
			events_count(&r, (const void *)near_region_common(&r, session.offset),
				     rings.offset),
			events);
	near_region_close(&r);
	return wrong;
}

#define CHECK(id, size, room)                                                                      \
	static const char *check_##id(uint64_t events)                                             \
	{                                                                                          \
		record_size = 16 + (size);                                                         \
		record_room = 16 + (room);                                                         \
		return trace_check(events);                                                        \
	}
CHECK(number, 8, 8)
CHECK(words, 64, 64)
CHECK(string, 40, 64) /* 2 + 32 bytes */

static const char *check_disabled(uint64_t events)
{
	(void)events;
	record_size = record_room = 24;
	return trace_check(0);
}

/* ---- yardsticks ---- */

static struct near_counter counter;

static int init_adds(void) { return near_counter_init(&counter); }

TRACE_LOOP(adds, near_counter_add(&counter, 1))
TRACE_LOOP(clocks, BENCH_USE(near_clock()))
TRACE_LOOP(gettimes, BENCH_USE(now_ns()))
TRACE_LOOP(nothing, BENCH_BARRIER())

#define IMPL(id, ...) static const struct trace_impl id##_impl = {__VA_ARGS__};
IMPL(near, "near", init_counter, .number = number, .check = check_number)
IMPL(near_words, "near-words", init_counter, .words = words, .check = check_words)
IMPL(near_string, "near-string", init_counter, .string = string, .check = check_string)
IMPL(monotonic, "near-monotonic", init_monotonic, .number = number, .check = check_number)
IMPL(none, "near-none", init_none, .number = number, .check = check_number)
IMPL(disabled, "near-disabled", init_disabled, .number = number, .check = check_disabled)
IMPL(adds, "adds", init_adds, .number = adds)
IMPL(clocks, "clocks", .number = clocks)
IMPL(gettimes, "gettimes", .number = gettimes)
IMPL(nothing, "nothing", .number = nothing)

#define IMPLS(...) const struct trace_impl *const trace_ours[] = {__VA_ARGS__, NULL}
IMPLS(&near_impl, &near_words_impl, &near_string_impl, &monotonic_impl, &none_impl, &disabled_impl,
      &adds_impl, &clocks_impl, &gettimes_impl, &nothing_impl);
