/* SPDX-License-Identifier: MIT */
/* relocate: the relocations of relocatable objects that matter to sequences: addresses, branches,
 * and how code reaches descriptors and the thread's storage. */
#ifndef NEARCPU_CHECK_RELOCATE_H
#define NEARCPU_CHECK_RELOCATE_H

#include "check/image.h"

#include <elf.h>

struct relocation {
	uint32_t type, symbol;
	uint64_t place;
	uint64_t value; /* symbol + addend */
	uint64_t slot;  /* of the symbol in a GOT */
	/* riscv64: what the high part at `value` was made of, for the low part. */
	uint64_t high_value, high_place;
};

/* Fills the place, if the relocation is one that matters. */
void relocate(struct image *image, const struct relocation *r);

/* riscv64: a high part, whose target is the symbol or, if *by_slot, its slot in the GOT. */
bool relocate_is_high(uint32_t type, bool *by_slot);

#endif
