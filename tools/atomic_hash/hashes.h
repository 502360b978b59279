/* SPDX-License-Identifier: MIT */
/* hashes: candidates for the hash of the drop-in libatomic's locks, and those of its peers. Each
 * maps an address to a lock; all but compiler-rt's by the number of its line of 64 bytes, so that
 * everything in a line has one lock. */
#ifndef ATOMIC_HASH_HASHES_H
#define ATOMIC_HASH_HASHES_H

#include <stddef.h>
#include <stdint.h>

#define LINE 64

struct hash {
	const char *name; /* hash_<name> is the function */
	const char *label;
	unsigned locks;
	unsigned (*of)(uintptr_t address);
};

extern const struct hash hashes[];
extern const size_t hash_count;

#endif
