/* SPDX-License-Identifier: MIT */
/* expect: names of tracepoints and fields are letters, digits and _ */
#include <nearcpu/trace.h>

NEAR_TRACEPOINT(shop, café, NEAR_TRACE_INFO, (u32, id));
