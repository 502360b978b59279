/* SPDX-License-Identifier: MIT */
/* What is behind all slots, by class: batches on their way from one slot to another, and spans.
 *
 * A span has a bit for each block that is here. Blocks are taken in the order of their addresses,
 * from the fullest span first, so that others become empty; a span that was never full is carved a
 * page at a time. A list of blocks is read and written outside of the lock, for that touches their
 * memory. */
#include <string.h>

#include "heap.h"

#define MAX_LIST 128
#define QUARTERS 4
#define TRANSFERS 16

struct span {
	uint32_t first;  /* granule */
	uint32_t number; /* of this descriptor */
	uint32_t next, previous;
	uint16_t here;   /* blocks that are here: bits that are set */
	uint16_t carved; /* blocks that ever left */
	uint8_t class;
	uint8_t quarter; /* the list that it is in, QUARTERS: none */
	uint64_t bits[];
};

struct central {
	struct near_lock lock;
	uint32_t lists[QUARTERS];   /* of spans with blocks here, by how many, the fewest first */
	uint32_t spare;             /* descriptors without a span */
	uint32_t transfers, fewest; /* since the last step of age */
	struct near__central_stats stats;
	uint64_t transfer[TRANSFERS];
} __attribute__((aligned(NEAR__CACHE_LINE)));

static struct central centrals[NEAR__SIZES + 1];

static struct span *span_at(uint32_t number)
{
	return near__meta_at(number);
}

static char *block_at(const struct span *s, unsigned i)
{
	return (char *)near__granule_at(s->first) + (size_t)i * near__sizes[s->class].size;
}

static unsigned index_around(const struct span *s, const char *p)
{
	size_t offset = (size_t)(p - (char *)near__granule_at(s->first));

	return (unsigned)((uint64_t)offset * near__sizes[s->class].reciprocal >> 32);
}

/* Which block of the span p is. Anything else stops the program. */
static unsigned index_of(const struct span *s, const char *p)
{
	unsigned i = index_around(s, p);

	if (block_at(s, i) != p)
		near__heap_die("free of a pointer into a block", p);
	return i;
}

void *near__central_block(const void *p)
{
	const struct span *s = span_at(near__heap.owner[near__granule_of(p)]);

	return block_at(s, index_around(s, p));
}

/* ---- lists of spans ---- */

static void leave_list(struct central *c, struct span *s)
{
	if (s->quarter == QUARTERS)
		return;
	*(s->previous ? &span_at(s->previous)->next : &c->lists[s->quarter]) = s->next;
	if (s->next)
		span_at(s->next)->previous = s->previous;
	s->quarter = QUARTERS;
}

/* Uncarved blocks count as here. */
static unsigned blocks_here(const struct span *s)
{
	return s->here + near__sizes[s->class].objects - s->carved;
}

static void enter_list(struct central *c, struct span *s)
{
	unsigned here = blocks_here(s), all = near__sizes[s->class].objects;
	unsigned quarter = here ? (here - 1) * QUARTERS / all : QUARTERS;

	if (quarter == s->quarter)
		return;
	leave_list(c, s);
	if (quarter == QUARTERS)
		return;
	s->quarter = (uint8_t)quarter;
	s->previous = 0;
	s->next = c->lists[quarter];
	if (s->next)
		span_at(s->next)->previous = s->number;
	c->lists[quarter] = s->number;
}

/* ---- taking ---- */

static struct span *new_descriptor(struct central *c, unsigned class)
{
	size_t words = (near__sizes[class].objects + 63u) / 64;
	uint32_t number;
	struct span *s;

	near_lock_lock(&c->lock);
	number = c->spare;
	if (number)
		c->spare = span_at(number)->next;
	near_lock_unlock(&c->lock);
	if (!number)
		number = near__meta_alloc(sizeof(*s) + words * 8);
	if (!number)
		return NULL;
	s = span_at(number);
	memset(s, 0, sizeof(*s) + words * 8);
	s->number = number;
	s->class = (uint8_t) class;
	s->quarter = QUARTERS;
	return s;
}

