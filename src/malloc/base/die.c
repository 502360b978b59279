/* SPDX-License-Identifier: MIT */
/* The line that a program is stopped with. */
#include <stdlib.h>

#include "malloc/base/heap.h"
#include "malloc/base/text.h"

void near__heap_die(const char *what, const void *p)
{
	struct near__text line = {.fd = 2};

	near__text_add(&line, "nearcpu-malloc: ");
	near__text_add(&line, what);
	near__text_add(&line, ": ");
	near__text_hex(&line, (uintptr_t)p);
	near__text_add(&line, "\n");
	near__text_flush(&line); /* nothing is left to do where nobody reads it */
	abort();
}

void near__heap_die_block(const char *what, const void *p, const struct near__origin *block)
{
	struct near__text line = {.fd = 2};

	near__text_add(&line, "nearcpu-malloc: ");
	near__text_add(&line, what);
	near__text_add(&line, ": ");
	near__text_hex(&line, (uintptr_t)p);
	near__text_add(&line, " (");
	near__text_number(&line, block->size);
	near__text_add(&line, " bytes, allocated by ");
	near__text_hex(&line, (uintptr_t)block->allocated);
	if (block->freed) {
		near__text_add(&line, ", freed by ");
		near__text_hex(&line, (uintptr_t)block->freed);
	}
	near__text_add(&line, ")\n");
	near__text_flush(&line);
	abort();
}
