/* SPDX-License-Identifier: MIT */
/* list: what C code does with lists of free blocks (nearcpu/detail/blocks.h) that no other thread
 * changes.
 *
 * Lists that are cut or joined without a pass over their blocks keep the lengths that are in their
 * links. Only lists in the caches of slots need right ones.
 *
 * A list that waits in an array has its length in the upper 16 bits of its word, too: a thread that
 * counts such lists reads no block. */
#ifndef NEARCPU_CACHE_LIST_H
#define NEARCPU_CACHE_LIST_H

#include <nearcpu/detail/blocks.h>

#include "base/compiler.h"

/* Where blocks are. A function that has one as a constant compiles to code without it. */
struct near__space {
	uintptr_t base;
	uint64_t key;
	uint64_t size; /* offsets are below */
	/* A link does not decode: a block was written to, or freed, while it was free. If this
	 * returns, the list ends there. */
	void (*damaged)(const char *what, const void *block);
};

#define NEAR__WAITING_SHIFT 48

static inline bool near__list_is_empty(uint64_t list)
{
	return list <= NEAR__EMPTY_LIST;
}

static inline uint64_t *near__space_block(struct near__space s, uint64_t list)
{
	return (uint64_t *)(uintptr_t)(s.base + list);
}

static inline unsigned near__space_length(struct near__space s, uint64_t list)
{
	return *(uint8_t *)(uintptr_t)(s.base + list);
}

/* The word of a list in an array; and from such a word to the list, and to its length. */
static inline uint64_t near__space_waiting(struct near__space s, uint64_t list)
{
	return list | (uint64_t)near__space_length(s, list) << NEAR__WAITING_SHIFT;
}

static inline uint64_t near__waiting_list(uint64_t word)
{
	return word & (((uint64_t)1 << NEAR__WAITING_SHIFT) - 1);
}

static inline unsigned near__waiting_length(uint64_t word)
{
	return (unsigned)(word >> NEAR__WAITING_SHIFT);
}

/* The link of the first block of `list`, if `rest` follows it; and from such a link to `rest`. */
static inline uint64_t near__space_link(struct near__space s, uint64_t list, uint64_t rest)
{
	return (list ^ rest ^ s.key) << 8 | (uint8_t)(near__space_length(s, rest) + 1);
}

static inline uint64_t near__space_unlink(struct near__space s, uint64_t list, uint64_t link)
{
	return link >> 8 ^ list ^ s.key;
}

/* The list of the blocks after the first one. */
static inline uint64_t near__space_rest(struct near__space s, uint64_t list)
{
	uint64_t *p = near__space_block(s, list), rest = near__space_unlink(s, list, *p);

	if (NEAR__LIKELY(rest < s.size))
		return rest;
	s.damaged("write to a freed block, or freed twice", p);
	return NEAR__EMPTY_LIST;
}

/* Takes the first block off *list, which is not empty. Clears its link: a block in use has none.
 * The rest of a damaged list is dropped before that is reported: what runs then does not find it
 * again. */
static inline void *near__space_take(struct near__space s, uint64_t *list)
{
	uint64_t *p = near__space_block(s, *list), all = *list;

	*list = near__space_unlink(s, all, *p);
	if (NEAR__UNLIKELY(*list >= s.size)) {
		*list = NEAR__EMPTY_LIST;
		near__space_rest(s, all);
	}
	*p = 0;
	return p;
}

/* A list of one block is the block's offset. */
static inline void near__space_push(struct near__space s, uint64_t *list, uint64_t block)
{
	*near__space_block(s, block) = near__space_link(s, block, *list);
	*list = block;
}

static inline void near__space_put(struct near__space s, uint64_t *list, void *p)
{
	near__space_push(s, list, (uintptr_t)p - s.base);
}

/* Returns a list of the first n blocks of *list, 1 or more, and leaves the others. Their links were
 * stored last, and are probably still in the CPU's cache. They get new lengths. */
static inline uint64_t near__space_cut(struct near__space s, uint64_t *list, unsigned n)
{
	uint64_t head = *list, at = head;

	for (; n; n--) {
		at = *list;
		*list = near__space_rest(s, at);
		*(uint8_t *)near__space_block(s, at) = (uint8_t)n;
	}
	*near__space_block(s, at) = near__space_link(s, at, NEAR__EMPTY_LIST);
	return head;
}

#endif
