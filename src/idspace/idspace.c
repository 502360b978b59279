/* SPDX-License-Identifier: MIT */
/* near_idspace: acquire, release, the searches of caches, statistics. idspace/idspace.h has the
 * protocol. */
#include <nearcpu/idspace.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bits.h"
#include "base/fork.h"
#include "base/known.h"
#include "base/topology.h"
#include "idspace/idspace.h"

/* ---- the bitmap: which ids are free ---- */

size_t near__ids_bytes(unsigned ids, unsigned nodes)
{
	return near__bit_words(ids) * (nodes + 2) * sizeof(uint64_t);
}

/* The bits after the last id are set: they are never free. */
void near__ids_init(struct near__ids *b, void *memory, unsigned ids, unsigned nodes)
{
	*b = (struct near__ids){
		.ids = ids, .nodes = nodes, .words = (unsigned)near__bit_words(ids)};
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
static uint64_t bitmap_own(const struct near__ids *b, unsigned node, unsigned word)
{
	return ~b->used[word] & tied_to(b, node)[word];
}

static uint64_t bitmap_untied(const struct near__ids *b, unsigned word)
{
	return ~b->used[word] & ~tied_to(b, b->nodes)[word];
}

static int bitmap_use(struct near__ids *b, unsigned word, uint64_t candidates)
{
	unsigned id = word * 64 + (unsigned)__builtin_ctzll(candidates);

	near__bit_set(b->used, id);
	if (id >= b->highest)
		b->highest = id + 1;
	return (int)id;
}

/* The lowest free id of the node, which becomes used; or the lowest that has no node, which becomes
 * the node's. -EAGAIN: there is none. */
static int bitmap_take(struct near__ids *b, unsigned node)
{
	for (unsigned i = 0; i < b->words; i++)
		if (bitmap_own(b, node, i))
			return bitmap_use(b, i, bitmap_own(b, node, i));
	for (unsigned i = 0; i < b->words; i++) {
		uint64_t bit = bitmap_untied(b, i) & -bitmap_untied(b, i);

		tied_to(b, node)[i] |= bit;
		tied_to(b, b->nodes)[i] |= bit;
		if (bit)
			return bitmap_use(b, i, bit);
	}
	return -EAGAIN;
}

/* The lowest free id of any node, which becomes used. -EAGAIN: there is none. */
static int bitmap_take_foreign(struct near__ids *b)
{
	for (unsigned i = 0; i < b->words; i++)
		if (~b->used[i])
			return bitmap_use(b, i, ~b->used[i]);
	return -EAGAIN;
}

/* Whether bitmap_take would return one below `id`. */
static bool bitmap_has_lower(const struct near__ids *b, unsigned node, unsigned id)
{
	for (unsigned i = 0; i * 64 < id; i++) {
		uint64_t free = bitmap_own(b, node, i);

		if (free && i * 64 + (unsigned)__builtin_ctzll(free) < id)
			return true;
	}
	return false;
}

/* Constant once the id was taken. */
static unsigned node_of_id(const struct near__ids *b, unsigned id)
{
	unsigned node = 0;

	while (node + 1 < b->nodes && !near__bit(tied_to(b, node), id))
		node++;
	return node;
}

static void bitmap_put(struct near__ids *b, unsigned id)
{
	near__bit_clear(b->used, id);
}

static unsigned bitmap_count_used(const struct near__ids *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->words; i++)
		n += (unsigned)__builtin_popcountll(b->used[i]);
	return b->ids % 64 ? n - (64 - b->ids % 64) : n;
}

/* ---- slots ---- */

/* Those in use, from *slot on. */
static bool next_slot(const struct near_idspace *s, unsigned *slot)
{
	return near_percpu_next(s->slots, slot);
}

static struct near__id_slot *slot_at(const struct near_idspace *s, unsigned slot)
{
	return near_percpu_at(s->slots, slot);
}

/* Constant for each slot, except where one has threads of several nodes in turn: there is no node
 * then, as init saw to it. */
static unsigned node_of_slot(const struct near_idspace *s, unsigned slot)
{
	int node;

	if (s->rest->ids.nodes == 1)
		return 0;
	if (near__process.slot_kind == NEAR_SLOT_NODE_CID)
		return slot / near__process.index_mode;
	node = near__topology_node_of(slot, s->rest->ids.nodes);
	return node < 0 ? 0 : (unsigned)node;
}

/* A thread that has just left the slot does no harm: what it stores is constant. A
 * sequence that finds the gate open ahead of the node takes the id for that of another node. */
