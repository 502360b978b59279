/* SPDX-License-Identifier: MIT */
/* The sequences of nearcpu/detail/blocks.h and of src/cache/array.c, on nodes of the stack: a slot
 * has a list of them and an array. Where there is no slot, a node goes to the stack. */
#include <nearcpu/detail/blocks.h>

#include "cache/cache.h"
#include "objects.h"
#include "percpu/gate.h"
#include "percpu/percpu.h"

#define KEY NEAR__KEY(UINT64_C(0x3b8e27c15f90ad46))
#define BASE ((uintptr_t)OBJ.zeros)
#define LIMIT ((uintptr_t)(OBJ.nodes + OPS_NODES) - BASE)

static bool by_cid(void)
{
	return near__process.index_mode == 0;
}

#define OUT_OF_LINE __attribute__((noinline)) static

OUT_OF_LINE bool push(struct near_stack_node *node)
{
	return near__block_push(&OBJ.blocks->entry, BASE, KEY, node, (uintptr_t)node - BASE);
}

OUT_OF_LINE bool push_by_cid(struct near_stack_node *node)
{
	return by_cid() ? near__block_push_by_cid(&OBJ.blocks->entry, BASE, KEY, node,
						  (uintptr_t)node - BASE)
			: push(node);
}

OUT_OF_LINE bool pop(void **node)
{
	return near__block_pop(&OBJ.blocks->entry, BASE, KEY, LIMIT, node);
}

OUT_OF_LINE bool pop_by_cid(void **node)
{
	return by_cid() ? near__block_pop_by_cid(&OBJ.blocks->entry, BASE, KEY, LIMIT, node)
			: pop(node);
}

OUT_OF_LINE bool push_word(struct near_stack_node *node)
{
	return near__array_push(&OBJ.blocks->array, (uintptr_t)node);
}

OUT_OF_LINE bool pop_word(void **node)
{
	uint64_t word;

	if (!near__array_pop(&OBJ.blocks->array, &word))
		return false;
	*node = (void *)(uintptr_t)word;
	return true;
}

/* Makes the slot ready; no sequence changes words that are 0. NULL: there is none. */
static struct ops_blocks *open_own(void)
{
	uint32_t slot = near__slot_open(OBJ.blocks);
	uint64_t unused = NEAR__UNUSED_LIST;
	struct ops_blocks *own;

