/* SPDX-License-Identifier: MIT */
/* near_malloc besides the C library's malloc. */
#include <nearcpu/malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	char *ours = (char *)near_malloc(100), *theirs = (char *)malloc(100);
	size_t size = near_usable_size(ours);

	if (!ours || !theirs || size < 100)
		return 1;
	memset(ours, 1, 100);
	memcpy(theirs, ours, 100);
	free(theirs);
	near_free(ours);
	printf("%zu bytes\n", size);
	return 0;
}
