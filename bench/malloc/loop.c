/* SPDX-License-Identifier: MIT */
/* loop: the tutorial's, free(identity(malloc(i % 256))). */
#include "malloc/pattern.h"

__attribute__((noinline)) static void *identity(void *p)
{
	__asm__ volatile("" : "+r"(p)::"memory");
	return p;
}

/* The calls go through a register, whichever heap it is. */
static void plain(struct worker *w)
{
	void *(*alloc)(size_t n) = w->run->heap->alloc;
	void (*release)(void *p) = w->run->heap->release;

	for (uint64_t i = 0; i < w->rounds; i++)
		release(identity(alloc(i % 256)));
	w->countdown -= 2 * w->rounds;
}

static void loop_work(struct worker *w)
{
	if (!w->latency) {
		plain(w);
		return;
	}
	for (uint64_t i = 0; i < w->rounds; i++)
		w_free(w, identity(w_malloc(w, i % 256))); /* NOLINT: no leak */
}

PATTERN(loop, "loop", 40000000, loop_work);
