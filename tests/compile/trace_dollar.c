/* SPDX-License-Identifier: MIT */
/* expect: names of tracepoints and fields are letters, digits and _ */
/* not: clang */
#include <nearcpu/trace.h>

NEAR_TRACEPOINT(shop, order, NEAR_TRACE_INFO, (u32, a$b));
