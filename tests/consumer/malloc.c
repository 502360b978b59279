/* SPDX-License-Identifier: MIT */
/* C and C++: malloc is ours. */
#include <nearcpu/malloc.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile kept;

int main(void)
{
	struct near_malloc_stats s;

	for (int i = 0; i < 1000; i++)
		kept = malloc(100);
	if (near_malloc_stats(&s, sizeof(s)) || s.allocations < 1000)
		return 1;
	printf("%llu allocations\n", (unsigned long long)s.allocations);
	return 0;
}
