/* SPDX-License-Identifier: MIT */
/* The module of one of liburcu's flavours. */
#include "rcu.h"

extern const struct rcu_impl urcu_impl, urcu_call_impl;

const struct rcu_impl *const near_bench_rcu_impls[] = {&urcu_impl, &urcu_call_impl, NULL};
