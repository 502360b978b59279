/* SPDX-License-Identifier: MIT */
/* patterns: where objects of programs are. Computed, by the rules of Linux and glibc on machines of
 * 64 bits, and the same on every machine. */
#ifndef ATOMIC_HASH_PATTERNS_H
#define ATOMIC_HASH_PATTERNS_H

#include <stddef.h>
#include <stdint.h>

#define OBJECTS 256 /* in as many lines */

struct pattern {
	const char *label;
	void (*make)(uintptr_t *at, size_t arg); /* fills in OBJECTS addresses */
	size_t arg;
	size_t align; /* the address space layout moves all of them by a multiple of this */
};

extern const struct pattern patterns[];
extern const size_t pattern_count;

/* An array whose elements are so many bytes apart. */
void pattern_array(uintptr_t *at, size_t stride);

#endif
