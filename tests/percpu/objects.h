/* SPDX-License-Identifier: MIT */
/* Objects of per-CPU memory, each with a counter at its start. */
#ifndef NEARCPU_TESTS_OBJECTS_OF_PERCPU_H
#define NEARCPU_TESTS_OBJECTS_OF_PERCPU_H

#include <nearcpu/counter.h>

#include "slots.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* After each test. */
static inline int leave_slot(void **state)
{
	slots_leave();
	return 0;
}

static inline void *allocate(size_t size, size_t align)
{
	void *p = NULL;
	int r;

	KEEPS_ERRNO(r = near_percpu_alloc(size, align, &p));
	/* 32 bits of addresses have no room for an arena of each size, for so many CPUs. */
	if (sizeof(p) == 4 && r == -ENOMEM)
		_exit(77);
	CHECK(r == 0);
	CHECK(p);
	return p;
}

static inline void release(void *p)
{
	KEEPS_ERRNO(near_percpu_free(p));
}

/* Adds to the copy of the slot that the thread is in. */
static inline void add(void *p, int64_t n)
{
	near_counter_add(&(struct near_counter){.p = p}, n);
}

static inline int64_t sum(void *p)
{
	return near_counter_read(&(struct near_counter){.p = p});
}

static inline void check_and_free(void *p, int64_t expected)
{
	CHECK(sum(p) == expected);
	release(p);
}

static inline unsigned long page_size(void)
{
	return (unsigned long)sysconf(_SC_PAGESIZE);
}

/* Pages of slot `slot` of p's arena that are there. */
static inline unsigned resident(const void *p, unsigned slot)
{
	char *base = near_percpu_at((void *)((uintptr_t)p & ~NEAR__ARENA_MASK), slot);
	static unsigned char pages[4096];
	size_t n = MIB / page_size();
	unsigned count = 0;

	CHECK(n <= sizeof(pages) && mincore(base, MIB, pages) == 0);
	for (size_t i = 0; i < n; i++)
		count += pages[i] & 1;
	return count;
}

#endif
