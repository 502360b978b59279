/* SPDX-License-Identifier: MIT */
/* The generic functions, against plain memory. */
#ifndef NEARCPU_TESTS_ATOMIC_GENERIC_H
#define NEARCPU_TESTS_ATOMIC_GENERIC_H

#include "unit.h"

/* Each call for an object of n bytes, at each `step`th of ARENA_OFFSETS offsets. */
void generic_grid(size_t n, size_t step);
/* Each call with each order. */
void generic_orders(size_t n, size_t at);

#endif
