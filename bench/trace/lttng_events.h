/* SPDX-License-Identifier: MIT */
/* The tracepoints of LTTng-UST. Its headers include this file several times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER near_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "trace/lttng_events.h"

#if !defined(NEAR_LTTNG_EVENTS_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define NEAR_LTTNG_EVENTS_H

#include <lttng/tracepoint.h>

/* clang-format off */
LTTNG_UST_TRACEPOINT_EVENT(near_bench, number,
	LTTNG_UST_TP_ARGS(uint32_t, value),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint32_t, value, value)))

LTTNG_UST_TRACEPOINT_EVENT(near_bench, words,
	LTTNG_UST_TP_ARGS(uint64_t, a, uint64_t, b, uint64_t, c, uint64_t, d, uint64_t, e,
			  uint64_t, f, uint64_t, g, uint64_t, h),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(uint64_t, a, a)
			    lttng_ust_field_integer(uint64_t, b, b)
			    lttng_ust_field_integer(uint64_t, c, c)
			    lttng_ust_field_integer(uint64_t, d, d)
			    lttng_ust_field_integer(uint64_t, e, e)
			    lttng_ust_field_integer(uint64_t, f, f)
			    lttng_ust_field_integer(uint64_t, g, g)
			    lttng_ust_field_integer(uint64_t, h, h)))

LTTNG_UST_TRACEPOINT_EVENT(near_bench, string,
	LTTNG_UST_TP_ARGS(const char *, text),
	LTTNG_UST_TP_FIELDS(lttng_ust_field_string(text, text)))
/* clang-format on */

#endif

#include <lttng/tracepoint-event.h>
