/* SPDX-License-Identifier: MIT */
/* Spans. Blocks are taken in the order of their addresses, first from the span that has the fewest,
 * so that all blocks of other spans can return; a span that was never full is carved a page at a
 * time. */
#include "base/bits.h"
#include "malloc/central/central.h"
#include "malloc/central/spans.h"
#include "malloc/pages/pages.h"

#include <string.h>

static struct near__span *span_at(uint32_t number)
{
	return near__meta_at(number);
}

/* ---- lists ---- */

static void leave_list(struct near__spans *all, struct near__span *s)
{
	if (s->quarter == NEAR__QUARTERS)
		return;
	if (all->cursor == s->number)
		all->cursor = s->next;
	*(s->previous ? &span_at(s->previous)->next : &all->lists[s->quarter]) = s->next;
	if (s->next)
		span_at(s->next)->previous = s->previous;
	s->quarter = NEAR__QUARTERS;
}

/* Uncarved blocks count as in the span. */
static unsigned blocks_here(const struct near__span *s)
{
	return s->here + near__sizes[s->class].objects - s->carved;
}

void near__spans_add(struct near__spans *all, struct near__span *s)
{
	unsigned here = blocks_here(s), objects = near__sizes[s->class].objects;
	unsigned quarter = here ? (here - 1) * NEAR__QUARTERS / objects : NEAR__QUARTERS;

	if (quarter == s->quarter)
		return;
	leave_list(all, s);
	if (quarter == NEAR__QUARTERS)
		return;
	s->quarter = (uint8_t)quarter;
	s->previous = 0;
	s->next = all->lists[quarter];
	if (s->next)
		span_at(s->next)->previous = s->number;
	all->lists[quarter] = s->number;
}

/* ---- taking ---- */

static char *block_at(const struct near__span *s, unsigned i)
{
	return (char *)near__page_at(s->first) + (size_t)i * near__sizes[s->class].size;
}

static uintptr_t last_page(const struct near__span *s, const char *p)
{
	return (uintptr_t)(p + near__sizes[s->class].size - 1) / NEAR__PAGE;
}

/* The page that a block begins in gets its tag when the first such block leaves the span. Until
 * then it has NEAR__REST: a pointer to a block there that was never allocated is refused. Later
 * blocks store nothing: threads that free the first one load the tag. */
static void tag_begin(const struct near__span *s, const char *p)
{
	unsigned tag = near__sizes[s->class].tag, step = tag != s->class;
	uint32_t page = near__page_of(p);

	if (near__heap.page_map[page] == NEAR__REST)
		near__set_tag(page, (uint8_t)(tag + (page - s->first) * step));
}

/* Blocks that were never used, up to the end of a page. */
static unsigned span_carve(struct near__span *s, char **blocks, unsigned wanted)
{
	unsigned n = 0, objects = near__sizes[s->class].objects;
	uintptr_t page = last_page(s, block_at(s, s->carved));

	while (n < wanted && s->carved < objects) {
		char *p = block_at(s, s->carved);

		if (last_page(s, p) != page)
			break;
		tag_begin(s, p);
		s->carved++;
		blocks[n++] = p;
	}
	return n;
}

/* near__refuse_freed reads them concurrently. */
static void set_bits(struct near__span *s, unsigned word, uint64_t bits)
{
	__atomic_store_n(&s->bits[word], bits, __ATOMIC_RELAXED);
}

static unsigned span_take_from(struct near__span *s, char **blocks, unsigned wanted)
{
	unsigned n = 0;

	wanted = wanted < s->here ? wanted : s->here;
	for (unsigned w = 0; n < wanted; w++) {
		uint64_t left = s->bits[w];

		for (; left && n < wanted; left &= left - 1)
			blocks[n++] = block_at(s, w * 64 + (unsigned)__builtin_ctzll(left));
		set_bits(s, w, left);
	}
	s->here = (uint16_t)(s->here - n);
	return n;
}

static unsigned most_to_carve(const struct near__span *s, unsigned wanted)
{
	return s->untouched && near__sizes[s->class].size >= NEAR__ALONE ? 1 : wanted;
}

/* Carves only if no other block is there. */
unsigned near__spans_take(struct near__spans *all, char **blocks, unsigned wanted, unsigned *fresh)
{
	unsigned n = 0, got;

	*fresh = 0;
	for (unsigned q = 0; q < NEAR__QUARTERS && n < wanted; q++)
		while (all->lists[q] && n < wanted) {
			struct near__span *s = span_at(all->lists[q]);

			got = span_take_from(s, blocks + n, wanted - n);
			if (!got && n)
				return n;
			if (!got) {
				got = *fresh = span_carve(s, blocks, most_to_carve(s, wanted));
				all->carved += got;
			}
			n += got;
			all->out += got;
			near__spans_add(all, s);
			if (s->carved < near__sizes[s->class].objects)
				return n;
		}
	return n;
}

struct near__span *near__spans_spare(struct near__spans *all)
{
	struct near__span *s = all->spare ? span_at(all->spare) : NULL;

	if (s)
		all->spare = s->next;
	return s;
}

void near__spans_keep(struct near__spans *all, struct near__span *s)
{
	s->next = all->spare;
	all->spare = s->number;
}

struct near__span *near__span_begin(struct near__span *s, unsigned class)
{
	size_t size = sizeof(*s) + near__bit_words(near__sizes[class].objects) * sizeof(uint64_t);
	uint32_t number = s ? s->number : near__meta_alloc(size);

	if (!number)
		return NULL;
	s = span_at(number);
	memset(s, 0, size);
	s->number = number;
	s->class = (uint8_t) class;
	s->quarter = NEAR__QUARTERS;
	return s;
}

