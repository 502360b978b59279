/* SPDX-License-Identifier: MIT */
/* A plugin of somebody else: counts by the inline function of a header. */
#include <nearcpu/counter.h>

static struct near_counter hits;
static int begun;

int count(int n)
{
	if (!begun++ && near_counter_init(&hits))
		return -1;
	for (int i = 0; i < n; i++)
		near_counter_add(&hits, 1);
	return (int)near_counter_read(&hits);
}
