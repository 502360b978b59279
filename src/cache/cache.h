/* SPDX-License-Identifier: MIT */
/* cache: the per-CPU caches of free blocks, on which pools and the drop-in malloc are built.
 *
 * The copy of a slot has for each class of blocks, its *bin*, a list of free blocks in one word
 * (nearcpu/detail/blocks.h), and a transfer cache: an array of lists, and how many of its elements
 * are valid. Each operation commits by one store: to the list's word, or to the number of valid
 * lists. Nothing reads the elements beyond that number.
 *
 * Another thread of the same slot, a signal handler and a migration abort a sequence that they
 * interrupt. A thread that is not live, such as the child of a vfork, has the slot that is never
 * open, in which all words are 0. So does a slot that is not in use yet: 0 is a list that no
 * sequence changes.
 *
 * A thread that empties another slot (close.c) exchanges the list's word for NEAR__CLOSED_LIST,
 * which no sequence changes either, and issues a fence. A sequence that had loaded the word
 * before the exchange may commit until the fence. The word is then not the one that the closer
 * stored, and the closer takes the new word in the same way. After the fence no thread holds the
 * old word. Opening needs no fence, since it is one store: a sequence sees the word before or after
 * it. (Pairs of a list and its transfer cache: models/transfer.pml.)
 *
 * A pool has an array of objects instead, which need no links then: its position is closed and
 * opened as a list is.
 *
 * Where lists come from and go to, when a slot may have how many, and what threads without a slot
 * use is decided above: src/malloc/cache/, src/pool/. */
#ifndef NEARCPU_CACHE_H
#define NEARCPU_CACHE_H

#include "cache/list.h"

/* Addresses in the copy that all addresses are computed from. */
struct near__bin {
	struct near__entry *entry;
	uint32_t *number; /* of lists in the transfer cache, plus 1; 0: not in use yet */
	size_t array;     /* bytes from `number` to list -1 of the transfer cache */
};

/* The outcome of a sequence, as near_seq_result. REFUSED: a branch went to that label. */
enum near__tried { NEAR__ABORTED, NEAR__COMMITTED, NEAR__REFUSED };

/* bin.c. Each is one sequence on this thread's slot.
 * fill: makes `list` the slot's; REFUSED if that is not empty. */
enum near__tried near__bin_fill(const struct near__bin *b, uint64_t list);
/* Takes the slot's whole list; REFUSED if it is empty. ABORTED also if it is closed or unused. */
enum near__tried near__bin_take(const struct near__bin *b, uint64_t *list);
/* Puts the word of a list (near__space_waiting) into the transfer cache; REFUSED if it has `limit`
 * lists, or is closed or unused. */
enum near__tried near__bin_push_list(const struct near__bin *b, uint64_t word, uint64_t limit);
/* Takes the word that was put last; REFUSED if there is none, or the cache is closed or unused. The
 * transfer cache never has more than `most` lists. */
enum near__tried near__bin_pop_list(const struct near__bin *b, uint64_t *word, uint64_t most);
/* array.c. Of arrays: take the last 16 elements, put as many; REFUSED if there are fewer, if they
 * do not fit, or if the array is closed or unused. */
#define NEAR__ARRAY_MOVED 16
enum near__tried near__array_take16(struct near__array *array, uint64_t *out);
enum near__tried near__array_put16(struct near__array *array, const uint64_t *in);

/* Begins the use of a bin in a slot, whose words these are. No sequence changes a word that is 0,
 * so that any thread may begin it. */
void near__bin_begin(struct near__entry *own, uint32_t *number, uint8_t limit);

/* close.c: a bin or an array of one slot, whose content a thread takes. */
struct near__closing {
	uint64_t *word;   /* of the slot: the bin's list, or the array's position */
	uint32_t *number; /* of lists in the bin's transfer cache, plus 1; NULL: an array */
	uint64_t was;     /* then: what `word` */
	uint32_t lists;   /* and `number` were */
	bool closed;
};
#define NEAR__CLOSED_NUMBER UINT32_MAX
/* Closes n bins and arrays that are in use. Afterwards the caller owns what they had, until it
 * opens them. Returns how many fences that took. The caller excludes other closers. */
unsigned near__bins_close(struct near__closing *items, unsigned n);
/* Opens an empty one. What it had in arrays was read before. */
void near__bin_open_empty(const struct near__closing *item);

/* Adds `piece` to a slot's share of `all`, of which all slots together have *taken. False: there is
 * no such piece left. Relaxed: the sum is an upper limit alone, and orders nothing. */
static inline bool near__quota_take(uint64_t *taken, uint64_t all, uint64_t piece)
{
	uint64_t sum = __atomic_load_n(taken, __ATOMIC_RELAXED);

	do {
		if (sum + piece > all)
			return false;
	} while (!__atomic_compare_exchange_n(taken, &sum, sum + piece, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return true;
}

static inline void near__quota_return(uint64_t *taken, uint64_t piece)
{
	__atomic_fetch_sub(taken, piece, __ATOMIC_RELAXED);
}

#endif
