/* SPDX-License-Identifier: MIT */
/* What the calls of near_queue and near_fifo share. */
#ifndef NEARCPU_QUEUE_CALLS_H
#define NEARCPU_QUEUE_CALLS_H

#include "base/spin.h"

/* Before the second try: the other side works on in the meantime, undisturbed, so that there is
 * more than one element, or room for more than one. Million elements per second of 2, 4 and 8
 * threads that put and get, with 0, 600 and 1,200 ns: near_queue 23, 8 and 7; 38, 38 and 39; 44, 33
 * and 33. near_fifo, with 600 ns and yields, or neither: 37, 34 and 32; 15, 13 and 11 (Intel Xeon,
 * Granite Rapids class, 2 CPUs). */
#define FIRST_PAUSE_NS 600

/* The result of a call on one element, by that of a call on several. */
static inline int result_of_one(long r)
{
	return r < 0 ? (int)r : 0;
}

#endif