void near__span_place(struct near__span *s, uint32_t first)
{
	s->first = first;
	for (unsigned g = 0; g < near__sizes[s->class].pages; g++)
		near__heap.owner[first + g] = s->number;
}

/* ---- giving ---- */

static unsigned index_around(const struct near__span *s, uint64_t offset)
{
	uint64_t in_span = offset - ((uint64_t)s->first << NEAR__PAGE_SHIFT);

	return (unsigned)(in_span * near__sizes[s->class].reciprocal >> 32);
}

uint64_t near__span_block(uint64_t offset)
{
	const struct near__span *s = span_at(near__heap.owner[offset >> NEAR__PAGE_SHIFT]);

	return ((uint64_t)s->first << NEAR__PAGE_SHIFT) +
	       (uint64_t)index_around(s, offset) * near__sizes[s->class].size;
}

static bool span_has(uint64_t block)
{
	const struct near__span *s = span_at(near__heap.owner[block >> NEAR__PAGE_SHIFT]);

	return NEAR__BIT_LOAD(s->bits, index_around(s, block), __ATOMIC_RELAXED);
}

/* Without the lock: the bit of a block in use is 0, and stays 0. */
void near__refuse_freed(unsigned class, uint64_t block)
{
	unsigned tag = near__heap.page_map[block >> NEAR__PAGE_SHIFT];

	if (near__class_of_tag(tag) != class || (!near__is_single(class) && span_has(block)))
		near__heap_misuse("double free", near__list_block(block));
}

/* Returns whether p is a block of the span that is not in it. Anything else is misuse. */
static bool span_give(struct near__span *s, const char *p)
{
	unsigned i = index_around(s, near__offset_of(p));

	if (block_at(s, i) != p || i >= s->carved) {
		near__heap_misuse("free of a pointer into a block", p);
		return false;
	}
	if (near__bit(s->bits, i)) {
		near__heap_misuse("double free", p);
		return false;
	}
	set_bits(s, i / 64, s->bits[i / 64] | near__bit_of(i));
	return true;
}

/* `n` blocks have returned to the span. */
static struct near__span *span_came_back(struct near__spans *all, struct near__span *s, unsigned n)
{
	s->here = (uint16_t)(s->here + n);
	all->out -= n;
	if (s->here < s->carved) {
		near__spans_add(all, s);
		return NULL;
	}
	all->count--;
	all->carved -= s->carved;
	leave_list(all, s);
	return s;
}

struct near__span *near__spans_give(struct near__spans *all, struct near__span *s,
				    char *const *blocks, unsigned n)
{
	unsigned came_back = 0;

	for (unsigned b = 0; b < n; b++)
		came_back += span_give(s, blocks[b]);
	return NEAR__LIKELY(came_back) ? span_came_back(all, s, came_back) : NULL;
}

void near__spans_free(struct near__span *const *spans, unsigned n)
{
	uint32_t firsts[NEAR__SPANS_AT_ONCE];

	for (unsigned i = 0; i < n; i++)
		firsts[i] = spans[i]->first;
	near__pages_free_runs(firsts, n, near__sizes[spans[0]->class].pages);
}

/* ---- pages of free blocks ---- */

void near__spans_begin(struct near__spans *all, unsigned quarter)
{
	all->cursor = all->lists[quarter];
}

struct near__span *near__spans_next(struct near__spans *all)
{
	struct near__span *s = all->cursor ? span_at(all->cursor) : NULL;

	if (s)
		all->cursor = s->next;
	return s;
}

void near__span_hold(struct near__spans *all, struct near__span *s, struct near__held *held)
{
	unsigned words = (unsigned)near__bit_words(near__sizes[s->class].objects);

	held->n = s->here;
	memcpy(held->bits, s->bits, words * sizeof(uint64_t));
	for (unsigned w = 0; w < words; w++)
		set_bits(s, w, 0);
	s->here = 0;
	all->out += held->n;
	near__spans_add(all, s);
}

/* A page of the system at that offset. Blocks that were never carved are not held: they may be
 * carved concurrently. */
static bool span_covers(const struct near__held *held, unsigned class, size_t offset)
{
	unsigned first = (unsigned)(offset / near__sizes[class].size);
	unsigned end = (unsigned)((offset + near__page_size() - 1) / near__sizes[class].size) + 1;

	end = end < near__sizes[class].objects ? end : near__sizes[class].objects;
	for (unsigned i = first; i < end; i++)
		if (!near__bit(held->bits, i))
			return false;
	return first < end;
}

size_t near__span_discard(struct near__span *s, const struct near__held *held)
{
	size_t size = (size_t)near__sizes[s->class].pages << NEAR__PAGE_SHIFT, all = 0;
	size_t page = near__page_size();
	char *p = near__page_at(s->first);

	for (size_t from = -(uintptr_t)p & (page - 1), to; from + page <= size; from = to) {
		to = from + page;
		if (!span_covers(held, s->class, from))
			continue;
		while (to + page <= size && span_covers(held, s->class, to))
			to += page;
		__atomic_store_n(&s->discarded, true, __ATOMIC_RELAXED); /* see spans.h */
		near__os_discard(p + from, to - from);
		all += to - from;
	}
	return all;
}

struct near__span *near__span_release(struct near__spans *all, struct near__span *s,
				      const struct near__held *held)
{
	for (unsigned w = 0; w < near__bit_words(near__sizes[s->class].objects); w++)
		set_bits(s, w, s->bits[w] | held->bits[w]);
	return span_came_back(all, s, held->n);
}
