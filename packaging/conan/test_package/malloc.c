/* SPDX-License-Identifier: MIT */
/* C and C++: malloc is that of libnearcpu-malloc. */
#include <nearcpu/malloc.h>
#include <stdio.h>
#include <stdlib.h>

static void *volatile kept;

int main(void)
{
	struct near_malloc_stats s;

	for (int i = 0; i < 1000; i++)
		kept = malloc(100);
	if (near_malloc_stats(&s, sizeof(s)) || s.in_use < 1000 * 100)
		return 1;
	printf("%llu bytes in use\n", (unsigned long long)s.in_use);
	return 0;
}
