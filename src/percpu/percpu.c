/* SPDX-License-Identifier: MIT */
/* Per-CPU memory: arenas of one size class each.
 *
 *     header   slot 0   slot 1  ...  slot N-1   slot N       slot N+1 ... N+F
 *     64 KiB   1 MiB    1 MiB        1 MiB      never open   fallback slots
 *              ^ aligned to 1 MiB
 *
 * Each slot begins with a state word: 0 not opened, 1 open, or NEAR__OPEN_FALLBACK. A sequence
 * fails unless it is 1. Fallback slots and slot N, the number of every thread that is not live,
 * therefore fail the check. Everything is mapped readable from the start, which commits nothing and
 * is not charged; a slot becomes writable when it is opened.
 *
 * Objects are at multiples of their size; a bit of each in the header records that it is allocated.
 * No free list runs through the objects: it would touch the memory of a slot, perhaps of another
 * node. */
#define _GNU_SOURCE
#include <nearcpu/percpu.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/page.h"
#include "base/roots.h"
#include "base/topology.h"
#include "base/valgrind.h"
#include "kernel/hint.h"
#include "percpu/percpu.h"

#define STRIDE ((size_t)1 << NEAR_STRIDE_SHIFT)
#define HEADER ((size_t)64 << 10) /* a multiple of any system's page */
#define STATE_SIZE 64             /* kept free of objects: the state word's cache line */
#define ZAP_SIZE (64u << 10)      /* a copy of this size is given back to the kernel, not cleared */
#define NOTHING UINT32_MAX
#define MARK UINT64_C(0x6e656172617265ff)

struct near__arena {
	uint64_t mark; /* MARK and the address: this is an arena */
	struct near__arena *next;
	size_t object_size;
	uint32_t class;
	uint32_t words;   /* of bits */
	uint32_t full;    /* a search found no free object; frees reset it */
	uint32_t slots;   /* of all kinds */
	uint64_t *used;   /* slots that were opened; only grows */
	uint32_t *cursor; /* by cpu: the word where it found a free object last */
	uint64_t bits[];  /* allocated objects */
};

static char *base_of(const struct near__arena *a)
{
	return (char *)(uintptr_t)a + HEADER;
}

static struct near__arena *arena_of(const void *p)
{
	return (struct near__arena *)(((uintptr_t)p & ~NEAR__ARENA_MASK) - HEADER);
}

static uint32_t *state_of(const struct near__arena *a, unsigned slot)
{
	return near_percpu_at(base_of(a), slot);
}

/* 8, 16, 24, 32, 48, 64, 96, ... */
static size_t class_size(unsigned class)
{
	return class < 2 ? (size_t)8 << class : (size_t)(class % 2 ? 32 : 24) << (class - 2) / 2;
}

/* The smallest class that is large enough and whose objects are aligned: they are at multiples of
 * their size. */
static unsigned class_of(size_t size, size_t align)
{
	unsigned c = 0;

	while (class_size(c) < size || class_size(c) % align)
		c++;
	return c;
}

/* First touch alone is not enough: a thread that opens a slot, or faults inside of a sequence, may
 * be moved to another node before the kernel takes the page. It may also have moved since it read
 * the number of the slot: the node of a CPU is then not the one that the thread is on. */
static void keep_on_node(void *start, unsigned slot)
{
	const struct near__process *p = &near__process;
	int node;

	if (p->nodes < 2 || slot >= p->slots || p->slot_kind == NEAR_SLOT_CID)
		return;
	node = p->slot_kind == NEAR_SLOT_CPU ? near__topology_node_of(slot, p->nodes)
					     : (int)(slot / p->cpus);
	if (node >= 0)
		near__topology_prefer(start, STRIDE, (unsigned)node);
}

static bool make_writable(struct near__arena *a, unsigned slot)
{
	if (mprotect(state_of(a, slot), STRIDE, PROT_READ | PROT_WRITE))
		return false;
	NEAR__BIT_SET(a->used, slot, __ATOMIC_RELEASE);
	return true;
}

/* Opening a slot. The bit in `used` is set before the state word: a thread that sees the word open,
 * changes the slot and notifies a reader by release and acquire, makes it see the bit as well. (All
 * three architectures make a store visible to all other CPUs at one time, so that this holds
 * although the sequence reads the state word with a plain load.) Two threads may open a slot at the
 * same time: they do the same. */
static bool arena_open_slot(struct near__arena *a, unsigned slot, uint32_t state)
{
	uint32_t *word = state_of(a, slot);
	int saved = errno;

	if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == state)
		return true;
	keep_on_node(word, slot);
	if (!make_writable(a, slot)) {
		errno = saved;
		return false;
	}
	__atomic_store_n(word, state, __ATOMIC_RELEASE);
	return true;
}