bool near__idspace_open(const struct near_idspace *s, uint32_t *slot)
{
	struct near__id_slot *c;

	*slot = near__slot_open(s->slots);
	if (*slot == NEAR__NO_SLOT)
		return false;
	c = slot_at(s, *slot);
	if (__atomic_load_n(&c->gate, __ATOMIC_RELAXED) == NEAR__UNOPENED)
		__atomic_store_n(&c->node, node_of_slot(s, *slot), __ATOMIC_RELAXED);
	return near__gate_open_first(&c->gate);
}

/* What a thread without a slot uses. */
struct fallback {
	struct near__id_slot *slot;
	unsigned node;
};

static inline struct fallback local_fallback(const struct near_idspace *s)
{
	unsigned node = s->rest->ids.nodes == 1 ? 0 : near_node();

	return (struct fallback){near__fallback(s->slots), node < s->rest->ids.nodes ? node : 0};
}

/* ---- caches of fallback slots ---- */

/* The id plus 1, or 0: none is cached. Acquire: pairs with the release below, so that the block of
 * the id is seen as it was left. */
static uint64_t take_cached(struct near__id_slot *c)
{
	return __atomic_load_n(&c->word, __ATOMIC_RELAXED)
		       ? __atomic_exchange_n(&c->word, 0, __ATOMIC_ACQUIRE)
		       : 0;
}

/* False: an id is cached there. */
static bool cache_id(struct near__id_slot *c, uint64_t id1)
{
	uint64_t none = 0;

	return __atomic_compare_exchange_n(&c->word, &none, id1, false, __ATOMIC_RELEASE,
					   __ATOMIC_RELAXED);
}

/* ---- caches of other slots ---- */

#define BATCH 64 /* slots that are closed together */

/* Whether the id in the slot's cache is to be taken: all are, or none of its workers has acquired
 * it since the search before. What is loaded here may change until the gate is closed. */
static bool is_wanted(const struct near_idspace *s, const struct near__id_slot *c, bool unused_only)
{
	uint64_t id1 = __atomic_load_n(&c->word, __ATOMIC_RELAXED), hits;
	struct near__id *block;
	bool is_unused;

	if (!id1)
		return false;
	block = near__idspace_block(s, id1 - 1);
	hits = __atomic_load_n(&block->hits, __ATOMIC_RELAXED);
	is_unused = hits == block->seen;
	block->seen = hits;
	return is_unused || !unused_only;
}

static unsigned put_cached(struct near_idspace *s, uint64_t id1)
{
	if (id1)
		bitmap_put(&s->rest->ids, (unsigned)id1 - 1);
	return id1 != 0;
}

/* Between the fences no sequence changes the words. */
static unsigned empty_closed(struct near_idspace *s, struct near__id_slot *const *closed,
			     unsigned n)
{
	unsigned taken = 0;

	if (!n)
		return 0;
	near__fence();
	for (unsigned i = 0; i < n; i++) {
		taken += put_cached(s, closed[i]->word);
		closed[i]->word = 0;
	}
	near__fence();
	for (unsigned i = 0; i < n; i++)
		near__gate_open(&closed[i]->gate);
	return taken;
}

/* With both locks: takes ids out of caches into the bitmap; of all slots, or of those that were not
 * used since the search before. Returns how many. */
static unsigned collect_cached(struct near_idspace *s, bool unused_only)
{
	struct near__id_slot *closed[BATCH];
	unsigned n = 0, taken = 0;

	for (unsigned i = 0; next_slot(s, &i); i++) {
		struct near__id_slot *c = slot_at(s, i);

		if (!is_wanted(s, c, unused_only))
			continue;
		if (near_percpu_is_fallback(i))
			taken += put_cached(s, take_cached(c));
		else if (near__gate_close(&c->gate))
			closed[n++] = c;
		if (n == BATCH) {
			taken += empty_closed(s, closed, n);
			n = 0;
		}
	}
	return taken + empty_closed(s, closed, n);
}

static void lock_all(struct near_idspace *s)
{
	near__gates_lock();
	near_lock_lock(s->rest->lock);
}

static void unlock_all(struct near_idspace *s)
{
	near_lock_unlock(s->rest->lock);
	near__gates_unlock();
}

/* ---- the block of an id ---- */

/* Acquire: pairs with the release below; for statistics. A worker has the id from the worker before
 * it. */
static bool is_ready(const struct near_idspace *s, unsigned id)
{
	return NEAR__BIT_LOAD(s->rest->ready, id, __ATOMIC_ACQUIRE);
}

