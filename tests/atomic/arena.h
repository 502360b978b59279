/* SPDX-License-Identifier: MIT */
/* Memory of the tests of libatomic, twice: operations change one copy, plain memcpy the other, and
 * both must be equal. Guard bytes are all bytes that an operation must not change. */
#ifndef NEARCPU_TESTS_ATOMIC_ARENA_H
#define NEARCPU_TESTS_ATOMIC_ARENA_H

#include <stddef.h>
#include <string.h>

#include "unit.h"

#define ARENA_LINE 64
#define ARENA_OFFSETS (2 * ARENA_LINE) /* an object begins at any of these */
#define ARENA_GUARD 128

struct arena {
	unsigned char *real, *model; /* both begin with a line, behind a guard */
	size_t size;
};

static inline unsigned char *arena_memory(size_t size)
{
	void *p = NULL;

	if (posix_memalign(&p, 4096, size + ARENA_GUARD))
		abort();
	return p;
}

/* For objects of n bytes at most, at any offset. Bytes are the same each time. */
static inline void arena_make(struct arena *a, size_t n)
{
	uint64_t state = n;

	a->size = ARENA_OFFSETS + n + ARENA_GUARD;
	a->real = arena_memory(a->size) + ARENA_GUARD;
	a->model = arena_memory(a->size) + ARENA_GUARD;
	for (size_t i = 0; i < a->size + ARENA_GUARD; i++)
		a->real[i - ARENA_GUARD] = (unsigned char)(unit_random(&state) >> 8);
	memcpy(a->model - ARENA_GUARD, a->real - ARENA_GUARD, a->size + ARENA_GUARD);
}

static inline void arena_free(struct arena *a)
{
	free(a->real - ARENA_GUARD);
	free(a->model - ARENA_GUARD);
}

/* Other bytes for the object at `at`, in both. */
static inline void arena_set(struct arena *a, size_t at, size_t n, const void *bytes)
{
	memcpy(a->real + at, bytes, n);
	memcpy(a->model + at, bytes, n);
}

static inline bool arena_right(const struct arena *a)
{
	return memcmp(a->real - ARENA_GUARD, a->model - ARENA_GUARD, a->size + ARENA_GUARD) == 0;
}

#endif
