/* SPDX-License-Identifier: MIT */
/* The line that a program is stopped with. */
#include <stdlib.h>

#include "malloc/base/heap.h"
#include "malloc/base/out.h"

static void begin(struct near__out *line, const char *what, const void *p)
{
	near__out_begin_fd(line, 2);
	near__out_text(line, "nearcpu-malloc: ");
	near__out_text(line, what);
	near__out_text(line, ": ");
	near__out_hex(line, (uintptr_t)p);
}

__attribute__((noreturn)) static void end(struct near__out *line, const char *text)
{
	near__out_text(line, text);
	near__out_end(line); /* there is no other place to report its error */
	abort();
}

void near__heap_die(const char *what, const void *p)
{
	struct near__out line;

	begin(&line, what, p);
	end(&line, "\n");
}

void near__heap_die_block(const char *what, const void *p, const struct near__origin *block)
{
	struct near__out line;

	begin(&line, what, p);
	near__out_text(&line, " (");
	near__out_number(&line, block->size, 0);
	near__out_text(&line, " bytes, allocated by ");
	near__out_hex(&line, (uintptr_t)block->allocated);
	if (block->freed) {
		near__out_text(&line, ", freed by ");
		near__out_hex(&line, (uintptr_t)block->freed);
	}
	end(&line, ")\n");
}
