/* SPDX-License-Identifier: MIT */
/* A C++ library that came by dlopen shows its names to its own users alone: they are looked up from
 * the object that called new, when that failed and never before. */
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
	/* The reference that this took stays: the object is about to be unwound through. */
	return object ? dlsym(object, name) : NULL;
}