static void give_descriptor(struct central *c, struct span *s)
{
	s->next = c->spare;
	c->spare = s->number;
}

static bool add_span(struct central *c, unsigned class)
{
	struct span *s = new_descriptor(c, class);
	unsigned granules = near__sizes[class].granules;
	uint32_t first;
	bool zero;

	if (!s)
		return false;
	first = near__pages_alloc(granules, 1, &zero);
	near_lock_lock(&c->lock);
	if (first == NEAR__NONE) {
		give_descriptor(c, s);
	} else {
		s->first = first;
		for (unsigned g = 0; g < granules; g++) {
			near__heap.owner[first + g] = s->number;
			near__heap.kind[first + g] = (uint8_t) class;
		}
		c->stats.spans++;
		enter_list(c, s);
	}
	near_lock_unlock(&c->lock);
	return first != NEAR__NONE;
}

/* Blocks that were never used, no further than their page. */
static unsigned carve(struct span *s, char **blocks, unsigned n, unsigned wanted)
{
	const struct near__size *z = &near__sizes[s->class];
	uintptr_t page = UINTPTR_MAX;

	while (n < wanted && s->carved < z->objects) {
		char *p = block_at(s, s->carved);

		if (page != UINTPTR_MAX && (uintptr_t)(p + z->size - 1) >> 12 != page)
			break;
		page = (uintptr_t)(p + z->size - 1) >> 12;
		s->carved++;
		blocks[n++] = p;
	}
	return n;
}

static unsigned take_from(struct span *s, char **blocks, unsigned n, unsigned wanted)
{
	unsigned before = n;

	for (unsigned w = 0; s->here && n < wanted; w++)
		while (s->bits[w] && n < wanted) {
			blocks[n++] = block_at(s, w * 64 + (unsigned)__builtin_ctzll(s->bits[w]));
			s->bits[w] &= s->bits[w] - 1;
			s->here--;
		}
	return n > before ? n : carve(s, blocks, n, wanted);
}

static unsigned take_blocks(struct central *c, char **blocks, unsigned wanted)
{
	unsigned n = 0;

	for (unsigned q = 0; q < QUARTERS && n < wanted; q++)
		while (c->lists[q] && n < wanted) {
			struct span *s = span_at(c->lists[q]);
			unsigned had = n, carved = s->carved;

			n = take_from(s, blocks, n, wanted);
			c->stats.out += n - had;
			c->stats.carved += s->carved - carved;
			enter_list(c, s);
			if (n == had || s->carved < near__sizes[s->class].objects)
				return n;
			if (s->quarter == q && blocks_here(s))
				break;
		}
	return n;
}

static uint64_t make_list(char **blocks, unsigned n)
{
	uint64_t list = NEAR__EMPTY_LIST;

	for (unsigned i = n; i-- > 0;)
		near__list_put(&list, blocks[i]);
	return list;
}

/* A list of at most a batch; an empty one: no memory. */
uint64_t near__central_take(unsigned class)
{
	struct central *c = &centrals[class];
	char *blocks[MAX_LIST];
	uint64_t list = 0;
	unsigned n = 0;

	do {
		near_lock_lock(&c->lock);
		if (c->transfers) {
			list = c->transfer[--c->transfers];
			if (c->transfers < c->fewest)
				c->fewest = c->transfers;
		} else {
			n = take_blocks(c, blocks, near__sizes[class].batch);
		}
		c->stats.refills += list || n;
		near_lock_unlock(&c->lock);
	} while (!list && !n && add_span(c, class));
	near__age();
	return list ? list : make_list(blocks, n);
}

/* ---- giving ---- */

