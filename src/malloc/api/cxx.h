/* SPDX-License-Identifier: MIT */
/* cxx: what the operators of C++ look up in the C++ library. */
#ifndef NEARCPU_MALLOC_CXX_H
#define NEARCPU_MALLOC_CXX_H

/* A name in the scope of the object that contains `caller`. */
void *near__cxx_find(const void *caller, const char *name);

#endif
