/* SPDX-License-Identifier: MIT */
/* The functions of libatomic, against plain memory. */
#ifndef NEARCPU_TESTS_ATOMIC_PLAIN_H
#define NEARCPU_TESTS_ATOMIC_PLAIN_H

#include "calls.h"

/* Each generic call for an object of n bytes, at each `step`th of ARENA_OFFSETS offsets. */
void generic_grid(size_t n, size_t step);
/* Each generic call with each order. */
void generic_orders(size_t n, size_t at);
/* Load, store, exchange, compare-exchange, test-and-set on each aligned offset, in all orders. */
void sized_moves(const struct sized_calls *c);
/* The operations, with values that carry, borrow and wrap around. */
void sized_ops(const struct sized_calls *c);

#endif
