/* SPDX-License-Identifier: MIT */
/* Large blocks: grown in place, moved with their pages, aligned, zero if the allocator reports so.
 * */
#include "use.h"

#define PAGE (4 * KB)

static void write_text(char *p, size_t from, size_t to, char text)
{
	for (size_t i = from; i < to; i += PAGE)
		p[i] = (char)(text + (char)(i / PAGE));
	p[to - 1] = text;
}

/* Without the last byte, if it was cut off. */
static void check_pages(const char *p, size_t size, char text)
{
	for (size_t i = 0; i < size; i += PAGE)
		if (i != size - 1)
			assert_int_equal(p[i], (char)(text + (char)(i / PAGE)));
}

static void check_text(const char *p, size_t size, char text)
{
	check_pages(p, size, text);
	assert_int_equal(p[size - 1], text);
}

static char *make(size_t size, char text)
{
	char *p = malloc(size);

	assert_non_null(p);
	write_text(p, 0, size, text);
	return p;
}

static char *resize(char *p, size_t had, size_t size, char text)
{
	char *q = realloc(p, size);

	assert_non_null(q);
	if (size >= had) {
		check_text(q, had, text);
		write_text(q, 0, size, text);
	}
	return q;
}

/* Free pages that a block does not fit into are returned, as the process would grow otherwise.
 * The first test: there are no others. */
static void new_pages_replace_free_ones(void **state)
{
	char *volatile first = make(16 * MB, 1);
	char *between = make(MB, 2), *larger;

	free(first);
	larger = make(24 * MB, 3);
	assert_true(resident_bytes(first, 16 * MB) < MB);
	free(between);
	free(larger);
}

static void grows_in_place_where_it_can(void **state)
{
	char *a = make(3 * MB, 1), *b = make(3 * MB, 2), *c = make(3 * MB, 3), *grown;

	/* Which of them are neighbours is the allocator's affair: these come from the same end. */
	if (b != a + 3 * MB || c != b + 3 * MB)
		fail_msg("blocks of the same size are no neighbours: %p %p %p", a, b, c);
	free(b);
	grown = resize(a, 3 * MB, 5 * MB, 1);
	assert_ptr_equal(grown, a);
	assert_true(malloc_usable_size(a) >= 5 * MB);
	check_text(c, 3 * MB, 3);
	/* No room for this: it moves. */
	grown = resize(grown, 5 * MB, 7 * MB, 1);
	assert_ptr_not_equal(grown, a);
	check_text(c, 3 * MB, 3);
	free(c);
	free(grown);
}

static void shrinks_in_place(void **state)
{
	char *a = make(8 * MB, 5), *b;
	uintptr_t was = (uintptr_t)a;

	b = realloc(a, 2 * MB);
	assert_int_equal((uintptr_t)b, was);
	check_pages(b, 2 * MB, 5);
	assert_in_range(malloc_usable_size(b), 2 * MB, 3 * MB);
	/* And to a small one. */
	b = realloc(b, 100);
	assert_non_null(b);
	assert_int_equal(b[0], 5);
	free(b);
}

/* What moved left pages behind that must not be taken for what they were. */
static void zero_is_zero(void **state)
{
	for (unsigned round = 0; round < 20; round++) {
		char *a = make(2 * MB, 7), *b = make(2 * MB, 8), *c;

		a = resize(a, 2 * MB, 6 * MB, 7);
		c = calloc(2, MB);
		assert_non_null(c);
		for (size_t i = 0; i < 2 * MB; i++)
			if (c[i])
				fail_msg("calloc has %d at %zu", c[i], i);
		memset(c, 9, 2 * MB);
		free(b);
		free(c);
		free(a);
	}
}

static unsigned count_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned n = 0;
	int c;

	assert_non_null(maps);
	while ((c = fgetc(maps)) != EOF)
		n += c == '\n';
	fclose(maps);
	return n;
}

static void make_and_move(int n, size_t size, size_t larger)
{
	char *blocks[24];

	for (int i = 0; i < n; i++)
		blocks[i] = make(size, (char)i);
	for (int i = 0; i < n; i++)
		blocks[i] = resize(blocks[i], size, larger, (char)i);
	for (int i = 0; i < n; i++)
		free(blocks[i]);
}

/* Blocks move, and what was there becomes one block, of several mappings, that moves too. */
static void moves_what_moves_have_left(void **state)
{
	unsigned before = count_maps(), rounds = unit_scale(60);

	while (rounds--) {
		make_and_move(24, MB, 2 * MB);
		make_and_move(6, 7 * MB, 9 * MB);
	}
	assert_true(count_maps() < before + 1000);
}

static void alignment_is_obeyed(void **state)
{
	for (size_t align = 16; align <= 64 * MB; align *= 4)
		for (size_t size = 1; size <= 3 * MB; size = size * 7 + 1) {
			char *p = memalign(align, size);

			assert_non_null(p);
			assert_int_equal((uintptr_t)p % align, 0);
			write_text(p, 0, size, 1);
			p = resize(p, size, size + 70000, 1);
			free(p);
		}
}

/* Pages in the middle of a long block have no tags, as free ones. */
static void a_trim_passes_over_long_blocks(void **state)
{
	char *p = make(64 * MB, 1), *q = make(64 * MB, 2);

	assert_true(malloc_trim(0) >= 0);
	free(p);
	malloc_trim(0);
	malloc_trim(0);
	check_text(q, 64 * MB, 2);
	for (size_t size = 32 * MB; size > 128 * KB; size /= 4) { /* of a long one, too */
		q = resize(q, 64 * MB, size, 2);
		malloc_trim(0);
		check_pages(q, size, 2);
	}
	free(q);
}

UNIT_MAIN_PINNED(new_pages_replace_free_ones, grows_in_place_where_it_can, shrinks_in_place,
		 zero_is_zero, moves_what_moves_have_left, alignment_is_obeyed,
		 a_trim_passes_over_long_blocks)
