/* SPDX-License-Identifier: MIT */
/* Faults of a program, and attacks that make it write to the heap, are stopped: forged links,
 * pointers into blocks, blocks freed twice. And malloc_trim returns pages of free blocks to the
 * system. */
#include "use.h"

#include "attacks.h"
#include "malloc/cache/plain.h"
#include "malloc/pages/pages.h"
#include "malloc/api/fast.h"

/* ---- links ---- */

static const uint64_t offsets[] = {0,          8,          16,           4096,
				   0xfffffff8, 1ull << 43, 0xabcdef1230, (1ull << 44) - 8};

/* near__link, but there is no block to read a length from. */
static uint64_t link_to(uint64_t list, uint64_t rest)
{
	return (list ^ rest ^ near__heap.key) << 8 | 255;
}

static bool leads_to_a_block(uint64_t list, uint64_t word)
{
	return near__unlink(list, word) >> NEAR__OFFSET_BITS == 0;
}

static bool decodes(uint64_t word)
{
	bool any = false;

	for (unsigned i = 0; i < LENGTH(offsets); i++)
		any |= leads_to_a_block(offsets[i], word);
	return any;
}

/* With the keys at both ends of what is random, so that it is no matter of chance. */
static unsigned words_that_decode(void)
{
	static const char text[] = "Any text, ~~~~~~~~";
	unsigned n = 0;
	uint64_t word;

	for (unsigned bit = 0; bit < 62; bit++) {
		word = (uint64_t)1 << bit;
		n += decodes(word) + decodes(word - 1) + decodes(-word) + decodes(~word);
	}
	for (uint64_t top = 0; top < 128; top++) /* addresses of up to 57 bits */
		n += decodes(top << 50) + decodes((top << 50) + 0x7f1234567890);
	for (size_t i = 0; i + 8 <= sizeof(text); i++) {
		memcpy(&word, text + i, sizeof(word));
		n += decodes(word);
	}
	return n;
}

static void what_programs_write_is_no_link(void **state)
{
	const uint64_t key = near__heap.key,
		       keys[] = {NEAR__KEY((uint64_t)0), NEAR__KEY(~0ull), key};
	unsigned n = 0, broken = 0;

	/* Nothing is allocated in between. */
	for (unsigned i = 0; i < LENGTH(keys); i++) {
		near__heap.key = keys[i];
		n += words_that_decode();
		for (unsigned k = 0; k < LENGTH(offsets); k++)
			broken += near__unlink(offsets[k], link_to(offsets[k], offsets[i])) !=
				  offsets[i];
	}
	near__heap.key = key;
	assert_int_equal(n, 0);
	assert_int_equal(broken, 0);
}

/* The word that a freed block begins with. */
static uint64_t link_of(size_t size)
{
	volatile uint64_t *p = malloc(size);

	free((void *)p);
	return *p;
}

static void print_link(void *unused)
{
	execl("/proc/self/exe", "malloc_hardened_test", "--link", (char *)NULL);
	_exit(1);
}

static uint64_t link_in_another_process(void)
{
	char text[64];

	assert_int_equal(unit_capture(print_link, NULL, text, sizeof(text), NULL), 0);
	assert_int_not_equal(text[0], '\0');
	return strtoull(text, NULL, 16);
}

/* Where the blocks are in the heap may be the same. The upper bits are enough. */
static void the_key_is_new_in_each_process(void **state)
{
	uint64_t a, b;

	if (unit_emulated())
		skip(); /* the kernel would not run the program */
	a = link_in_another_process();
	b = link_in_another_process();
	assert_true(a >> 44 != b >> 44 || link_in_another_process() >> 44 != a >> 44);
}

static void a_link_belongs_to_its_block(void **state)
{
	volatile uint64_t *p = malloc(520), *q = malloc(520);
	uint64_t link;

	free((void *)p);
	link = *p;
	assert_ptr_equal((void *)malloc(520), (void *)p);
	free((void *)q);
	assert_true(*q != link); /* of the same list */
	free((void *)p);
}

UNIT_CALLS(nothing, NULL)

static uint64_t key_of_parent;

static void compare_key(void *unused)
{
	CHECK(near__heap.key == key_of_parent);
	free(malloc(520));
}

static void a_child_keeps_the_key(void **state)
{
	key_of_parent = near__heap.key;
	unit_in_child(compare_key, NULL);
	unit_in_child(nothing, NULL);
}

/* One write of 8 bytes to a freed block made malloc return an address of the writer's choice. */
static void forge(void *unused)
{
	static uint64_t *volatile p, *volatile target;
	void *q;

	target = malloc(520);
	p = malloc(520);
	free((void *)p);
	target[2] = OLD_MARK + NEAR__EMPTY_LIST;
	p[0] = OLD_MARK + near__offset_of((void *)&target[2]);
	q = malloc(520);
	q = malloc(520);
	CHECK(q != (void *)&target[2]);
}

static void links_cannot_be_forged(void **state)
{
	char text[256];
	int signal = 0;

	assert_int_equal(unit_capture(forge, NULL, text, sizeof(text), &signal), -1);
	assert_int_equal(signal, SIGABRT);
	assert_non_null(strstr(text, "write to a freed block"));
}

