/* SPDX-License-Identifier: MIT */
/* The check mode: finds bugs of the program, at the cost of time and memory.
 *
 *     raw block:   guard | canary ... | the program's block | canary
 *
 * The guard records the state of the block, its size, the function that allocated it, and the
 * caller. It is sealed, so that other bytes are not mistaken for a guard. Its first word is the
 * link of the lists that free raw blocks are in; the seal ends with the block. A freed block is
 * filled and waits in a queue; when it leaves the queue, writes to it since then are detected.
 *
 * A block of which the program has marked a page (pages/marks.h) may be protected. It is neither
 * filled nor checked, and does not wait.
 *
 * With valgrind or AddressSanitizer, these guard the bytes, and nothing is filled. */
#include <errno.h>
#include <string.h>

#include "malloc/base/malloc_conf.h"
#include "malloc/base/tools.h"
#include "malloc/central/central.h"
#include "malloc/central/spans.h"
#include "malloc/diagnostics/hooks.h"
#include "malloc/pages/marks.h"
#include "malloc/pages/pages.h"

#define FRESH 0xa5
#define FREED 0x5a
#define CANARY 0xc9
#define BEHIND 32
/* The bytes of a block that are filled, at most. */
#define FILL_MAX ((size_t)4 << 20)
/* The size of the queue in bytes, and of the largest block in it. */
#define QUEUE_MAX ((size_t)16 << 20)
#define QUEUED_MAX ((size_t)2 << 20)

struct guard {
	struct guard *next; /* in the queue */
	uint64_t seal;
	struct near__origin origin; /* of the program's block */
	uint8_t before;             /* log2 of the distance from the guard to the block */
	uint8_t maker;
};
#define BEFORE 64 /* the guard and a canary */
_Static_assert(sizeof(struct guard) <= BEFORE - 16, "room for a canary");

enum { IN_USE = 0x6c697665, WAITS = 0x66726565 };

static struct {
	struct near_lock lock;
	struct guard *first, *last;
	size_t bytes;
} queue;

static bool tool;

void near__check_init(void)
{
	tool = near__tool_present();
	if (near__malloc_conf.check > 0 || (tool && near__malloc_conf.check < 0))
		near__heap.hooks = NEAR__CHECKED;
}

void near__check_fork(near__fork_step *step)
{
	step(&queue.lock);
}

/* ---- guards ---- */

static char *block_of(const struct guard *g)
{
	return (char *)g + ((size_t)1 << g->before);
}

