/* SPDX-License-Identifier: MIT */
/* What the tests of the allocator share: the use of some blocks, and of all that there are. */
#ifndef NEARCPU_TESTS_MALLOC_USE_H
#define NEARCPU_TESTS_MALLOC_USE_H

#include <malloc.h>

#include "proc.h"
#include "unit.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)
#define GB ((size_t)1 << 30)
#define TB ((size_t)1 << 40)

/* Which musl's headers do not name. */
int malloc_trim(size_t pad);
void *pvalloc(size_t n);

/* Allocates, writes, resizes and frees blocks of all kinds up to `limit` bytes. */
static inline void use_some(size_t limit)
{
	for (size_t n = 1; n < limit; n = n * 3 + 1) {
		unsigned char *p = malloc(n), *q;

		CHECK(p);
		memset(p, 5, n);
		q = realloc(p, n * 2);
		CHECK(q && q[n - 1] == 5);
		free(q);
	}
}

/* A call that allocates returns NULL. */
#define CHECK_REFUSED(call)                                                                        \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK(!(call) && errno == ENOMEM);                                                 \
	} while (0)

/* A list of blocks: nothing else has room for it. */
struct chain {
	struct chain *next;
	size_t size; /* where the block is large enough */
};

/* Adds blocks until there is no memory. Returns their number. The compiler may not know a size that
 * has no room for all of the struct. */
__attribute__((noinline, unused)) static size_t chain_take_all(struct chain **list, size_t size)
{
	struct chain *p;
	size_t n = 0;

	errno = 0;
	for (; (p = malloc(size)); n++) {
		p->next = *list;
		if (size >= sizeof(*p))
			p->size = size;
		*list = p;
	}
	CHECK(errno == ENOMEM);
	return n;
}

/* `size` is that of all blocks, 0 if they differ. */
static inline void chain_free(struct chain *list, size_t size)
{
	while (list) {
		struct chain *next = list->next;

		CHECK(size < sizeof(*list) || list->size == size);
		free(list);
		list = next;
	}
}

/* How many bytes of this memory are present; 0 if that cannot be known. */
static inline size_t resident_bytes(void *p, size_t size)
{
	static unsigned char present[1 << 16];
	size_t n = 0, page = (size_t)sysconf(_SC_PAGESIZE);

	if (size / page > sizeof(present) || mincore(p, size, present))
		return 0;
	for (size_t i = 0; i < size / page; i++)
		n += present[i] & 1;
	return n * page;
}

#endif
