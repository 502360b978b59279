/* SPDX-License-Identifier: MIT */
/* Operations under locks, on objects of all sizes except 0. All are sequentially consistent. */
#ifndef NEARCPU_ATOMIC_LOCKED_H
#define NEARCPU_ATOMIC_LOCKED_H

#include <stdbool.h>
#include <stddef.h>

/* Return true. */
bool near__locked_load(size_t size, const void *object, void *out);
bool near__locked_store(size_t size, void *object, const void *in);
/* in may be out. Returns true. */
bool near__locked_exchange(size_t size, void *object, const void *in, void *out);
/* Returns whether the object was equal to `expected`. */
bool near__locked_compare_exchange(size_t size, void *object, void *expected, const void *in);

#endif