	if (slot == NEAR__NO_SLOT)
		return NULL;
	own = near_percpu_at(OBJ.blocks, slot);
	own->entry.limit = OPS_LIST;
	own->array.end = NEAR__EMPTY_LIST + sizeof(own->words);
	__atomic_compare_exchange_n(&own->entry.list, &unused, NEAR__EMPTY_LIST, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	unused = NEAR__UNUSED_LIST;
	__atomic_compare_exchange_n(&own->array.position, &unused, NEAR__EMPTY_LIST, false,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return own;
}

void blocks_enter(void)
{
	open_own();
}

static bool has_room(const struct ops_blocks *own, bool is_list)
{
	uint64_t list = own->entry.list;

	if (is_list)
		return list >= NEAR__EMPTY_LIST &&
		       *(uint8_t *)(uintptr_t)(BASE + list) < own->entry.limit;
	return own->array.position >= NEAR__EMPTY_LIST && own->array.position < own->array.end;
}

/* What was full may no longer be when the push is tried again, and the reverse. */
static void put_node(struct near_stack_node *node, bool (*how)(struct near_stack_node *node))
{
	struct ops_blocks *own;

	for (int i = 0; i < NEAR_SEQ_TRIES; i++)
		if (how(node))
			return;
		else if (!(own = open_own()) || (i && !has_room(own, how != push_word)))
			break;
	call_push(node);
}

static bool move16(uint64_t *words,
		   enum near__tried (*how)(struct near__array *array, uint64_t *words))
{
	enum near__tried tried = NEAR__ABORTED;

	for (int i = 0; i < NEAR_SEQ_TRIES && tried == NEAR__ABORTED && open_own(); i++)
		tried = how(&OBJ.blocks->array, words);
	return tried == NEAR__COMMITTED;
}

static enum near__tried put16(struct near__array *array, uint64_t *words)
{
	return near__array_put16(array, words);
}

void blocks_fill(void)
{
	uint64_t words[OPS_MOVED];

	for (unsigned i = 0; i < OPS_MOVED; i++)
		words[i] = (uintptr_t)&OBJ.nodes[OPS_FIRST_MOVED + i];
	OBJ.moved_stay = !move16(words, put16);
	put_node(&OBJ.nodes[OPS_NODES - 2], push);
	put_node(&OBJ.nodes[OPS_NODES - 1], push_word);
}

static void take_node(struct actor *me, bool (*how)(void **node), bool is_list)
{
	void *node = NULL;

	for (int i = 0; i < NEAR_SEQ_TRIES && !how(&node); i++) {
		struct ops_blocks *own = open_own();

		node = NULL;
		if (!own || (is_list ? own->entry.list : own->array.position) <= NEAR__EMPTY_LIST)
			break;
	}
	node_result(me, node);
}

void block_push(struct actor *me)
{
	put_node(own_node(me), push);
}

void block_push_by_cid(struct actor *me)
{
	put_node(own_node(me), push_by_cid);
}

void block_pop(struct actor *me)
{
	take_node(me, pop, true);
}

void block_pop_by_cid(struct actor *me)
{
	take_node(me, pop_by_cid, true);
}

/* A push refuses the block that the list begins with. A thread that has moved since puts it onto
 * another slot's list, and takes it off again. */
static void push_first(bool (*how)(struct near_stack_node *node))
{
	struct ops_blocks *own = open_own();
	uint64_t *block, link;
	void *popped;

	if (!own || own->entry.list <= NEAR__EMPTY_LIST)
		return;
	block = (uint64_t *)(uintptr_t)(BASE + own->entry.list);
	link = *block;
	if (how((struct near_stack_node *)block)) {
		pop(&popped);
		*block = link;
	}
}

void block_push_again(struct actor *me)
{
	push_first(push);
	push_first(push_by_cid);
}

void array_push(struct actor *me)
{
	put_node(own_node(me), push_word);
}

void array_pop(struct actor *me)
{
	take_node(me, pop_word, false);
}

static void words_result(struct actor *me, const uint64_t *words, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		node_result(me, (void *)(uintptr_t)words[i]);
}

void array_take16(struct actor *me)
{
	uint64_t words[OPS_MOVED];

	if (move16(words, near__array_take16))
		words_result(me, words, OPS_MOVED);
}

/* What it cannot put back, it keeps. They fit exactly, unless another operation pushes one, too. */
void array_put16(struct actor *me)
{
	uint64_t words[OPS_MOVED];
	bool took = move16(words, near__array_take16);

	array_push(me);
	if (took && !move16(words, put16))
		words_result(me, words, OPS_MOVED);
}

/* The arrays of all slots, which stay closed. */
void array_close(struct actor *me)
{
	near__gates_lock();
	for (unsigned s = 0; near_percpu_next(OBJ.blocks, &s); s++) {
		struct ops_blocks *b = near_percpu_at(OBJ.blocks, s);
		struct near__closing item = {.word = &b->array.position};

		if (b->array.position <= NEAR__CLOSED_LIST)
			continue;
		near__bins_close(&item, 1);
		b->was = item.was;
	}
	near__gates_unlock();
}

/* ---- what is in them ---- */

static bool mark(unsigned char *seen, uintptr_t node)
{
	uintptr_t i = (node - (uintptr_t)OBJ.nodes) / sizeof(*OBJ.nodes);

	return i < OPS_NODES && seen[i]++ == 0;
}

static bool mark_array(const struct ops_blocks *b, unsigned char *seen)
{
	uint64_t end = b->was ? b->was : b->array.position;

	if ((b->was && b->array.position != NEAR__CLOSED_LIST) || end > b->array.end)
		return false;
	for (uint64_t i = NEAR__EMPTY_LIST; i < end; i += sizeof(uint64_t))
		if (!mark(seen, b->words[(i - NEAR__EMPTY_LIST) / sizeof(uint64_t)]))
			return false;
	return true;
}

bool blocks_mark(unsigned char *seen)
{
	for (unsigned i = 0; i < OPS_MOVED && OBJ.moved_stay; i++)
		seen[OPS_FIRST_MOVED + i]++;
	for (unsigned s = 0; near_percpu_next(OBJ.blocks, &s); s++) {
		const struct ops_blocks *b = near_percpu_at(OBJ.blocks, s);

		for (uint64_t list = b->entry.list; list > NEAR__EMPTY_LIST;) {
			uint64_t link = *(const uint64_t *)(uintptr_t)(BASE + list);

			if (!mark(seen, BASE + list))
				return false;
			list ^= link >> 8 ^ KEY;
		}
		if (!mark_array(b, seen))
			return false;
	}
	return true;
}