/* Called when a worker has the id, which makes its block accessible the first time. Other threads
 * set other bits of the word. */
static int make_ready(struct near_idspace *s, unsigned id)
{
	struct near__id *block = near__idspace_block(s, id);
	int saved = errno, r;

	if (is_ready(s, id))
		return 0;
	r = mprotect(block, s->stride, PROT_READ | PROT_WRITE);
	errno = saved;
	if (r)
		return -ENOMEM;
	near_lock_lock(s->rest->lock);
	block->node = node_of_id(&s->rest->ids, id);
	near_lock_unlock(s->rest->lock);
	NEAR__BIT_SET(s->rest->ready, id, __ATOMIC_RELEASE);
	return 0;
}

/* ---- acquire ---- */

/* With the lock, from the bitmap. */
static int ids_take(struct near_idspace *s, unsigned node)
{
	int id = bitmap_take(&s->rest->ids, node);

	s->rest->counts.allocations += id >= 0;
	return id;
}

/* With both locks: what the caches of other slots have is taken first, and an id of another node
 * last. */
static int take_anywhere(struct near_idspace *s, unsigned node, bool is_single)
{
	struct near_idspace_stats *counts = &s->rest->counts;
	bool taken = collect_cached(s, false) != 0;
	int id = bitmap_take(&s->rest->ids, node);

	if (id < 0) {
		id = bitmap_take_foreign(&s->rest->ids);
		counts->foreign += id >= 0;
	}
	if (id >= 0)
		*(!taken      ? &counts->allocations
		  : is_single ? &counts->single
			      : &counts->migrations) += 1;
	return id;
}

/* The only thread of a process takes the lowest id from wherever it is cached: so it has one id,
 * whatever CPUs it runs on. With other threads, that would take what they use next. */
static int take_uncached(struct near_idspace *s, unsigned node)
{
	bool is_single = near__is_one_thread();
	int id = -EAGAIN;

	if (!is_single) {
		near_lock_lock(s->rest->lock);
		id = ids_take(s, node);
		near_lock_unlock(s->rest->lock);
	}
	if (id < 0) {
		lock_all(s);
		id = take_anywhere(s, node, is_single);
		unlock_all(s);
	}
	return id;
}

static void ids_put(struct near_idspace *s, int id, uint64_t *count)
{
	near_lock_lock(s->rest->lock);
	bitmap_put(&s->rest->ids, (unsigned)id);
	++*count;
	near_lock_unlock(s->rest->lock);
}

/* `counter`: of the id's block, of how it came. */
static inline int id_own(struct near_idspace *s, struct near_worker *w, uint64_t id1,
			 struct near__id *block, uint64_t *counter)
{
	NEAR__TSAN_ACQUIRE(block);
	block->owner = w;
	w->id1 = (uint32_t)id1;
	if (NEAR__UNLIKELY(near__id_count(counter) % NEAR__IDS_TRIM == 0))
		return near__idspace_renew(s, w);
	return (int)id1 - 1;
}

/* Of a cache: it has memory. */
static inline int id_own_cached(struct near_idspace *s, struct near_worker *w, uint64_t id1)
{
	struct near__id *block = near__idspace_block(s, id1 - 1);

	return id_own(s, w, id1, block, &block->hits);
}

/* `id` may be an error. */
static int ids_give(struct near_idspace *s, struct near_worker *w, int id)
{
	int err = id < 0 ? id : make_ready(s, (unsigned)id);
	struct near__id *block = near__idspace_block(s, (uint64_t)id);

	if (!err)
		return id_own(s, w, (uint64_t)id + 1, block, &block->taken);
	if (id >= 0)
		ids_put(s, id, &s->rest->counts.discards);
	return err;
}

/* Empties the caches that were not used since the search before, and exchanges the worker's id for
 * a lower one of its node, if there is one. */
int near__idspace_renew(struct near_idspace *s, struct near_worker *w)
{
	struct near__ids *ids = &s->rest->ids;
	int id = near_worker_id(w);
	struct near__id *block = near__idspace_block(s, (uint64_t)id);
	bool has_lower;

	lock_all(s);
	s->rest->counts.discards += collect_cached(s, true);
	has_lower = bitmap_has_lower(ids, (unsigned)block->node, (unsigned)id);
	if (has_lower) {
		block->owner = NULL;
		NEAR__TSAN_RELEASE(block);
		bitmap_put(ids, (unsigned)id);
		id = bitmap_take(ids, (unsigned)block->node);
		s->rest->counts.discards++;
	}
	unlock_all(s);
	if (!has_lower)
		return id;
	w->id1 = 0;
	return ids_give(s, w, id);
}

