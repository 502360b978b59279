/* SPDX-License-Identifier: MIT */
/* A shop that traces its orders, with LTTng-UST. lttng_theirs.sh records it. */
/* [program] */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_theirs_tp.h"

int main(void)
{
	for (uint32_t id = 1; id <= 3; id++)
		lttng_ust_tracepoint(shop, order, id, "alice", 2.5 * id);
	return 0;
}
/* [/program] */
