/* SPDX-License-Identifier: MIT */
/* cxx: what C++'s new does where there is no memory. */
#ifndef NEARCPU_MALLOC_CXX_H
#define NEARCPU_MALLOC_CXX_H

#include <stdbool.h>
#include <stddef.h>

/* Tries until there is memory or no handler: then std::bad_alloc. */
void *near__new_failed(size_t align, size_t n, const void *caller);
/* The same, but NULL then. */
void *near__new_nothrow_failed(size_t align, size_t n, const void *caller);

/* A name as the object sees it that `caller` is in. */
void *near__cxx_find(const void *caller, const char *name);

#endif
