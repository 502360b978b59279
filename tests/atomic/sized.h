/* SPDX-License-Identifier: MIT */
/* The functions for one size, against plain memory. */
#ifndef NEARCPU_TESTS_ATOMIC_SIZED_H
#define NEARCPU_TESTS_ATOMIC_SIZED_H

#include "calls.h"

/* Load, store, exchange, compare-exchange, test-and-set on each aligned offset, in all orders. */
void sized_moves(const struct sized_calls *c);
/* The operations, with values that carry, borrow and wrap around. */
void sized_ops(const struct sized_calls *c);

#endif
