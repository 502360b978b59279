/* SPDX-License-Identifier: MIT */
/* The line that a program is stopped with. */
#include <stdlib.h>

#include "malloc/base/heap.h"
#include "malloc/base/out.h"

__attribute__((noreturn)) static void end(struct near__out *line, const char *text)
{
	near__out_print(line, "%s\n", text);
	near__out_end(line); /* there is no other place to report its error */
	abort();
}

void near__heap_die(const char *what, const void *p)
{
	struct near__out line;

	near__out_begin_fd(&line, 2);
	near__out_print(&line, "nearcpu-malloc: %s: %#lx", what, (uintptr_t)p);
	end(&line, "");
}

void near__heap_die_block(const char *what, const void *p, const struct near__origin *block)
{
	struct near__out line;

	near__out_begin_fd(&line, 2);
	near__out_print(&line, "nearcpu-malloc: %s: %#lx (%lu bytes, allocated by %#lx", what,
			(uintptr_t)p, block->size, (uintptr_t)block->allocated);
	if (block->freed)
		near__out_print(&line, ", freed by %#lx", (uintptr_t)block->freed);
	end(&line, ")");
}