/* The first byte of a freed block is the length of a list. */
static void a_wrong_length_leads_to_no_other_block(void **state)
{
	static unsigned char *volatile blocks[1000];

	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < LENGTH(blocks); i++) {
			blocks[i] = malloc(100);
			memset(blocks[i], (int)(i % 251), 100);
		}
		for (unsigned i = 0; i < LENGTH(blocks); i++) {
			for (unsigned k = 0; k < 100; k++)
				assert_int_equal(blocks[i][k], i % 251);
			free(blocks[i]);
			blocks[i][0] = 0;
		}
	}
}

/* The first block of a class in this process is also the first of its span. */
static void free_the_next(void *size)
{
	char *volatile p = malloc(*(const size_t *)size);

	free(p + malloc_usable_size(p));
}

static void a_block_that_never_was_is_refused(void **state)
{
	const size_t sizes[] = {5000, 7000, 10000, 14000};
	char text[256];
	int signal = 0;

	for (size_t i = 0; i < LENGTH(sizes); i++) {
		size_t size = sizes[i];

		assert_int_equal(unit_capture(free_the_next, &size, text, sizeof(text), &signal),
				 -1);
		assert_int_equal(signal, SIGABRT);
		assert_non_null(strstr(text, "free of a pointer into a block"));
	}
}

/* ---- where blocks begin ---- */

static bool begins(const char *p)
{
	unsigned class;

	return near__begins(near__heap.page_map[near__page_of(p)], near__offset_of(p), &class);
}

static void only_blocks_begin(void **state)
{
	for (unsigned c = 1; c <= NEAR__SIZES; c++) {
		size_t size = near__sizes[c].size;
		char *p = near__plain_alloc(1, size, &(bool){false});

		if (near__plain_size(near__place_of(p)) !=
		    size) { /* a small heap has few classes */
			free(p);
			continue;
		}
		assert_true(begins(p));
		for (size_t inside = 1; inside < size; inside++)
			if (begins(p + inside))
				fail_msg("%zu bytes, %zu inside", size, inside);
		free(p);
	}
}

/* ---- attacks ---- */

static void attacks_of_all_kinds(void **state)
{
	struct attack_counts counts = {0};

	attacks_run_all(&counts);
	print_message("%u stopped, %u crashed, %u harmless\n", counts.n[ATTACK_STOPPED],
		      counts.n[ATTACK_CRASHED], counts.n[ATTACK_HARMLESS]);
	assert_int_equal(counts.n[ATTACK_OVERLAP] + counts.n[ATTACK_ARBITRARY], 0);
	assert_int_equal(counts.required_missed, 0);
	assert_true(counts.required > 0);
}

/* ---- malloc_trim ---- */

#define MANY 3200u
#define KEPT 16u

static unsigned char *many[MANY];

static size_t resident(void)
{
	return resident_bytes((void *)near__heap.base, (size_t)near__pages_used()
							       << NEAR__PAGE_SHIFT);
}

/* Allocates those that are missing, and writes to all. */
static void fill_many(void)
{
	for (unsigned i = 0; i < MANY; i++) {
		if (!many[i])
			many[i] = malloc(1000);
		memset(many[i], (int)(i % 251), 1000);
	}
}

static void check_many(unsigned step)
{
	for (unsigned i = 0; i < MANY; i += step)
		for (unsigned k = 0; k < 1000; k++)
			assert_int_equal(many[i][k], i % 251);
}

/* Of 16 blocks of 1,000 bytes one is in use: of four pages three can go. */
static void pages_of_free_blocks_go_back(void **state)
{
	size_t before, after;

	if (unit_emulated() || near__heap.nodes > 1 || sysconf(_SC_PAGESIZE) > 4096)
		skip(); /* its own idea of what is present; gaps; pages larger than a block's run */
	fill_many();
	before = resident();
	for (unsigned i = 0; i < MANY; i++)
		if (i % KEPT) {
			free(many[i]);
			many[i] = NULL;
		}
	assert_int_equal(malloc_trim(0), 1);
	after = resident();
	assert_true(before > 3000000 && after > 0);
	assert_true(before - after >= 3000000 / 2);
	check_many(KEPT);
	fill_many();
	check_many(1);
	for (unsigned i = 0; i < MANY; i++)
		free(many[i]);
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--link") == 0) {
		fprintf(stderr, "%llx\n", (unsigned long long)link_of(520));
		return 0;
	}
	unit_pin(0, NULL); /* the slot, and the node, stay the same */
	free(malloc(1));   /* the heap begins */
	return UNIT_TESTS(what_programs_write_is_no_link, the_key_is_new_in_each_process,
			  a_link_belongs_to_its_block, a_child_keeps_the_key,
			  links_cannot_be_forged, a_wrong_length_leads_to_no_other_block,
			  a_block_that_never_was_is_refused, pages_of_free_blocks_go_back,
			  only_blocks_begin, attacks_of_all_kinds);
}
