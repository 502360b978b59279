/* SPDX-License-Identifier: MIT */
/* A C++ library that dlopen loaded is visible to its own users alone: its symbols are searched from
 * the object that called new, and only after new has failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

#include "malloc/api/cxx.h"

void *near__cxx_find(const void *caller, const char *name)
{
	Dl_info info;
	void *object;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return NULL;
	object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	/* The reference is kept: the exception will unwind through the object. */
	return object ? dlsym(object, name) : NULL;
}
