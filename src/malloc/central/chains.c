/* SPDX-License-Identifier: MIT */
/* Chains of lists: chains.h. */
#include "malloc/central/chains.h"

#include "cache/cache.h"
#include "malloc/base/malloc_conf.h"

#define LINE_SHIFT 20 /* 1 MiB, and what is 64 MiB further on */

static uint32_t lists_held[NEAR__SIZES + 1]; /* [NEAR__ANY_CLASS]: the sum. Relaxed: hints */

uint32_t near__chains_have(unsigned class)
{
	return NEAR__UNLIKELY(near__heap_is_damaged())
		       ? 0
		       : __atomic_load_n(&lists_held[class], __ATOMIC_RELAXED);
}

static void lists_count(unsigned class, uint32_t more)
{
	__atomic_fetch_add(&lists_held[class], more, __ATOMIC_RELAXED);
	__atomic_fetch_add(&lists_held[NEAR__ANY_CLASS], more, __ATOMIC_RELAXED);
}

/* Blocks of one word have no place for the word below; large ones are few in a list, which is given
 * to its spans soon. */
static bool has_chains(unsigned class)
{
	return class > 1 && class < NEAR__FIRST_UNCHAINED;
}

static uint64_t bytes_of(uint64_t word, unsigned class)
{
	return (uint64_t)near__waiting_length(word) * near__sizes[class].size;
}

/* ---- words below ---- */

/* Encoded as links are (cache/list.h): what a program writes to a freed block is no list. */
static uint64_t *word_below(uint64_t word)
{
	return near__list_block(near__waiting_list(word)) + 1;
}

static uint64_t below_code(uint64_t word)
{
	return near__waiting_list(word) ^ near__heap.key;
}

/* What was decoded is a list, or 0. */
static bool is_list(uint64_t word)
{
	uint64_t list = near__waiting_list(word);

	return !word || (!near__list_is_empty(list) && list < near__heap.size && list % 8 == 0);
}

/* Its first block is as it was. */
static bool is_whole(uint64_t word)
{
	return !word || near__list_length(near__waiting_list(word)) == near__waiting_length(word);
}

/* ---- one chain ---- */

static void chain_push(struct near__chain *of, uint64_t word)
{
	unsigned i = (unsigned)(near__waiting_list(word) >> LINE_SHIFT) % NEAR__CHAIN_LINES;

	*word_below(word) = of->lines[i] ^ below_code(word);
	of->lines[i] = word;
	of->filled |= (uint64_t)1 << i;
	of->lists++;
	of->blocks += near__waiting_length(word);
}

/* Of a chain that has lists. *next: the list below, or what the program has written there. */
static uint64_t chain_pop(struct near__chain *of, bool low, uint64_t *next)
{
	int i = low ? __builtin_ctzll(of->filled) : 63 - __builtin_clzll(of->filled);
	uint64_t word = of->lines[i];

	*next = *word_below(word) ^ below_code(word);
	of->lines[i] = *next;
	of->filled &= ~((uint64_t) !*next << i);
	of->blocks -= near__waiting_length(word);
	of->lists--;
	of->fewest = of->lists < of->fewest ? of->lists : of->fewest;
	return word;
}

static void chains_release(unsigned class, uint32_t lists, uint64_t bytes)
{
	near__quota_return(&near__heap.cache_taken, bytes);
	lists_count(class, -lists);
}

/* Its lists are not all known any more: their blocks stay unused. */
static void chain_drop(struct near__chain *of, unsigned class)
{
	chains_release(class, of->lists, of->blocks * near__sizes[class].size);
	*of = (struct near__chain){.refills = of->refills};
}

/* A thread that takes a list takes the next one soon, which has left the CPU's caches long ago: its
 * links are loaded one after the other. If the blocks of this list are neighbours, so are that
 * one's as a rule, and their lines can be loaded at once. */
static void prefetch_next(uint64_t word, uint64_t next, size_t size)
{
	uint64_t list = near__waiting_list(word), step = near__list_rest(list) - list;
	const char *p = (const char *)near__list_block(near__waiting_list(next));
	size_t all = near__waiting_length(next) * size;

	if (step != size && step != -(uint64_t)size)
		return;
	for (size_t at = 0; at < all; at += NEAR__CACHE_LINE)
		__builtin_prefetch(step == size ? p + at : p - at, 1);
}

uint64_t near__chain_take(struct near__chains *c, unsigned class, bool for_use)
{
	struct near__chain *of = &c->classes[class];
	uint64_t word = 0, next = 0;
	bool listed;

	near__heap_lock(&c->lock);
	if (of->filled) {
		word = chain_pop(of, for_use, &next);
		of->refills += for_use;
		chains_release(class, 1, bytes_of(word, class));
	}
	listed = is_list(next);
	if (NEAR__UNLIKELY(!listed))
		chain_drop(of, class);
	near_lock_unlock(&c->lock);
	if (NEAR__UNLIKELY(!listed || !is_whole(word)))
		near__heap_misuse("write to a freed block, or freed twice", word_below(word) - 1);
	else if (for_use && next)
		prefetch_next(word, next, near__sizes[class].size);
	return word;
}

uint32_t near__chain_step(struct near__chains *c, unsigned class)
{
	struct near__chain *of = &c->classes[class];
	uint32_t idle;

	near__heap_lock(&c->lock);
	idle = of->fewest;
	of->fewest = of->lists;
	near_lock_unlock(&c->lock);
	return idle;
}

/* ---- the chains of a node ---- */

bool near__chains_put(struct near__chains *all, unsigned class, uint64_t word)
{
	struct near__chains *c = &all[near__hint() % NEAR__CHAINS];

	if (!has_chains(class) || near__heap_is_damaged() ||
	    !near__quota_take(&near__heap.cache_taken, near__malloc_conf.cache,
			      bytes_of(word, class)))
		return false;
	lists_count(class, 1);
	near__heap_lock(&c->lock);
	chain_push(&c->classes[class], word);
	near_lock_unlock(&c->lock);
	return true;
}

/* The hint may be old: then another list comes from the spans. */
uint64_t near__chains_take(struct near__chains *all, unsigned class, bool for_use)
{
	unsigned own = near__hint();
	uint64_t word = 0;

	for (unsigned i = 0; !word && i < NEAR__CHAINS && near__chains_have(class); i++)
		word = near__chain_take(&all[(own + i) % NEAR__CHAINS], class, for_use);
	return word;
}

void near__chains_stats(struct near__chains *all, unsigned class, uint64_t *blocks,
			uint64_t *refills)
{
	for (unsigned i = 0; i < NEAR__CHAINS && has_chains(class); i++) {
		near__heap_lock(&all[i].lock);
		*blocks += all[i].classes[class].blocks;
		*refills += all[i].classes[class].refills;
		near_lock_unlock(&all[i].lock);
	}
}

void near__chains_fork(struct near__chains *all, near__fork_step *step)
{
	for (unsigned i = 0; i < NEAR__CHAINS; i++)
		step(&all[i].lock);
}
