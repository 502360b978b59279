/* SPDX-License-Identifier: MIT */
/* reserved: the words at the end of each options structure. They must be 0, so that a later version
 * can give them a meaning. */
#ifndef NEARCPU_BASE_RESERVED_H
#define NEARCPU_BASE_RESERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool near__words_are_zero(const uint64_t *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (words[i])
			return false;
	return true;
}

/* `o` points to options. */
#define NEAR__RESERVED_ARE_ZERO(o)                                                                 \
	near__words_are_zero((o)->reserved, sizeof((o)->reserved) / sizeof(*(o)->reserved))

#endif
