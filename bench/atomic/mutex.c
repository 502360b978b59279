/* SPDX-License-Identifier: MIT */
/* What a program does without such a library: a plain struct, and a pthread_mutex for each object.
 * This is less than such a library does, as each object has its own lock. */
#include "atomic/library.h"

#include "locks/window.h"

#include <pthread.h>
#include <stdlib.h>

static struct own_mutex {
	pthread_mutex_t mutex __attribute__((aligned(LINE)));
} * mutexes;

static uintptr_t first_object, shift_of;

void library_set_mutexes(const void *first, unsigned shift, unsigned count)
{
	free(mutexes);
	mutexes = aligned_alloc(LINE, count * sizeof(*mutexes));
	if (!mutexes)
		window_give_up("error", "not enough memory");
	for (unsigned i = 0; i < count; i++)
		pthread_mutex_init(&mutexes[i].mutex, NULL);
	first_object = (uintptr_t)first;
	shift_of = count > 1 ? shift : sizeof(uintptr_t) * 8 - 1;
}

#define LOCK pthread_mutex_t

static inline LOCK *lock_of(const void *p)
{
	return &mutexes[((uintptr_t)p - first_object) >> shift_of].mutex;
}

#define take pthread_mutex_lock
#define release pthread_mutex_unlock
#define NAME(f) mutex_##f
#define IS_FREE(type, p) (sizeof(type) == 0)
#include "atomic/locked.h"

const struct library library_mutex = LIBRARY_OF(mutex);
