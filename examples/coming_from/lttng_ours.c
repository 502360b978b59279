/* SPDX-License-Identifier: MIT */
/* A shop that traces its orders. lttng_ours.sh records it; lttng_theirs.c is the same with
 * LTTng-UST. */
/* [program] */
#include <nearcpu/trace.h>

NEAR_TRACEPOINT(shop, order, NEAR_TRACE_INFO, (u32, id), (string, customer), (f64, total));

int main(void)
{
	for (uint32_t id = 1; id <= 3; id++)
		near_trace_shop_order(id, "alice", 2.5 * id);
	return 0;
}
/* [/program] */
