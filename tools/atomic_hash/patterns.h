/* SPDX-License-Identifier: MIT */
/* patterns: where objects of programs stand. */
#ifndef ATOMIC_HASH_PATTERNS_H
#define ATOMIC_HASH_PATTERNS_H

#include <stddef.h>
#include <stdint.h>

#define OBJECTS 256 /* in as many lines */

struct pattern {
	const char *label;
	/* Fills in addresses, at most OBJECTS; how many it has. */
	size_t (*make)(uintptr_t *at, size_t arg);
	size_t arg;
	size_t align; /* the address space layout moves all of them by a multiple of this */
};

extern const struct pattern patterns[];
extern const size_t pattern_count;

/* An array whose elements are so many bytes apart. */
size_t pattern_array(uintptr_t *at, size_t stride);

#endif