static void free_span(struct span *s)
{
	uint32_t first = s->first, granules = near__sizes[s->class].granules;

	near__pages_free(first, granules, true);
}

/* Sets the bits of the blocks. Returns a span that became empty, at most one; it is out of all
 * lists. */
static struct span *give_block(struct central *c, struct span *s, char *p)
{
	unsigned i = index_of(s, p);
	uint64_t bit = (uint64_t)1 << i % 64;

	if (s->bits[i / 64] & bit)
		near__heap_die("double free", p);
	s->bits[i / 64] |= bit;
	s->here++;
	c->stats.out--;
	enter_list(c, s);
	if (s->here < s->carved)
		return NULL;
	c->stats.spans--;
	c->stats.carved -= s->carved;
	leave_list(c, s);
	return s;
}

static void give_blocks(struct central *c, char **blocks, struct span **spans, unsigned n)
{
	struct span *empty[MAX_LIST];
	unsigned empties = 0;

	near_lock_lock(&c->lock);
	for (unsigned i = 0; i < n; i++) {
		struct span *s = give_block(c, spans[i], blocks[i]);

		if (s)
			empty[empties++] = s;
	}
	near_lock_unlock(&c->lock);
	for (unsigned i = 0; i < empties; i++)
		free_span(empty[i]);
	if (!empties)
		return;
	near_lock_lock(&c->lock);
	for (unsigned i = 0; i < empties; i++)
		give_descriptor(c, empty[i]);
	near_lock_unlock(&c->lock);
}

/* To the spans. */
static void give_list(struct central *c, uint64_t list)
{
	char *blocks[MAX_LIST];
	struct span *spans[MAX_LIST];
	unsigned n = 0;

	while (!near__list_is_empty(list)) {
		blocks[n] = near__list_take(&list);
		spans[n] = span_at(near__heap.owner[near__granule_of(blocks[n])]);
		if (++n == MAX_LIST || near__list_is_empty(list)) {
			give_blocks(c, blocks, spans, n);
			n = 0;
		}
	}
}

void near__central_give(unsigned class, uint64_t list)
{
	struct central *c = &centrals[class];
	bool kept = false;

	near_lock_lock(&c->lock);
	c->stats.spills++;
	if (c->transfers < TRANSFERS) {
		c->transfer[c->transfers++] = list;
		kept = true;
	}
	near_lock_unlock(&c->lock);
	if (!kept)
		give_list(c, list);
	near__age();
}

/* Gives the oldest of the waiting batches to the spans. */
static void give_transfers(struct central *c, bool all)
{
	uint64_t lists[TRANSFERS];
	unsigned n;

	near_lock_lock(&c->lock);
	n = all ? c->transfers : c->fewest;
	for (unsigned i = 0; i < n; i++)
		lists[i] = c->transfer[i];
	for (unsigned i = n; i < c->transfers; i++)
		c->transfer[i - n] = c->transfer[i];
	c->transfers -= n;
	c->fewest = c->transfers;
	near_lock_unlock(&c->lock);
	for (unsigned i = 0; i < n; i++)
		give_list(c, lists[i]);
}

/* Batches that nobody needed since the last step. */
void near__central_age(void)
{
	for (unsigned class = 1; class <= NEAR__SIZES; class ++)
		if (__atomic_load_n(&centrals[class].fewest, __ATOMIC_RELAXED))
			give_transfers(&centrals[class], false);
}

void near__central_trim(void)
{
	for (unsigned class = 1; class <= NEAR__SIZES; class ++)
		give_transfers(&centrals[class], true);
}

void near__central_stats(unsigned class, struct near__central_stats *out)
{
	struct central *c = &centrals[class];

	near_lock_lock(&c->lock);
	*out = c->stats;
	near_lock_unlock(&c->lock);
}

void near__central_fork(near__fork_step *step)
{
	for (unsigned c = 1; c <= NEAR__SIZES; c++)
		step(&centrals[c].lock);
}
