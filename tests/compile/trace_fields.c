/* SPDX-License-Identifier: MIT */
/* expect: a tracepoint has up to 64 fields */
#include <nearcpu/trace.h>

#define EIGHT(n)                                                                                   \
	(u8, n##0), (u8, n##1), (u8, n##2), (u8, n##3), (u8, n##4), (u8, n##5), (u8, n##6),        \
		(u8, n##7)

NEAR_TRACEPOINT(shop, order, NEAR_TRACE_INFO, EIGHT(a), EIGHT(b), EIGHT(c), EIGHT(d), EIGHT(e),
		EIGHT(f), EIGHT(g), EIGHT(h), (u8, one_too_many));
