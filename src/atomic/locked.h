/* SPDX-License-Identifier: MIT */
/* Operations under locks, on objects of any size but 0. All are sequentially consistent. */
#ifndef NEARCPU_ATOMIC_LOCKED_H
#define NEARCPU_ATOMIC_LOCKED_H

#include <stdbool.h>
#include <stddef.h>

/* But for the last these return true. */
bool near__locked_load(size_t size, const void *object, void *out);
bool near__locked_store(size_t size, void *object, const void *in);
/* in may be out. */
bool near__locked_exchange(size_t size, void *object, const void *in, void *out);
bool near__locked_compare_exchange(size_t size, void *object, void *expected, const void *in);

#endif
