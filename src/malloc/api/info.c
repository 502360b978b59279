/* SPDX-License-Identifier: MIT */
/* mallinfo, malloc_stats and malloc_info, with glibc's meaning of the fields, as far as it fits:
 * the arena is the memory of small blocks and the free pages; large blocks count as glibc's blocks
 * by mmap; the fast bins are the caches of the slots. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "malloc/api/fast.h"
#include "malloc/diagnostics/malloc_stats.h"

struct summary {
	struct near_malloc_stats s;
	uint64_t arena, used, cached_blocks, free_blocks;
};

static void info_summarize(struct summary *sum)
{
	struct near_malloc_class_stats c;

	memset(sum, 0, sizeof(*sum));
	near_malloc_stats(&sum->s, sizeof(sum->s));
	sum->used = sum->s.in_use - sum->s.large;
	sum->arena = sum->used + sum->s.cached + sum->s.central + sum->s.free_dirty;
	for (unsigned n = 0; near_malloc_class_stats(n, &c, sizeof(c)) == 0; n++) {
		sum->cached_blocks += c.cached;
		sum->free_blocks += c.central;
	}
}

#if defined(__GLIBC__)

#define FILL(m, type)                                                                              \
	do {                                                                                       \
		struct summary sum;                                                                \
                                                                                                   \
		info_summarize(&sum);                                                              \
		memset(&(m), 0, sizeof(m));                                                        \
		(m).arena = (type)sum.arena;                                                       \
		(m).ordblks = (type)sum.free_blocks;                                               \
		(m).smblks = (type)sum.cached_blocks;                                              \
		(m).hblks = (type)sum.s.large_blocks;                                              \
		(m).hblkhd = (type)sum.s.large;                                                    \
		(m).fsmblks = (type)sum.s.cached;                                                  \
		(m).uordblks = (type)sum.used;                                                     \
		(m).fordblks = (type)(sum.arena - sum.used);                                       \
		(m).keepcost = (type)sum.s.free_dirty;                                             \
	} while (0)

/* Wraps, as glibc's does. */
NEAR__ENTRY struct mallinfo mallinfo(void)
{
	struct mallinfo m;

	FILL(m, int);
	return m;
}

/* mallinfo2. Headers before 2.33 do not declare it, but the program may run with a later glibc. */
struct info_wide {
	size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks;
	size_t keepcost;
};
NEAR__ENTRY struct info_wide near__mallinfo2(void) __asm__("mallinfo2");

struct info_wide near__mallinfo2(void)
{
	struct info_wide m;

	FILL(m, size_t);
	return m;
}

#endif

static void put_classes(struct near__out *o)
{
	struct near_malloc_class_stats c;

	near__out_print(o, "Classes:\n      size       misses       in use"
			   "       cached      central\n");
	for (unsigned n = 0; near_malloc_class_stats(n, &c, sizeof(c)) == 0; n++)
		if (c.misses || c.spans)
			near__out_print(o, "%10lu%13lu%13lu%13lu%13lu\n", c.size, c.misses,
					c.in_use, c.cached, c.central);
}

/* The first lines are those of glibc. */
NEAR__ENTRY void malloc_stats(void)
{
	struct summary sum;
	struct near__out o;

	info_summarize(&sum);
	near__out_begin_fd(&o, 2);
	near__out_print(&o,
			"Arena 0:\nsystem bytes     = %10lu\n"
			"in use bytes     = %10lu\n",
			sum.arena, sum.used);
	near__out_print(&o, "Total (incl. mmap):\nsystem bytes     = %10lu\n",
			sum.arena + sum.s.large);
	near__out_print(&o, "in use bytes     = %10lu\nlarge blocks     = %10lu\n", sum.s.in_use,
			sum.s.large_blocks);
	near__out_print(&o, "large bytes      = %10lu\ngiven back bytes = %10lu\n", sum.s.large,
			sum.s.given_back);
	put_classes(&o);
	near__out_end(&o);
}

static int write_stream(void *arg, const char *text, size_t size)
{
	return fwrite(text, 1, size, arg) == size ? 0 : -EIO;
}

/* As glibc: the sizes of free blocks, in caches and elsewhere. */
static void put_sizes(struct near__out *o)
{
	struct near_malloc_class_stats c;
	uint64_t before = 0;

	near__out_print(o, "<sizes>\n");
	for (unsigned n = 0; near_malloc_class_stats(n, &c, sizeof(c)) == 0; n++) {
		uint64_t count = c.cached + c.central;

		if (count)
			near__out_print(
				o,
				"  <size from=\"%lu\" to=\"%lu\" total=\"%lu\" count=\"%lu\"/>\n",
				before + 1, c.size, count * c.size, count);
		before = c.size;
	}
	near__out_print(o, "</sizes>\n");
}

static void info_total(struct near__out *o, const char *type, uint64_t count, uint64_t size)
{
	near__out_print(o, "<total type=\"%s\" count=\"%lu\" size=\"%lu\"/>\n", type, count, size);
}

static void info_space(struct near__out *o, const char *tag, const char *type, uint64_t size)
{
	near__out_print(o, "<%s type=\"%s\" size=\"%lu\"/>\n", tag, type, size);
}

static void put_totals(struct near__out *o, const struct summary *sum)
{
	info_total(o, "fast", sum->cached_blocks, sum->s.cached);
	info_total(o, "rest", sum->free_blocks, sum->s.central + sum->s.free_dirty);
}

static void put_spaces(struct near__out *o, const struct summary *sum, uint64_t size)
{
	info_space(o, "system", "current", size);
	info_space(o, "system", "max", size);
	info_space(o, "aspace", "total", sum->s.committed);
	info_space(o, "aspace", "mprotect", sum->s.committed);
}

NEAR__ENTRY int malloc_info(int options, FILE *fp)
{
	struct summary sum;
	struct near__out o;

	if (options)
		return EINVAL;
	info_summarize(&sum);
	near__out_begin(&o, write_stream, fp);
	near__out_print(&o, "<malloc version=\"1\">\n<heap nr=\"0\">\n");
	put_sizes(&o);
	put_totals(&o, &sum);
	put_spaces(&o, &sum, sum.arena);
	near__out_print(&o, "</heap>\n");
	put_totals(&o, &sum);
	info_total(&o, "mmap", sum.s.large_blocks, sum.s.large);
	put_spaces(&o, &sum, sum.arena + sum.s.large);
	near__out_print(&o, "</malloc>\n");
	near__out_end(&o);
	return 0;
}