static void prepare_header(struct near__arena *a, unsigned class, unsigned slots)
{
	size_t limit = STRIDE / class_size(class);
	size_t first = (STATE_SIZE + class_size(class) - 1) / class_size(class);

	a->mark = MARK ^ (uintptr_t)a;
	a->class = class;
	a->object_size = class_size(class);
	a->slots = slots;
	a->words = (uint32_t)near__bit_words(limit);
	a->used = a->bits + a->words;
	a->cursor = (uint32_t *)(a->used + near__bit_words(slots));
	for (size_t k = 0; k < first; k++)
		near__bit_set(a->bits, k);
	for (size_t k = limit; k < (size_t)a->words * 64; k++)
		near__bit_set(a->bits, k);
}

static size_t header_need(unsigned class, unsigned slots)
{
	return sizeof(struct near__arena) + STRIDE / class_size(class) / 8 + slots / 8 + 32 +
	       near__process.cpus * sizeof(uint32_t);
}

/* Reserves address space for all slots; the first fallback slot is made writable here, since an
 * operation that finds no other must not fail. It is opened when it is used: that takes a page. */
static int create_arena(struct near__arena **out, unsigned class)
{
	unsigned slots = near__first_fallback() + near__process.cpus;
	size_t need = HEADER + slots * STRIDE, excess;
	struct near__arena *a;
	char *map, *base;

	if (header_need(class, slots) > HEADER)
		return -ENOMEM;
	map = mmap(NULL, need + STRIDE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		   0);
	if (map == MAP_FAILED)
		return -ENOMEM;
	base = (char *)(((uintptr_t)map + HEADER + STRIDE - 1) & ~NEAR__ARENA_MASK);
	excess = (size_t)(base - HEADER - map);
	if (excess)
		munmap(map, excess);
	if (STRIDE - excess)
		munmap(base - HEADER + need, STRIDE - excess);
	a = arena_of(base);
	madvise(a, need, MADV_NOHUGEPAGE); /* fails without huge pages: fine */
	if (mprotect(a, HEADER, PROT_READ | PROT_WRITE)) {
		munmap(a, need);
		return -ENOMEM;
	}
	prepare_header(a, class, slots);
	if (!make_writable(a, near__first_fallback())) {
		munmap(a, need);
		return -ENOMEM;
	}
	__atomic_fetch_add(&near__process.reserved, need, __ATOMIC_RELAXED);
	near__root_begin(a, need); /* arenas are never unmapped */
	near__valgrind_ignore(a, need);
	*out = a;
	return 0;
}

int near__percpu_alloc_whole(void **out, size_t size)
{
	int r = size > STRIDE - STATE_SIZE ? -E2BIG : 0, saved = errno;
	struct near__arena *a;

	if (r == 0)
		r = near__process_init() ? create_arena(&a, NEAR__CLASSES - 1) : -EDEADLK;
	if (r == 0)
		*out = base_of(a) + STATE_SIZE;
	errno = saved;
	return r;
}

/* Takes a free object: its index, or NOTHING. Acquire pairs with the release in near_percpu_free:
 * the copies are seen cleared. */
static uint32_t arena_take(struct near__arena *a, unsigned cpu)
{
	uint32_t start = __atomic_load_n(&a->cursor[cpu], __ATOMIC_RELAXED);

	for (uint32_t i = 0; i < a->words; i++) {
		uint32_t w = start + i < a->words ? start + i : start + i - a->words;
		uint64_t free_bits = ~__atomic_load_n(&a->bits[w], __ATOMIC_RELAXED);
		uint64_t bit = free_bits & -free_bits;

		/* Losing a bit to another CPU: leave the word to it. */
		if (!bit || __atomic_fetch_or(&a->bits[w], bit, __ATOMIC_ACQUIRE) & bit)
			continue;
		__atomic_store_n(&a->cursor[cpu], w, __ATOMIC_RELAXED);
		return w * 64 + (uint32_t)__builtin_ctzll(bit);
	}
	return NOTHING;
}

/* The current arena of the class was found full: makes another one current. */
static int next_arena(struct near__class *c, unsigned class, struct near__arena *failed)
{
	struct near__arena *a;
	int r = 0;

	near_lock_lock(&c->lock);
	if (__atomic_load_n(&c->current, __ATOMIC_RELAXED) == failed) {
		if (failed)
			__atomic_store_n(&failed->full, 1, __ATOMIC_RELAXED);
		a = c->arenas;
		while (a && __atomic_load_n(&a->full, __ATOMIC_RELAXED))
			a = a->next;
		if (!a) {
			r = create_arena(&a, class);
			if (r == 0) {
				a->next = c->arenas;
				c->arenas = a;
			}
		}
		/* Pairs with the acquire in near_percpu_alloc: the header is seen prepared. */
		if (r == 0)
			__atomic_store_n(&c->current, a, __ATOMIC_RELEASE);
	}
	near_lock_unlock(&c->lock);
	return r;
}

