/* SPDX-License-Identifier: MIT */
/* Which ids of a space are free, and to which node they belong. */
#include <errno.h>

#include "idspace/idspace.h"

static unsigned words_of(unsigned ids)
{
	return (ids + 63) / 64;
}

size_t near__ids_bytes(unsigned ids, unsigned nodes)
{
	return (size_t)words_of(ids) * (nodes + 2) * sizeof(uint64_t);
}

/* The bits after the last id are set: they are never free. */
void near__ids_init(struct near__ids *b, void *memory, unsigned ids, unsigned nodes)
{
	*b = (struct near__ids){.ids = ids, .nodes = nodes, .words = words_of(ids)};
	b->used = memory;
	b->tied = b->used + b->words;
	if (ids % 64)
		b->used[b->words - 1] = ~UINT64_C(0) << ids % 64;
}

static uint64_t *tied_to(const struct near__ids *b, unsigned node)
{
	return b->tied + (size_t)node * b->words;
}

/* Of a word, the free ids of the node: or those without a node. */
static uint64_t own(const struct near__ids *b, unsigned node, unsigned word)
{
	return ~b->used[word] & tied_to(b, node)[word];
}

static uint64_t untied(const struct near__ids *b, unsigned word)
{
	return ~b->used[word] & ~tied_to(b, b->nodes)[word];
}

static int use(struct near__ids *b, unsigned word, uint64_t candidates)
{
	unsigned id = word * 64 + (unsigned)__builtin_ctzll(candidates);

	b->used[word] |= UINT64_C(1) << id % 64;
	if (id >= b->highest)
		b->highest = id + 1;
	return (int)id;
}

int near__ids_take(struct near__ids *b, unsigned node)
{
	for (unsigned i = 0; i < b->words; i++)
		if (own(b, node, i))
			return use(b, i, own(b, node, i));
	for (unsigned i = 0; i < b->words; i++) {
		uint64_t bit = untied(b, i) & -untied(b, i);

		tied_to(b, node)[i] |= bit;
		tied_to(b, b->nodes)[i] |= bit;
		if (bit)
			return use(b, i, bit);
	}
	return -EAGAIN;
}

int near__ids_take_foreign(struct near__ids *b)
{
	for (unsigned i = 0; i < b->words; i++)
		if (~b->used[i])
			return use(b, i, ~b->used[i]);
	return -EAGAIN;
}

bool near__ids_has_lower(const struct near__ids *b, unsigned node, unsigned id)
{
	for (unsigned i = 0; i * 64 < id; i++) {
		uint64_t free = own(b, node, i);

		if (free && i * 64 + (unsigned)__builtin_ctzll(free) < id)
			return true;
	}
	return false;
}

unsigned near__ids_node_of(const struct near__ids *b, unsigned id)
{
	unsigned node = 0;

	while (node + 1 < b->nodes && !(tied_to(b, node)[id / 64] >> id % 64 & 1))
		node++;
	return node;
}

void near__ids_put(struct near__ids *b, unsigned id)
{
	b->used[id / 64] &= ~(UINT64_C(1) << id % 64);
}

unsigned near__ids_count_used(const struct near__ids *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->words; i++)
		n += (unsigned)__builtin_popcountll(b->used[i]);
	return b->ids % 64 ? n - (64 - b->ids % 64) : n;
}
