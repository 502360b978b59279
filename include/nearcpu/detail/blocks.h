/* SPDX-License-Identifier: MIT */
/* Private: lists of free blocks, and arrays, one for each slot, and the sequences that take one
 * block and put one. The drop-in malloc has both, pool.h arrays; src/cache/ has the rest.
 *
 * A list is one word: the offset of its first block from an address `base`. A block's link, 8 bytes
 * at its start, is
 *
 *     next block's offset ^ own offset ^ key, 56 bits | length of the list, 8 bits
 *
 * The key is a random number, so that an attacker cannot forge a link without having read one. The
 * length is of the list that begins with the block. The words at base + 0 to base + 16 are 0, and
 * so the length of an empty list is. A program that writes to the lowest byte of a freed block
 * changes a length: a list then has more blocks than it should, or leaves its slot too early.
 *
 * A word is a link if its upper 56 bits decode to less than `limit`, 2^NEAR__OFFSET_BITS at most.
 * Bits 63 and 62 of links are 1 and 0. No word whose bits 63 and 62 differ from 1 and 0 is a link,
 * whatever the other bits of the key are: 0, integers of up to 62 bits, positive or negative,
 * addresses of programs, text. Caches rely on this: what is at a list that is unused, closed or
 * empty is no link. A child of fork keeps the key, as it keeps the lists. */
#ifndef NEARCPU_BLOCKS_H
#define NEARCPU_BLOCKS_H

#include <nearcpu/seq.h>

NEAR__BEGIN_DECLS

#define NEAR__OFFSET_BITS 44
#define NEAR__KEY(random) ((((random) | UINT64_C(1) << 63) & ~(UINT64_C(1) << 62)) >> 8)
#define NEAR__UNUSED_LIST ((uint64_t)0) /* of a slot that is not in use yet */
#define NEAR__CLOSED_LIST ((uint64_t)8)
#define NEAR__EMPTY_LIST ((uint64_t)16)

/* Blocks of one class in a slot: a list, and how many blocks it may have. The slow paths change the
 * limit outside of sequences. */
struct near__entry {
	uint64_t list;
	uint8_t limit;
};
#ifndef __cplusplus
_Static_assert(offsetof(struct near__entry, limit) == 8, "the sequences");
#endif

/* at, an entry in the copy that all addresses are computed from, becomes that of this thread's
 * slot. */
#define NEAR__AT_CID(at, w) NEAR_INDEX_CID(w) NEAR_SHIFT_LEFT(w, 20) NEAR_ADD(at, w)
#define NEAR__AT_SLOT(at, w) NEAR_OFFSET_UNCHECKED(w) NEAR_ADD(at, w)

/* clang-format off */

/* w = entry.list; own = key ^ w; rest = (the link of its first block) >> 8 ^ own, the decoded link;
 * entry.list = rest commits, if that is below the limit. `own` is made while the link is loaded.
 * Reading the block is sound: no other thread takes it off this list while the sequence runs; a
 * drain reads what it took after its fence.
 * False: aborted, or there was no block. */
#define NEAR__DEFINE_POP(name, AT, IN)                                                             \
	NEAR__INLINE bool name(struct near__entry *at, uintptr_t base, uint64_t key,              \
				uint64_t limit, void **block)                                      \
	{                                                                                          \
		uint64_t own = key, rest, w;                                                       \
                                                                                                   \
		if (!NEAR__SEQ((IN),                                                               \
			AT(at, w)                                                                  \
			NEAR_LOAD8(w, at, 0)                                                       \
			NEAR_LOAD8X(rest, base, w)                                                 \
			NEAR_XOR(own, w)                                                           \
			NEAR_SHIFT_RIGHT(rest, 8)                                                  \
			NEAR_XOR(rest, own)                                                        \
			NEAR_BRANCH_NOT_BELOW(rest, limit, near_failed)                            \
			NEAR_COMMIT8(rest, at, 0),                                                 \
			(NEAR__IN_OUT(at) NEAR__OUT(w) NEAR__OUT(rest) NEAR__IN_OUT(own)),         \
			(NEAR__IN_PAIR(base, base) NEAR__IN_PAIR(limit, limit))))                  \
			return false;                                                              \
		*(uint64_t *)(uintptr_t)(base + w) = 0; /* no link: it is in use */                \
		__builtin_prefetch((void *)(uintptr_t)(base + rest), 1); /* the next link */       \
		*block = (void *)(uintptr_t)(base + w);                                            \
		return true;                                                                       \
	}

/* w = entry.list; n = its length, in the link of its first block; p's link = w, encoded, and n + 1;
 * entry.list = p commits. n + 1 fits a byte, as the limit does. What is committed waits for no
 * load. Only the caller has p until then, so that storing the link again is harmless. Reading the
 * first block is sound, as above.
 * False: aborted, or the list is full, closed or not in use yet; or p is its first block. */
