/* SPDX-License-Identifier: MIT */
/* The sequences of the allocator's caches, aborted at each instruction while other operations
 * allocate, free, drain and close on the same slot: each block must be in exactly one place.
 *
 * The caches are tested alone: arrays replace the central lists and the heap. */
#include "unit.h"

#include "malloc/cache/malloc_cache.h"
#include "malloc/central/central.h"
#include "malloc/pages/pages.h"
#include "malloc/base/malloc_conf.h"

#include "malloc/base/classes.c"
#include "malloc/base/malloc_die.c"
#include "malloc/base/out.c"
#include "malloc/cache/malloc_cache.c"
#include "malloc/cache/drain.c"
#include "malloc/cache/slot.c"
#include "malloc/cache/transfer.c"

#include "tortured.h"

#define CLASS 2u
#define BLOCKS 120u
#define HEAP ((size_t)1 << 16)
#define LISTS 512u

struct near__heap near__heap;
struct near__malloc_conf near__malloc_conf = {.cache = (uint64_t)64 << 20};

static char heap[HEAP] __attribute__((aligned(16384)));

/* Lists in the central part, blocks of threads without a slot, lists that a closer holds, blocks in
 * use. */
static uint64_t central[LISTS], closed[LISTS];
static unsigned n_central, n_closed;
static uint64_t local;
static void *held[BLOCKS];
static unsigned n_held;

/* Interferers run between any two instructions of a function that contains a sequence: what changes
 * the variables above must not be inlined there. */
#define OUT_OF_LINE __attribute__((noinline))

OUT_OF_LINE void near__central_give(unsigned class, uint64_t list)
{
	if (n_central == LISTS)
		abort();
	central[n_central++] = list;
}

OUT_OF_LINE uint64_t near__central_fetch(unsigned class, unsigned most, void **untouched)
{
	return n_central ? central[--n_central] : NEAR__EMPTY_LIST;
}

#define SHORT_BATCH 4u /* so that each list is cut in the middle */

unsigned near__central_batch(unsigned class)
{
	return SHORT_BATCH;
}

void near__refuse_freed(unsigned class, uint64_t block)
{
}

uint32_t near__pages_used(void)
{
	return 0;
}

uint64_t near__central_send_home(unsigned class, uint64_t list)
{
	return list;
}

void near__central_decay(bool all)
{
}

/* ---- states ---- */

static void *block(unsigned i)
{
	return heap + NEAR__PAGE + i * (size_t)64;
}

static unsigned next; /* the next block that is in no place yet */

static uint64_t list_of(unsigned n)
{
	uint64_t list = NEAR__EMPTY_LIST;

	while (n--)
		near__list_put(&list, block(next++));
	return list;
}

/* The content of this slot at the beginning. */
struct state {
	unsigned in_list, transfers, lists_in_central;
	bool unused, full, low_limit, spilled, closed; /* low_limit: 1, whatever the list has */
};

static struct near__cache *own_cache(void)
{
	return near_percpu_at(near__heap.caches, near_slot());
}

static void fill_slot(const struct state *s)
{
	struct near__cache *own;

	while (!near__cache_open(CLASS))
		;
	near__cache_open(CLASS);
	own = own_cache();
	own->quota = (uint64_t)1 << 30;
	own->entries[CLASS].list = s->closed ? NEAR__CLOSED_LIST : list_of(s->in_list);
	own->entries[CLASS].limit = s->low_limit ? 1 : (uint8_t)(s->in_list + (s->full ? 0 : 5));
	own->spilled[CLASS] = s->spilled;
	for (unsigned i = 0; i < s->transfers; i++)
		own->transfer[near__sizes[CLASS].row + i] = near__list_waiting(list_of(1 + i % 2));
	own->transfers[CLASS] = s->closed ? UINT32_MAX : s->transfers + 1;
}

/* Blocks that are in no list are in use: the operation and the interferers free them. */
static void setup(void *state)
{
	const struct state *s = state;
	void *caches;

	memset(heap, 0, sizeof(heap));
	next = n_central = n_closed = n_held = 0;
	local = NEAR__EMPTY_LIST;
	near_percpu_free(near__heap.caches);
	if (near_percpu_alloc(sizeof(struct near__cache), 64, &caches))
		abort();
	near__heap = (struct near__heap){.base = (uintptr_t)heap,
					 .cid_size = HEAP,
					 .list_limit = HEAP,
					 .size = HEAP,
					 .key = NEAR__KEY(UINT64_C(0x3b8e27c15f90ad46)),
					 .caches = caches};
	if (!s->unused)
		fill_slot(s);
	for (unsigned i = 0; i < s->lists_in_central; i++)
		central[n_central++] = list_of(2);
	while (next < BLOCKS)
		held[n_held++] = block(next++);
}

