/* SPDX-License-Identifier: MIT */
/* The C library alone is among its dependencies. */
#include "plugin.h"

#include <stdlib.h>

static void *alloc(size_t n)
{
	return malloc(n);
}

static void *resize(void *p, size_t n)
{
	return realloc(p, n);
}

static void release(void *p)
{
	free(p);
}

__attribute__((visibility("default"))) const struct plugin plugin = {alloc, resize, release};
