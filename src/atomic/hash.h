/* SPDX-License-Identifier: MIT */
/* The hash that maps a line of memory to a lock: the highest bits of the line's number, folded and
 * multiplied by 2^64 over the golden ratio. Neighbouring lines get distant locks, and lines at
 * equal strides (arrays, stacks, pages) spread evenly. Without the fold, lines at some strides,
 * near Fibonacci numbers, share a few locks. docs/atomic.md compares the hash with others on
 * address patterns of programs. */
#ifndef NEARCPU_ATOMIC_HASH_H
#define NEARCPU_ATOMIC_HASH_H

#include <stdint.h>

#define NEAR__ATOMIC_BITS 8
#define NEAR__ATOMIC_LOCKS (1 << NEAR__ATOMIC_BITS)
/* Objects in the same 64 bytes share a lock, as they share a cache line. */
#define NEAR__ATOMIC_LINE_SHIFT 6
#define NEAR__ATOMIC_LINE (1 << NEAR__ATOMIC_LINE_SHIFT)

static inline unsigned near__atomic_hash(uintptr_t line)
{
	return (unsigned)(((uint64_t)(line ^ line >> 7) * UINT64_C(0x9e3779b97f4a7c15)) >>
			  (64 - NEAR__ATOMIC_BITS));
}

#endif
