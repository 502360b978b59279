/* SPDX-License-Identifier: MIT */
/* clang-format off */
/* [tracepoint] */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER shop

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_theirs_tp.h"

#if !defined(LTTNG_THEIRS_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define LTTNG_THEIRS_TP_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
	shop, order,
	LTTNG_UST_TP_ARGS(uint32_t, id, const char *, customer, double, total),
	LTTNG_UST_TP_FIELDS(
		lttng_ust_field_integer(uint32_t, id, id)
		lttng_ust_field_string(customer, customer)
		lttng_ust_field_float(double, total, total)
	)
)
LTTNG_UST_TRACEPOINT_LOGLEVEL(shop, order, LTTNG_UST_TRACEPOINT_LOGLEVEL_INFO)

#endif

#include <lttng/tracepoint-event.h>
/* [/tracepoint] */
