/* SPDX-License-Identifier: MIT */
/* The implementation by LTTng-UST. trace_lttng.c has its session. */
#include "bench.h"
#include "trace.h"

#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "trace/lttng_events.h"

#include <errno.h>
#include <lttng/ust-clock.h>
#include <nearcpu/detail/arch/arch.h>

#define EVENT(name, ...) lttng_ust_tracepoint(near_bench, name, __VA_ARGS__)
TRACE_LOOP(number, EVENT(number, (uint32_t)i))
TRACE_LOOP(words, EVENT(words, TRACE_EIGHT(i)))
TRACE_LOOP(string, EVENT(string, trace_text()))

/* The library has registered by now, unless the daemon is too slow. */
static const char *check_on(uint64_t events)
{
	(void)events;
	return lttng_ust_tracepoint_enabled(near_bench, number)
		       ? NULL
		       : "the session of lttng-sessiond has not enabled the event";
}

static const char *check_off(uint64_t events)
{
	return check_on(events) ? NULL : "a session has enabled the event";
}

static int init_on(void) { return check_on(0) ? -ENOTCONN : 0; }

/* lttng_clock.c has taken effect. */
static int init_counter(void)
{
	lttng_ust_clock_read64_function clock;
	uint64_t before = near__clock(), now;

	if (lttng_ust_trace_clock_get_read64_cb(&clock))
		return -ENOENT;
	now = clock();
	return before <= now && now <= near__clock() ? init_on() : -ENOENT;
}

static const struct trace_impl on = {"lttng", init_on, number, words, string, check_on},
			       counter = {"lttng-counter", init_counter, number,
					  words,           string,       check_on},
			       off = {"lttng-disabled", .number = number, .check = check_off};
const struct trace_impl *const near_bench_trace_impls[] = {&on, &counter, &off, NULL};
