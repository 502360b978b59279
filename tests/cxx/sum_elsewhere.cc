/* SPDX-License-Identifier: MIT */
/* The second file that instantiates the template of sum.h. */
#include "sum.h"

void add_elsewhere(Sum<std::int64_t> &sum, std::int64_t n)
{
	sum.add(n);
}
