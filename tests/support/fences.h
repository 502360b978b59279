/* SPDX-License-Identifier: MIT */
/* Counts the fences, which interrupt other CPUs. For programs linked with --wrap=near__fence. */
#ifndef NEARCPU_TESTS_FENCES_H
#define NEARCPU_TESTS_FENCES_H

static unsigned fences;
static void (*fence_hook)(void); /* called before the next fence, once */

void __real_near__fence(void);
void __wrap_near__fence(void);

void __wrap_near__fence(void)
{
	void (*hook)(void) = __atomic_exchange_n(&fence_hook, NULL, __ATOMIC_ACQ_REL);

	if (hook)
		hook();
	__atomic_add_fetch(&fences, 1, __ATOMIC_RELAXED);
	__real_near__fence();
}

/* How many since the last call. */
static inline unsigned fences_made(void)
{
	return __atomic_exchange_n(&fences, 0, __ATOMIC_RELAXED);
}

#endif