static int check_request(size_t size, size_t align)
{
	if (size == 0 || align == 0 || (align & (align - 1)))
		return -EINVAL;
	return size > NEAR_PERCPU_MAX_SIZE || align > NEAR_PERCPU_MAX_ALIGN ? -E2BIG : 0;
}

int near_percpu_alloc(size_t size, size_t align, void **out)
{
	int r = check_request(size, align), saved = errno;
	struct near__arena *a;
	struct near__class *c;
	unsigned class;
	uint32_t k;

	if (r)
		return r;
	if (!near__process_init())
		return -EDEADLK;
	class = class_of(size, align);
	c = &near__percpu.classes[class];
	for (;;) {
		a = __atomic_load_n(&c->current, __ATOMIC_ACQUIRE);
		k = a ? arena_take(a, near__hint()) : NOTHING;
		if (k != NOTHING)
			break;
		r = next_arena(c, class, a);
		errno = saved;
		if (r)
			return r;
	}
	*out = base_of(a) + k * a->object_size;
	return 0;
}

/* Leaves pages alone that were never written. madvise(2) rounds the size up to pages: of 64 KiB,
 * those of a copy of 96 KiB have a part of its neighbour, too. */
static void clear_copy(void *copy, size_t size)
{
	uint64_t *word = copy;

	if (size >= ZAP_SIZE && size % near__page_size() == 0 &&
	    madvise(copy, size, MADV_DONTNEED) == 0)
		return;
	for (size_t i = 0; i < size / sizeof(*word); i++)
		if (word[i])
			word[i] = 0;
}

__attribute__((noreturn, cold)) static void die_of_bad_free(void)
{
	near__die("near_percpu_free: not an allocated object, or freed twice");
}

/* The bit of an allocated object; *word is its address. */
static uint64_t bit_of(struct near__arena *a, const void *p, uint64_t **word)
{
	size_t k;
	uint64_t bit;

	if (a->mark != (MARK ^ (uintptr_t)a))
		die_of_bad_free();
	k = (size_t)((const char *)p - base_of(a)) / a->object_size;
	bit = near__bit_of(k);
	*word = &a->bits[k / 64];
	if ((const char *)p != base_of(a) + k * a->object_size || k * a->object_size < STATE_SIZE ||
	    !(__atomic_load_n(*word, __ATOMIC_RELAXED) & bit))
		die_of_bad_free();
	return bit;
}

void near_percpu_free(void *p)
{
	struct near__arena *a = arena_of(p);
	int saved = errno;
	uint64_t bit, *word;

	if (!p)
		return;
	bit = bit_of(a, p, &word);
	for (unsigned s = 0; near_percpu_next(p, &s); s++)
		clear_copy(near_percpu_at(p, s), a->object_size);
	if (!(__atomic_fetch_and(word, ~bit, __ATOMIC_RELEASE) & bit))
		die_of_bad_free(); /* by two threads at once */
	__atomic_store_n(&a->full, 0, __ATOMIC_RELAXED);
	errno = saved;
}

bool near_percpu_next(const void *p, unsigned *slot)
{
	const struct near__arena *a = arena_of(p);

	return near__bit_next(a->used, a->slots, slot); /* pairs with arena_open_slot */
}

bool near_percpu_is_fallback(unsigned slot)
{
	return slot >= near__first_fallback();
}

void *near_percpu_fallback(void *p)
{
	unsigned slot = near__first_fallback() + near__hint();

	if (!arena_open_slot(arena_of(p), slot, NEAR__OPEN_FALLBACK))
		slot = near__first_fallback();
	return near_percpu_at(p, slot);
}

/* A number beyond what this machine can have: a process restored on a larger one. */
bool near__slot_open_at(const void *p, uint32_t slot)
{
	return slot < near__process.slots && arena_open_slot(arena_of(p), slot, NEAR__OPEN);
}

uint32_t near__slot_open_own(const void *p)
{
	uint32_t slot;

	if (!near__thread_live())
		return NEAR__NO_SLOT;
	slot = near__index_now();
	return near__slot_open_at(p, slot) ? slot : NEAR__NO_SLOT;
}

bool near_slot_open(const void *p)
{
	return near__slot_open_own(p) != NEAR__NO_SLOT;
}