/* ---- operations, as cache/plain.c has them ---- */

static void keep(void *p)
{
	if (p)
		held[n_held++] = p;
}

OUT_OF_LINE static void *take_local(void)
{
	if (near__list_is_empty(local))
		local = near__central_fetch(CLASS, 1, NULL);
	return near__list_is_empty(local) ? NULL : near__list_take(&local);
}

OUT_OF_LINE static void give_local(void *p)
{
	near__list_put(&local, p);
}

OUT_OF_LINE static void *take_block(void)
{
	void *p;

	if (near__pop_by_slot(near__entry_of(CLASS), &p) || near__cache_alloc(CLASS, &p))
		return p;
	return take_local();
}

OUT_OF_LINE static void give_block(void *p)
{
	if (!near__push_by_slot(near__entry_of(CLASS), near__offset_of(p)) &&
	    !near__cache_free(CLASS, near__offset_of(p)))
		give_local(p);
}

OUT_OF_LINE static void *take_block_by_cid(void)
{
	void *p;

	return near__pop_by_cid(near__entry_of(CLASS), &p) ? p : take_block();
}

OUT_OF_LINE static void give_block_by_cid(void *p)
{
	if (!near__push_by_cid(near__entry_of(CLASS), p, near__offset_of(p)))
		give_block(p);
}

static void take(void *unused)
{
	keep(take_block());
}

static void give(void *unused)
{
	give_block(held[--n_held]);
}

static void take_by_cid(void *unused)
{
	keep(take_block_by_cid());
}

static void give_by_cid(void *unused)
{
	give_block_by_cid(held[--n_held]);
}

static void drain_own(void *unused)
{
	near__drain_slot(near_slot());
}

/* The first half of a drain that is never finished. */
static void close_own(void *unused)
{
	struct near__cache *own = own_cache();
	uint64_t list =
		__atomic_exchange_n(&own->entries[CLASS].list, NEAR__CLOSED_LIST, __ATOMIC_ACQ_REL);
	uint32_t n = __atomic_exchange_n(&own->transfers[CLASS], UINT32_MAX, __ATOMIC_ACQ_REL);

	closed[n_closed++] = list;
	for (uint32_t i = 0; n != UINT32_MAX && i + 1 < n; i++)
		closed[n_closed++] = near__waiting_list(own->transfer[near__sizes[CLASS].row + i]);
}

/* ---- each block in one place ---- */

static unsigned found[BLOCKS];
static bool right_lengths;

static void see(const void *p)
{
	size_t at = (size_t)((const char *)p - (const char *)block(0));

	found[at % 64 == 0 && at / 64 < BLOCKS ? at / 64 : 0]++;
}

/* A list without an end contains a block twice. Returns the number of blocks. */
static unsigned see_list(uint64_t list)
{
	uint64_t first = list;
	unsigned n = 0;

	for (; n <= BLOCKS && !near__list_is_empty(list); n++) {
		see(near__list_block(list));
		list = near__unlink(list, *near__list_block(list));
	}
	right_lengths &= near__list_is_empty(first) || near__list_length(first) == n;
	return n;
}

static void see_slots(void)
{
	for (unsigned s = 0; near__cache_next(&s); s++) {
		const struct near__cache *f = near_percpu_at(near__heap.caches, s);
		const uint64_t *row = &f->transfer[near__sizes[CLASS].row];
		uint32_t n = f->transfers[CLASS];

		see_list(f->entries[CLASS].list);
		for (uint32_t i = 0; n != UINT32_MAX && i + 1 < n; i++)
			right_lengths &= near__waiting_length(row[i]) ==
					 see_list(near__waiting_list(row[i]));
	}
}