static inline int acquire_fallback(struct near_idspace *s, struct near_worker *w, struct fallback f)
{
	uint64_t id1 = take_cached(f.slot);

	return id1 ? id_own_cached(s, w, id1) : ids_give(s, w, take_uncached(s, f.node));
}

static __attribute__((noinline)) int acquire_again(struct near_idspace *s, struct near_worker *w)
{
	uint64_t id1;
	uint32_t slot;

	NEAR__TRY_WHILE(near__idspace_open(s, &slot)) {
		int result = near__idspace_try_acquire(s->slots, &id1);

		if (result == NEAR_SEQ_COMMITTED)
			return id_own_cached(s, w, id1);
		if (result == NEAR__NO_ID)
			return ids_give(s, w, take_uncached(s, node_of_slot(s, slot)));
	}
	return acquire_fallback(s, w, local_fallback(s));
}

/* A thread that is dead for good saves few registers. */
int near__idspace_acquire_slow(struct near_idspace *s, struct near_worker *w)
{
	return near__self.state > NEAR__THREAD_LIVE ? acquire_fallback(s, w, local_fallback(s))
						    : acquire_again(s, w);
}

/* ---- release ---- */

static void release_fallback(struct near_idspace *s, unsigned id, struct fallback f)
{
	if (near__idspace_block(s, id)->node != f.node)
		ids_put(s, (int)id, &s->rest->counts.discards);
	else if (!cache_id(f.slot, id + 1))
		ids_put(s, (int)id, &s->rest->counts.evictions);
}

static __attribute__((noinline)) void release_again(struct near_idspace *s, unsigned id)
{
	uint64_t node = near__idspace_block(s, id)->node;
	uint32_t slot;

	NEAR__TRY_WHILE(near__idspace_open(s, &slot)) {
		int result = near__idspace_try_release(s->slots, id + 1, node);

		if (result == NEAR_SEQ_COMMITTED)
			return;
		if (result != NEAR_SEQ_FAILED) {
			ids_put(s, (int)id,
				result == NEAR__CACHE_FULL ? &s->rest->counts.evictions
							   : &s->rest->counts.discards);
			return;
		}
	}
	release_fallback(s, id, local_fallback(s));
}

void near__idspace_release_slow(struct near_idspace *s, unsigned id)
{
	if (near__self.state > NEAR__THREAD_LIVE)
		release_fallback(s, id, local_fallback(s));
	else
		release_again(s, id);
}

void near__idspace_misuse(const struct near_idspace *s, const struct near_worker *w,
			  const char *call)
{
	char line[160];
	int id = near_worker_id(w);

	if (strcmp(call, "near_idspace_acquire") == 0 ||
	    (id >= 0 && (uint64_t)id < s->ids && near__idspace_block(s, (uint64_t)id)->owner == w))
		snprintf(line, sizeof(line), "%s: the worker has id %d already", call, id);
	else if (id < 0)
		snprintf(line, sizeof(line), "%s: the worker has no id", call);
	else
		snprintf(line, sizeof(line), "%s: id %d is not this worker's", call, id);
	near__die(line);
}

unsigned near_idspace_drain(struct near_idspace *s)
{
	unsigned n;

	lock_all(s);
	n = collect_cached(s, false);
	s->rest->counts.drains += n;
	unlock_all(s);
	return n;
}

int near_idspace_stats(struct near_idspace *s, struct near_idspace_stats *out, size_t size)
{
	struct near_idspace_stats known;

	near_lock_lock(s->rest->lock);
	known = s->rest->counts;
	known.used = bitmap_count_used(&s->rest->ids);
	known.highest = s->rest->ids.highest;
	near_lock_unlock(s->rest->lock);
	known.ids = (unsigned)s->ids;
	for (unsigned id = 0; id < known.highest; id++) {
		const struct near__id *block = near__idspace_block(s, id);

		if (!is_ready(s, id))
			continue;
		known.hits += __atomic_load_n(&block->hits, __ATOMIC_RELAXED);
		known.transfers += __atomic_load_n(&block->transfers, __ATOMIC_RELAXED);
	}
	for (unsigned i = 0; next_slot(s, &i); i++)
		known.cached += __atomic_load_n(&slot_at(s, i)->word, __ATOMIC_RELAXED) != 0;
	return near__copy_known(out, size, &known, sizeof(known));
}
