/* SPDX-License-Identifier: MIT */
/* The functions of the drop-in malloc that glibc does not have: frees with a size, and the usable
 * size of a request. */
#include "stats.h"

#include <sys/mman.h>

#include "malloc/pages/pages.h"
#include "malloc/base/malloc_conf.h"
#include "malloc/base/heap.h"

void cfree(void *p);
void free_sized(void *p, size_t n);
void free_aligned_sized(void *p, size_t align, size_t n);
size_t nallocx(size_t n, int flags);
void sdallocx(void *p, size_t n, int flags);
size_t malloc_good_size(size_t n);

/* No compiler may know what a block is. */
static void *(*volatile get)(size_t) = malloc;
static void (*volatile put)(void *) = free;
static volatile size_t sizes[] = {0,    1,    8,     9,     16,    17,      100,    1024,
				  1025, 4097, 32768, 32769, 49152, 1000000, 5000000};

/* In the check mode the usable size of a block is the requested one. */
static bool is_checked(void)
{
	void *p = get(1);
	bool checked = malloc_usable_size(p) == 1;

	free(p);
	return checked;
}

/* A small heap has fewer classes, until the program calls malloc_good_size. */
static void a_size_becomes_what_is_usable_in_a_small_heap(void **state)
{
	static void *before[1101];
	bool checked = is_checked(), wider = false;

	for (size_t n = 1; n < LENGTH(before); n += 33)
		before[n] = get(n);
	assert_true(near__pages_used() <= 64);
	for (size_t n = 1; n < LENGTH(before); n++) {
		size_t size = nallocx(n, 0);
		void *p = get(n);

		assert_int_equal(malloc_usable_size(p), checked ? n : size);
		put(p);
		if (before[n] && !checked) {
			assert_true(malloc_usable_size(before[n]) >= size);
			wider = wider || malloc_usable_size(before[n]) > size;
		}
		put(before[n]);
	}
	assert_true(wider || checked); /* the heap was small */
	put(get(MB));
}

static void a_size_becomes_what_is_usable(void **state)
{
	for (size_t i = 0; i < LENGTH(sizes); i++) {
		void *p = get(sizes[i]);

		assert_true(nallocx(sizes[i], 0) >= sizes[i]);
		assert_int_equal(malloc_good_size(sizes[i]), nallocx(sizes[i], 0));
		assert_int_equal(malloc_usable_size(p),
				 is_checked() ? sizes[i] : nallocx(sizes[i], 0));
		free(p);
	}
}

static void an_aligned_size_becomes_what_is_usable(void **state)
{
	for (int log = 4; log < 18; log++)
		for (size_t i = 0; i < LENGTH(sizes); i++) {
			size_t align = (size_t)1 << log, n = sizes[i];
			size_t got = nallocx(n ? n : 1, log);
			void *p = NULL;

			assert_int_equal(posix_memalign(&p, align, n ? n : 1), 0);
			assert_true(got >= n);
			if (!is_checked())
				assert_true(got >= malloc_usable_size(p));
			free(p);
		}
}

static void too_much_becomes_nothing(void **state)
{
	static volatile size_t huge[] = {SIZE_MAX, SIZE_MAX - 100, (size_t)PTRDIFF_MAX + 1};

	for (size_t i = 0; i < LENGTH(huge); i++) {
		assert_int_equal(nallocx(huge[i], 0), 0);
		assert_int_equal(nallocx(huge[i], 12), 0);
		assert_int_equal(malloc_good_size(huge[i]), huge[i]);
	}
}

static void free_each_way(size_t n)
{
	void *p = NULL;

	free_sized(get(n), n);
	sdallocx(get(n), n, 0);
	sdallocx(get(n), nallocx(n, 0), 0);
	cfree(get(n));
	assert_int_equal(posix_memalign(&p, 256, n), 0);
	free_aligned_sized(p, 256, n);
}

/* In the check mode up to 16 MiB wait. */
static void sized_frees_free(void **state)
{
	uint64_t before = stats().in_use;

	for (size_t i = 0; i < LENGTH(sizes); i++)
		for (int round = 0; round < 50; round++)
			free_each_way(sizes[i]);
	assert_in_range(stats().in_use, 0, before + 20 * MB);
	free_sized(NULL, 8);
	free_aligned_sized(NULL, 64, 8);
	sdallocx(NULL, 8, 0);
	cfree(NULL);
}

