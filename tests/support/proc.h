/* SPDX-License-Identifier: MIT */
/* What the kernel writes about this process in files. */
#ifndef NEARCPU_TESTS_PROC_H
#define NEARCPU_TESTS_PROC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind `name` in a file of the kernel, `otherwise` if there is none. */
static inline unsigned long long kernel_number(const char *file, const char *name,
					       unsigned long long otherwise)
{
	unsigned long long n = otherwise;
	char line[256];
	FILE *f = fopen(file, "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			n = strtoull(line + strlen(name), NULL, 10);
	if (f)
		fclose(f);
	return n;
}

#endif
