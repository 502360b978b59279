/* SPDX-License-Identifier: MIT */
/* cxx: C++'s operators, and what new does where there is no memory. */
#ifndef NEARCPU_MALLOC_CXX_H
#define NEARCPU_MALLOC_CXX_H

#include <stdbool.h>
#include <stddef.h>

/* The operators, by their names in the ABI: cxx.c. */

/* Tries until there is memory or no handler: then std::bad_alloc. */
void *near__new_failed(size_t align, size_t n, const void *caller);
/* The same, but NULL then. */
void *near__new_nothrow_failed(size_t align, size_t n, const void *caller);

/* By the C++ library's own nothrow forms, which go by the program's operators. */
void *near__new_nothrow_theirs(size_t align, size_t n, bool array, const void *caller);

/* False: the program has operators of its own. */
bool near__cxx_is_ours(void);

/* A name as the object sees it that `caller` is in. */
void *near__cxx_find(const void *caller, const char *name);

#endif
