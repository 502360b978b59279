/* SPDX-License-Identifier: MIT */
/* marks: what a program's madvise, mprotect and mlock leave on the pages of its blocks. They would
 * stay when the block is freed, and apply to the next block at that address: a forked child would
 * lack its pages (MADV_DONTFORK), or a store would be a fault. Such pages are recorded here, a bit
 * for each, and mapped afresh when they become free. While no page has a mark, that costs the
 * return of pages one load. */
#ifndef NEARCPU_MALLOC_MARKS_H
#define NEARCPU_MALLOC_MARKS_H

#include "malloc/base/heap.h"

/* 0: nothing is recorded. It is stored before the first bit is set: relaxed loads suffice, as the
 * thread that frees a block comes after those that marked it. */
extern uint32_t near__marks __attribute__((visibility("hidden")));

/* Before a call that leaves marks; on other memory than the heap it does nothing.
 * Async-signal-safe, as the calls are. Without memory for the bits nothing is recorded. */
void near__marks_set(const void *p, size_t size);

/* Requires that the pages are in no block. False: some could not be mapped afresh (a process can
 * have 65,530 mappings), and must not be used again. */
bool near__marks_clear(uint32_t first, uint32_t count);

/* Whether any of the pages has a mark. */
bool near__marks_has(uint32_t first, uint32_t count);

/* Whether any page of a block has a mark: it may be protected. */
bool near__marks_on(uint64_t block, size_t size);

/* Pages of a block moved to `to` with their marks (mremap). */
void near__marks_moved(uint32_t from, uint32_t to, uint32_t count);

#endif