#define NEAR__DEFINE_PUSH(name, AT, IN)                                                            \
	NEAR__INLINE bool name(struct near__entry *at, uintptr_t base, uint64_t key, void *p,     \
				uint64_t offset)                                                   \
	{                                                                                          \
		uint64_t w, n;                                                                     \
                                                                                                   \
		return NEAR__SEQ((IN),                                                             \
			AT(at, w)                                                                  \
			NEAR_LOAD8(w, at, 0)                                                       \
			NEAR_BRANCH_EQ(w, offset, near_failed)                                     \
			NEAR_BRANCH_BELOW(w, empty, near_failed)                                   \
			NEAR__LOAD1X(n, base, w)                                                   \
			NEAR__BRANCH_NOT_BELOW_MEM1(n, at, 8, near_failed)                         \
			NEAR_SHIFT_LEFT(w, 8)                                                      \
			NEAR_XOR(w, own)                                                           \
			NEAR_ADD(w, n)                                                             \
			NEAR_STORE8(w, p, 0)                                                       \
			NEAR_COMMIT8(offset, at, 0),                                               \
			(NEAR__IN_OUT(at) NEAR__OUT(w) NEAR__OUT(n)),                              \
			(NEAR__IN_PAIR(p, p) NEAR__IN_PAIR(offset, offset)                         \
			 NEAR__IN_PAIR(own, (key ^ offset) << 8 | 1)                               \
			 NEAR__IN_PAIR(base, base)                                                 \
			 NEAR__IN_AS(NEAR__COMPARED, empty, NEAR__EMPTY_LIST)));                   \
	}
/* clang-format on */

NEAR__DEFINE_POP(near__block_pop, NEAR__AT_SLOT, NEAR__SEQ_IN)
NEAR__DEFINE_POP(near__block_pop_by_cid, NEAR__AT_CID, NEAR__SEQ_IN_AREA)
NEAR__DEFINE_PUSH(near__block_push, NEAR__AT_SLOT, NEAR__SEQ_IN)
NEAR__DEFINE_PUSH(near__block_push_by_cid, NEAR__AT_CID, NEAR__SEQ_IN_AREA)

/* Arrays. A slot has
 *
 *     at  0  position: bytes from here to where the next element goes, or, as of lists, 0: not in
 *            use yet, 8: closed; 16: empty
 *         8  end: elements go below it; any thread may change it
 *        16  elements of 8 bytes, of which nothing reads those from `position` on
 *
 * (Byte offsets, in a word of 8 bytes: with a number of elements in 4, a pop and a push took 3.9 ns
 * instead of 1.5, Intel Xeon, Granite Rapids class.) */
struct near__array {
	uint64_t position, end;
};

/* n = position; at[n] = word; position = n + 8 commits, if n is below `end`. */
NEAR__INLINE bool near__array_push(struct near__array *array, uint64_t word)
{
	uint64_t at, n, to;

	return NEAR__SEQ((NEAR__SEQ_IN),
		NEAR_SLOT_UNCHECKED(at, array)
		NEAR_LOAD8(n, at, 0)
		NEAR_BRANCH_BELOW(n, empty, near_failed)
		NEAR_LOAD8(to, at, 8)
		NEAR_BRANCH_NOT_BELOW(n, to, near_failed)
		NEAR_MOVE(to, at)
		NEAR_ADD(to, n)
		NEAR_STORE8(word, to, 0)
		NEAR_ADD_CONST(n, 8)
		NEAR_COMMIT8(n, at, 0),
		NEAR_OUT(at, n, to),
		(NEAR__IN_PAIR(array, array) NEAR__IN_PAIR(word, word)
		 NEAR__IN_AS(NEAR__COMPARED, empty, NEAR__EMPTY_LIST)));
}

/* n = position - 8; v = at[n]; position = n commits, if there is an element. */
NEAR__INLINE bool near__array_pop(struct near__array *array, uint64_t *word)
{
	uint64_t at, n, v;

	if (!NEAR__SEQ((NEAR__SEQ_IN),
		NEAR_SLOT_UNCHECKED(at, array)
		NEAR_LOAD8(n, at, 0)
		NEAR_BRANCH_BELOW(n, one, near_failed)
		NEAR_ADD_CONST(n, -8)
		NEAR_LOAD8X(v, at, n)
		NEAR_COMMIT8(n, at, 0),
		NEAR_OUT(at, n, v),
		(NEAR__IN_PAIR(array, array)
		 NEAR__IN_AS(NEAR__COMPARED, one, NEAR__EMPTY_LIST + 8))))
		return false;
	*word = v;
	return true;
}

NEAR__END_DECLS

#endif