static const char *check(void *unused)
{
	memset(found, 0, sizeof(found));
	right_lengths = true;
	see_slots();
	see_list(local);
	for (unsigned i = 0; i < n_central; i++)
		see_list(central[i]);
	for (unsigned i = 0; i < n_closed; i++)
		see_list(closed[i]);
	for (unsigned i = 0; i < n_held; i++)
		see(held[i]);
	for (unsigned i = 0; i < BLOCKS; i++)
		if (found[i] != 1)
			return found[i] ? "a block is in two places" : "a block is lost";
	return right_lengths ? NULL : "a list has another length than its links say";
}

static const void *slot(void *unused, size_t *size)
{
	*size = sizeof(uint64_t);
	return &own_cache()->entries[CLASS].list;
}

/* ---- tests ---- */

static const struct near_torture_rival rivals[] = {
	{"take", take, NULL, 0},
	{"give", give, NULL, 0},
	{"drain", drain_own, NULL, 0},
	{"close", close_own, NULL, NEAR_TORTURE_CLOSES},
};

struct scenario {
	void (*run)(void *);
	struct state state;
	unsigned sequences; /* that run at least */
};

static void torture(const struct scenario *s)
{
	/* A slot that is not in use yet is begun outside of sequences. */
	const struct near_torture t = {
		.setup = setup,
		.run = s->run,
		.rivals = rivals,
		.n_rivals = LENGTH(rivals) - s->state.unused,
		.check = check,
		.slot = s->state.unused ? NULL : slot,
		.arg = (void *)(uintptr_t)&s->state,
	};

	if (!near__thread_live())
		skip();
	expect_tortured(&t, s->sequences);
}

/* Slots are numbered by cid. A process that has no live thread yet has not read its settings. */
static bool by_cid(void)
{
	return near__thread_live() && near__process.index_mode == 0;
}

#define TORTURE(name, ...)                                                                         \
	static void name(void **unused)                                                            \
	{                                                                                          \
		torture(&(struct scenario){__VA_ARGS__});                                          \
	}

/* pop */
TORTURE(block_of_the_list, by_cid() ? take_by_cid : take, {.in_list = 3, .transfers = 2}, 1)
TORTURE(last_block_of_the_list, take, {.in_list = 1, .lists_in_central = 1}, 1)
/* transfer_pop, fill */
TORTURE(list_of_the_transfer_cache, take, {.transfers = 4}, 2)
/* fill */
TORTURE(list_of_the_central_lists, take, {.lists_in_central = 3}, 1)
/* push */
TORTURE(room_in_the_list, by_cid() ? give_by_cid : give, {.in_list = 2, .transfers = 1}, 1)
/* take_list, transfer_push, push */
TORTURE(no_room_in_the_list, give, {.in_list = 4, .transfers = 2, .full = true}, 3)
TORTURE(no_room_in_the_transfer_cache, give,
	{.in_list = 2, .transfers = near__sizes[CLASS].lists, .full = true}, 2)
/* take_list, fill with what is kept, transfer_push, push */
TORTURE(no_room_in_a_longer_list, give, {.in_list = 6, .transfers = 2, .full = true}, 4)
/* Of which another thread lowered the limit. */
TORTURE(more_than_the_limit_in_the_list, give, {.in_list = 3, .transfers = 2, .low_limit = true}, 3)
TORTURE(list_of_the_transfer_cache_after_a_spill, take, {.transfers = 4, .spilled = true}, 2)

static void fresh_slot(void **state)
{
	torture(&(struct scenario){take, {.lists_in_central = 2, .unused = true}, 1});
	torture(&(struct scenario){give, {.unused = true}, 1});
}

/* No operation changes a closed entry. */
static void closed_entry(void **state)
{
	struct state closed_state = {.lists_in_central = 2, .closed = true};

	if (!near__thread_live())
		skip();
	setup(&closed_state);
	give(NULL);
	take(NULL);
	assert_null(check(NULL));
	assert_true(own_cache()->entries[CLASS].list == NEAR__CLOSED_LIST);
	assert_true(own_cache()->transfers[CLASS] == UINT32_MAX);
}

UNIT_MAIN(block_of_the_list, last_block_of_the_list, list_of_the_transfer_cache,
	  list_of_the_central_lists, room_in_the_list, no_room_in_the_list,
	  no_room_in_the_transfer_cache, no_room_in_a_longer_list, more_than_the_limit_in_the_list,
	  list_of_the_transfer_cache_after_a_spill, fresh_slot, closed_entry)
