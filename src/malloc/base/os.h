/* SPDX-License-Identifier: MIT */
/* os: address space, time, random numbers. All of it leaves errno alone. */
#ifndef NEARCPU_MALLOC_OS_H
#define NEARCPU_MALLOC_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The heap's unit, on all systems; the system's page is near__page_size(). Ranges are committed,
 * returned and moved by whole pages of the system. */
#define NEAR__PAGE ((size_t)4096)

/* Memory that is committed from the base on, as far as it is used. */
struct near__range {
	char *base;
	size_t size, committed;
	size_t piece; /* committed without a gap from here on */
	int node;     /* the preferred node of its memory, -1: any */
	bool down;    /* it ends at the base, and grows downwards */
};

/* `size` bytes of address space for ranges, at a random address in a part in which the kernel maps
 * nothing by itself. Other code may map there at addresses of its choice. NULL: there is no such
 * gap. */
char *near__os_find_gap(size_t size);
/* The same in a part that never overlaps with the former: for a second heap. */
char *near__os_find_lower_gap(size_t size);
/* The same if that fails: reserved, at an address that the kernel chooses. All ranges are in the
 * space that was returned last. */
char *near__os_reserve(size_t size);

/* Makes the first `size` bytes usable; new ones are zero. OCCUPIED: other code has mapped a part of
 * them, or a part of the first step of a piece. */
enum near__commit { NEAR__USABLE, NEAR__NO_MEMORY, NEAR__OCCUPIED };
enum near__commit near__range_commit(struct near__range *r, size_t size);
/* Makes as many of them usable as there are in front of the first page that other code has mapped.
 */
void near__range_fill(struct near__range *r, size_t size);
/* Returns the address space beyond `committed`, which nothing was written to. */
void near__range_cut(struct near__range *r, size_t committed);

/* Memory that is zero; NULL: none. */
void *near__os_map(size_t size);
void near__os_release(void *p, size_t size);
/* Whether the page is in memory. */
bool near__os_is_resident(const void *p);
/* Whether the kernel makes huge pages of areas that are partly in use, and so makes pages resident
 * again that were returned. */
bool near__os_huge_pages_come(void);
void near__os_no_huge_pages(void *p, size_t size);
/* Maps committed pages afresh: they are zero, and have no attributes but this node's policy (-1:
 * none). False: they could not be mapped, and are as they were. */
bool near__os_renew(void *p, size_t size, int node);

/* Returns the memory to the system, in whole pages that are not locked; it is zero from then
 * on. */
void near__os_discard(void *p, size_t size);

/* Gets the system's pages in which it is by one system call instead of a page fault for each, if
 * the system can. */
void near__os_populate(void *p, size_t size);

/* Moves whole pages of the system to another address. Requires that it is committed, and zero. The
 * old pages are zero then. The new ones get this node's policy (-1: none). NOT_MOVED: the
 * first word at `to` may have changed. LOST: the move failed, and the pages at `to` are not mapped,
 * or other code's. */
enum near__moved { NEAR__MOVED, NEAR__NOT_MOVED, NEAR__MOVE_LOST };
enum near__moved near__os_move(void *to, void *from, size_t size, int node);

/* Copies the words at these addresses, by a system call: where a load would be a fault, the word in
 * `to` stays as it is. So do all words if the system forbids the call. */
#define NEAR__PEEKED 64u /* words, at most */
void near__os_peek(uint64_t *to, uint64_t *const *from, unsigned n);

/* Monotonic, a few ms coarse. */
uint64_t near__os_ms(void);

/* A number that is secret to the process. It reveals nothing about other such numbers, nor about
 * the kernel's bytes in AT_RANDOM. One system call; may be called at any time. */
uint64_t near__os_random(void);

/* random.c: the same without getrandom; and a pseudorandom function of `n` words. */
uint64_t near__hashed_random(void);
uint64_t near__siphash(const uint64_t key[2], const uint64_t *words, size_t n);

#endif
