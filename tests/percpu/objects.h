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

	KEEPS_ERRNO(CHECK(near_percpu_alloc(&p, size, align) == 0));
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

#endif
