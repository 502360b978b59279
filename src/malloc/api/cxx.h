/* SPDX-License-Identifier: MIT */
/* cxx: symbols of the C++ library, for the operators of C++. */
#ifndef NEARCPU_MALLOC_CXX_H
#define NEARCPU_MALLOC_CXX_H

/* A name in the scope of the object that contains `caller`. */
void *near__cxx_find(const void *caller, const char *name);

#endif
