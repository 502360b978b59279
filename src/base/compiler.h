/* SPDX-License-Identifier: MIT */
/* compiler: what all layers use to place data and to predict branches. */
#ifndef NEARCPU_COMPILER_H
#define NEARCPU_COMPILER_H

#define NEAR__CACHE_LINE 64
#define NEAR__LIKELY(x) __builtin_expect(!!(x), 1)
#define NEAR__UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
