/* SPDX-License-Identifier: MIT */
/* What the allocator has and musl's headers do not name. */
#ifndef NEARCPU_TESTS_TRIM_H
#define NEARCPU_TESTS_TRIM_H

#include <malloc.h>

int malloc_trim(size_t pad);

#endif