#if defined(__GLIBC__)
static unsigned count_of(const volatile unsigned char *p, size_t n, int byte)
{
	unsigned count = 0;

	for (size_t i = 0; i < n; i++)
		count += p[i] == byte;
	return count;
}

/* The link of a free block takes 8 bytes. */
static void options_fill_blocks(void **state)
{
	volatile unsigned char *p;

	assert_int_equal(mallopt(M_PERTURB, 0x37), 1);
	if (is_checked()) /* which fills them its own way */
		skip();
	for (size_t i = 1; i < LENGTH(sizes); i++) {
		size_t n = sizes[i];

		p = get(n);
		assert_int_equal(count_of(p, n, 0xc8), n < 4 << 20 ? n : 4 << 20);
		put((void *)p);
		if (n <= 1024)
			assert_int_equal(count_of(p + 8, n < 8 ? 0 : n - 8, 0x37),
					 n < 8 ? 0 : n - 8);
		p = calloc(1, n);
		assert_int_equal(count_of(p, n, 0), n);
		memset((void *)p, 1, n);
		p = realloc((void *)p, 2 * n);
		assert_int_equal(count_of(p, n, 1), n);
		put((void *)p);
	}
	assert_int_equal(mallopt(M_PERTURB, 0), 1);
	p = calloc(1, 100);
	put((void *)p);
	assert_int_equal(count_of(p + 8, 92, 0), 92);
}

/* A block that the program has protected is not written to when it is freed, and the next one can
 * be. */
static void free_protected(void *protection)
{
	static const size_t protected[] = {256 << 10, 3 << 20};

	mallopt(M_PERTURB, 0x37);
	for (size_t i = 0; i < LENGTH(protected); i++)
		for (unsigned round = 0; round < 8; round++) {
			char *p = memalign(65536, protected[i]);

			CHECK(p && memset(p, 1, protected[i]));
			CHECK(mprotect(p, protected[i], *(int *)protection) == 0);
			free(p);
		}
}

static void blocks_are_freed_protected(void **state)
{
	unit_in_child(free_protected, &(int){PROT_READ});
	unit_in_child(free_protected, &(int){PROT_NONE});
}

void *_Znwm(size_t n);
void _ZdlPv(void *p);

/* The first one finds that the program has not replaced malloc. */
static void operators_have_the_limits_of_malloc(void **state)
{
	static void *(*volatile make)(size_t) = _Znwm; /* compilers remove unused calls */

	_ZdlPv(make(100));
	_ZdlPv(make(100));
	assert_int_equal(near__heap.new_limit, near__heap.cid_limit);
	assert_int_equal(near__heap.new_size, near__heap.cid_size);
}

static void options_keep_memory(void **state)
{
	uint64_t decay_ms = near__malloc_conf.decay_ms;

	near__malloc_conf.decay_ms = 0;
	assert_int_equal(mallopt(M_TRIM_THRESHOLD, -1), 1);
	free(memset(get(8 * MB), 1, 8 * MB));
	assert_int_equal(near__pages_purge(near__malloc_conf.decay_ms, SIZE_MAX), 0);
	assert_true(near__pages_purge(0, SIZE_MAX) > 0);
	near__malloc_conf.decay_ms = decay_ms;
}
#endif

#if defined(__GLIBC__)
UNIT_MAIN_PINNED(a_size_becomes_what_is_usable_in_a_small_heap, a_size_becomes_what_is_usable,
		 an_aligned_size_becomes_what_is_usable, too_much_becomes_nothing, sized_frees_free,
		 options_fill_blocks, blocks_are_freed_protected,
		 operators_have_the_limits_of_malloc, options_keep_memory)
#else
UNIT_MAIN(a_size_becomes_what_is_usable_in_a_small_heap, a_size_becomes_what_is_usable,
	  an_aligned_size_becomes_what_is_usable, too_much_becomes_nothing, sized_frees_free)
#endif