static uint64_t guard_seal(const struct guard *g, uint64_t state)
{
	uint64_t h = (uintptr_t)g ^ state << 32;

	h = (h ^ g->origin.size) * UINT64_C(0x9e3779b97f4a7c15);
	h = (h ^ g->before ^ (uint64_t)g->maker << 8) * UINT64_C(0xd6e8feb86659fd93);
	return (h ^ (uintptr_t)g->origin.allocated) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Of two threads that free the same block, one succeeds. */
static bool change_state(struct guard *g, uint64_t from, uint64_t to)
{
	uint64_t expected = guard_seal(g, from);

	return __atomic_compare_exchange_n(&g->seal, &expected, guard_seal(g, to), false,
					   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static bool is_sealed(const struct guard *g, uint64_t state)
{
	return __atomic_load_n(&g->seal, __ATOMIC_RELAXED) == guard_seal(g, state);
}

__attribute__((noreturn)) static void guard_die(const char *what, const struct guard *g,
						const void *p)
{
	near__heap_die_block(what, p, &g->origin);
}

/* The messages about a pointer that is no block in use, by what the caller does with it. */
struct words {
	const char *unrelated, *unused, *unknown, *inside, *freed, *inside_freed;
};
static const struct words to_free = {
	"free of a pointer that is not from here",
	"free of a pointer that is not allocated",
	"free of a pointer that is not allocated, or write before its block",
	"free of a pointer into a block",
	"double free",
	"free of a pointer into a freed block",
};
static const struct words to_use = {
	"use of a pointer that is not from here",
	"use of a pointer that is not allocated",
	"use of a pointer that is not allocated, or write before its block",
	"use of a pointer into a block",
	"use of a freed block",
	"use of a pointer into a freed block",
};

/* The raw block around a place. NULL: the page has none. */
static struct guard *raw_block(struct near__place at)
{
	uint32_t page = (uint32_t)(at.offset >> NEAR__PAGE_SHIFT);
	unsigned tag, class;

	while (near__heap.page_map[page] == NEAR__REST &&
	       near__pages_contain((uint64_t)(page - 1) << NEAR__PAGE_SHIFT))
		page--;
	tag = near__heap.page_map[page];
	class = near__class_of_tag(tag);
	if (tag == NEAR__LARGE || (class && near__is_single(class)))
		return near__page_at(page);
	return class ? (void *)near__list_block(near__span_block(at.offset)) : NULL;
}

/* The guard of a block in use. Anything else stops the program. */
static struct guard *guard_of(struct near__place at, const struct words *words)
{
	struct guard *g = at.tag == NEAR__OUTSIDE ? NULL : raw_block(at);
	const void *p = near__list_block(at.offset);

	if (!g)
		near__heap_die(at.tag == NEAR__OUTSIDE ? words->unrelated : words->unused,
			       at.offset);
	if (is_sealed(g, IN_USE) && block_of(g) == p)
		return g;
	if (is_sealed(g, IN_USE))
		guard_die(words->inside, g, p);
	if (is_sealed(g, WAITS))
		guard_die(block_of(g) == p ? words->freed : words->inside_freed, g, p);
	near__heap_die(words->unknown, at.offset);
}

/* ---- bytes ---- */

static bool all_are(const char *p, size_t n, int byte)
{
	return n == 0 || (*p == (char)byte && memcmp(p, p + 1, n - 1) == 0);
}

static size_t guard_filled(size_t n)
{
	return n < FILL_MAX ? n : FILL_MAX;
}

static void put_canaries(struct guard *g)
{
	char *p = block_of(g);

	memset(g + 1, CANARY, (size_t)(p - (char *)(g + 1)));
	memset(p + g->origin.size, CANARY, BEHIND);
}

static void check_canaries(const struct guard *g)
{
	const char *p = block_of(g);

	if (!all_are((const char *)(g + 1), (size_t)(p - (const char *)(g + 1)), CANARY))
		guard_die("write before a block", g, p);
	if (!all_are(p + g->origin.size, BEHIND, CANARY))
		guard_die("write behind a block", g, p);
}

static void guard_prepare(struct guard *g, bool zero)
{
	if (tool) {
		near__tool_alloc(block_of(g), g->origin.size, BEFORE - sizeof(*g), BEHIND, zero);
		return;
	}
	put_canaries(g);
	if (!zero)
		memset(block_of(g), FRESH, guard_filled(g->origin.size));
}

/* ---- the queue ---- */

static size_t raw_size(const struct guard *g)
{
	return ((size_t)1 << g->before) + g->origin.size + BEHIND;
}

static void guard_give_back(struct guard *g)
{
	g->seal = 0;
	near__plain_free(near__place_of(g));
}

static void guard_release(struct guard *g)
{
	if (tool) {
		near__tool_forget(g, raw_size(g));
	} else {
		check_canaries(g);
		if (!all_are(block_of(g), guard_filled(g->origin.size), FREED))
			guard_die("write to a freed block", g, block_of(g));
	}
	guard_give_back(g);
}

static struct guard *guard_dequeue(size_t limit)
{
	struct guard *g = NULL;

	near_lock_lock(&queue.lock);
	if (queue.bytes > limit) {
		g = queue.first;
		queue.first = g->next;
		queue.bytes -= raw_size(g);
	}
	near_lock_unlock(&queue.lock);
	return g;
}

static bool queue_shorten(size_t limit)
{
	struct guard *g = guard_dequeue(limit);
	bool any = g != NULL;

	for (; g; g = guard_dequeue(limit))
		guard_release(g);
	return any;
}

static void guard_enqueue(struct guard *g)
{
	g->next = NULL;
	near_lock_lock(&queue.lock);
	*(queue.first ? &queue.last->next : &queue.first) = g;
	queue.last = g;
	queue.bytes += raw_size(g);
	near_lock_unlock(&queue.lock);
}

/* Checks the blocks that are still in the queue. */
__attribute__((destructor)) static void at_exit(void)
{
	if (near__heap.hooks == NEAR__CHECKED && !tool)
		queue_shorten(0);
}

/* ---- calls ---- */

static struct guard *alloc_raw(size_t align, size_t size, bool *zero)
{
	int saved = errno;
	struct guard *g;

	while (!(g = near__plain_alloc(align, size, zero)) && queue_shorten(0))
		;
	if (g)
		errno = saved;
	return g;
}

void *near__check_alloc(size_t align, size_t n, const void *caller, bool *zero)
{
	size_t before = align > BEFORE ? align : BEFORE, size;
	bool is_zero;
	struct guard *g;

	if (__builtin_add_overflow(n, before + BEHIND, &size))
		return near__no_memory();
	g = alloc_raw(align > 16 ? align : 16, size, &is_zero);
	if (!g)
		return NULL;
	*zero = *zero && is_zero;
	near__tool_forget(g, sizeof(*g));
	g->origin = (struct near__origin){n, caller, NULL};
	g->before = (uint8_t)__builtin_ctzl(before);
	g->maker = NEAR__BY_MALLOC;
	guard_prepare(g, *zero);
	__atomic_store_n(&g->seal, guard_seal(g, IN_USE), __ATOMIC_RELEASE);
	return block_of(g);
}

void near__check_made(void *p, enum near__maker maker)
{
	struct guard *g = guard_of(near__place_of(p), &to_use);

	g->maker = (uint8_t)maker;
	__atomic_store_n(&g->seal, guard_seal(g, IN_USE), __ATOMIC_RELEASE);
}

/* The function that allocated the block, and the one that frees or resizes it. */
static void compare_makers(const struct guard *g, enum near__maker maker, bool resize,
			   const void *p)
{
	static const char *const words[3][3] = {
		{NULL, "free of a block from new", "free of a block from new[]"},
		{"delete of a block from malloc", NULL, "delete of a block from new[]"},
		{"delete[] of a block from malloc", "delete[] of a block from new", NULL},
	};
	const char *what = words[maker][g->maker];

	if (what && near__malloc_conf.mismatch)
		guard_die(resize ? "realloc of a block from new" : what, g, p);
}

void near__check_free(struct near__place at, size_t n, enum near__maker maker, const void *caller)
{
	struct guard *g = guard_of(at, &to_free), shown = *g;
	char *p = block_of(g);

	shown.origin.freed = caller;
	compare_makers(&shown, maker, false, p);
	if (n != NEAR__ANY_SIZE && n != g->origin.size)
		guard_die("free with another size than the block's", &shown, p);
	if (!change_state(g, IN_USE, WAITS))
		guard_die("double free", g, p);
	g->origin.freed = caller;
	near__probe(NEAR__PROBE_FREE, p, g->origin.size); /* not as late as it leaves the queue */
	if (!tool && near__marks_on(at.offset, g->origin.size)) {
		guard_give_back(g);
		return;
	}
	if (tool) {
		near__tool_free(p, g->origin.size, BEFORE - sizeof(*g));
	} else {
		check_canaries(g);
		memset(p, FREED, guard_filled(g->origin.size));
	}
	if (raw_size(g) > QUEUED_MAX) {
		guard_release(g);
		return;
	}
	guard_enqueue(g);
	queue_shorten(QUEUE_MAX);
}

/* The block always moves, so that uses of old pointers are found. */
void *near__check_realloc(struct near__place at, size_t n, const void *caller)
{
	const struct guard *g = guard_of(at, &to_use);
	struct guard shown = *g;
	void *p = block_of(g), *q;
	bool zero = false;

	shown.origin.freed = caller;
	compare_makers(&shown, NEAR__BY_MALLOC, true, p);
	q = near__check_alloc(1, n, caller, &zero);
	if (!q)
		return NULL;
	memcpy(q, p, g->origin.size < n ? g->origin.size : n);
	near__check_free(at, NEAR__ANY_SIZE, NEAR__BY_MALLOC, caller);
	return q;
}

size_t near__check_size(struct near__place at)
{
	return guard_of(at, &to_use)->origin.size;
}
