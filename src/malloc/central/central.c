/* SPDX-License-Identifier: MIT */
/* The central lists, by node and class: batches that move from one slot to another, and spans.
 * Lists of blocks are read and written outside of the lock, since this touches the blocks' memory.
 * */
#include "malloc/central/central.h"
#include "malloc/central/chains.h"
#include "malloc/central/spans.h"
#include "malloc/pages/pages.h"

#define MOST_FROM_CHAINS 512        /* lists that a step of decay gives to spans */
#define AT_ONCE NEAR__SPANS_AT_ONCE /* blocks that are returned to spans under one lock */

/* Spans of blocks of at most POPULATED bytes are populated, in a heap of at least POPULATED_FROM
 * pages. */
#define POPULATED 512
#define POPULATED_FROM (1u << 11)

struct central {
	struct near_lock lock;
	struct near__spans spans;
	uint32_t waiting, fewest; /* batches; the fewest since the last step of decay */
	uint64_t refills, spills; /* lists, so far */
} __attribute__((aligned(NEAR__CACHE_LINE)));

struct node {
	struct central classes[NEAR__SIZES + 1];
	uint64_t batches[NEAR__LISTS]; /* by class, from near__sizes[class].row on */
	struct near__chains chains[NEAR__CHAINS];
};

/* The first node is static: most machines have one node. */
static struct node first_node;
static struct node *nodes[NEAR__MAX_NODES] = {&first_node};

static struct central *central_of(unsigned node, unsigned class)
{
	return &nodes[node]->classes[class];
}

static uint64_t *batches_of(unsigned node, unsigned class)
{
	return &nodes[node]->batches[near__sizes[class].row];
}

/* ---- returning to spans ---- */

/* Spans with all their blocks. */
static void free_spans(struct central *c, struct near__span **empty, unsigned n)
{
	if (!n)
		return;
	near__spans_free(empty, n);
	near__heap_lock(&c->lock);
	for (unsigned i = 0; i < n; i++)
		near__spans_keep(&c->spans, empty[i]);
	near_lock_unlock(&c->lock);
}

static void give_blocks(struct central *c, char **blocks, struct near__span **spans, unsigned n)
{
	struct near__span *empty[AT_ONCE], *s;
	struct near__deferred misuse;
	unsigned empties = 0;

	near__defer_begin(&misuse);
	near__heap_lock(&c->lock);
	for (unsigned i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && spans[end] == spans[i];)
			end++;
		s = near__spans_give(&c->spans, spans[i], blocks + i, end - i);
		if (s)
			empty[empties++] = s;
	}
	near_lock_unlock(&c->lock);
	free_spans(c, empty, empties);
	near__defer_end(&misuse);
}

/* Returns the blocks to their spans. */
static void give_list(struct central *c, uint64_t list)
{
	char *blocks[AT_ONCE];
	struct near__span *spans[AT_ONCE];
	unsigned n = 0;

	while (!near__list_is_empty(list)) {
		blocks[n] = near__list_take(&list);
		*(uint64_t *)blocks[n] = near__span_mark(blocks[n]);
		spans[n] = near__span_of(blocks[n]);
		if (++n == AT_ONCE || near__list_is_empty(list)) {
			give_blocks(c, blocks, spans, n);
			n = 0;
		}
	}
}

/* All that were there when it began: if only as many return as make room for one request, the spans
 * that become free are few and far between. */
void near__central_make_room(unsigned node, uint32_t pages, uint32_t align)
{
	if (NEAR__LIKELY(!near__chains_have(NEAR__ANY_CLASS)) ||
	    near__pages_fit(node, pages, align))
		return;
	for (unsigned class = 1; class < NEAR__FIRST_UNCHAINED; class ++)
		for (uint32_t n = near__chains_have(class); n; n--) {
			uint64_t word = near__chains_take(nodes[node]->chains, class, false);

			if (!word)
				break;
			give_list(central_of(node, class), near__waiting_list(word));
		}
}

/* ---- taking ---- */

#define MOST_TAKEN 128 /* blocks in a batch, at most */

/* Blocks that have left their spans. */
struct taken {
	unsigned n, fresh; /* fresh: how many, from the first on, were never used */
	bool few;          /* the class has one span */
	char *blocks[MOST_TAKEN];
};

/* The first word of a block is marked before it returns to its span. If it has no mark, the program
 * has written to the block since, or has freed it twice: it is then in another list, too, or in
 * use. In a page that was returned to the system since then, the word is 0. */
static bool is_intact(const void *p)
{
	uint64_t word = *(const uint64_t *)p;

	return NEAR__LIKELY(word == near__span_mark(p)) ||
	       (!word && __atomic_load_n(&near__span_of(p)->discarded, __ATOMIC_RELAXED));
}

/* A block that was never used is not loaded: the page fault would map a page of zeros, and the link
 * would be a second fault. */
static void put_taken(uint64_t *list, const struct taken *t, unsigned i)
{
	void *p = t->blocks[i];

	if (i >= t->fresh && NEAR__UNLIKELY(!is_intact(p)))
		near__heap_misuse("write to a freed block, or freed twice", p);
	near__list_put(list, p);
}

/* In the order of their addresses: the CPU then loads lines of many blocks ahead, where a gap in
 * each list made a flood of 25 MB take half as long again. Of few blocks the first one differs from
 * class to class: spans begin at pages, and the first blocks of all classes would share a few lines
 * of the CPU's cache (a loop over 19 classes took a sixth longer). */
static uint64_t taken_list(unsigned class, const struct taken *t)
{
	unsigned first = t->few ? t->n * (class * 23 % 64) / 64 : 0;
	uint64_t list = NEAR__EMPTY_LIST;

	for (unsigned i = first; i-- > 0;)
		put_taken(&list, t, i);
	for (unsigned i = t->n; i-- > first;)
		put_taken(&list, t, i);
	return list;
}

/* The links of small blocks soon write to all pages of a span: one system call costs less than a
 * page fault for each. In a small heap, pages that stay unused would count more. */
static void span_populate(uint32_t first, unsigned class)
{
	if (near__sizes[class].size <= POPULATED && near__pages_used() >= POPULATED_FROM)
		near__os_populate(near__page_at(first), NEAR__SMALL_SPAN);
}

/* *node becomes its node: another one if that node has no memory left. */
static bool add_span(unsigned *node, unsigned class)
{
	struct central *c = central_of(*node, class);
	uint32_t count = near__sizes[class].pages, first;
	bool aligned = count * NEAR__PAGE == NEAR__SMALL_SPAN, zero;
	struct near__span *s;

	near__heap_lock(&c->lock);
	s = near__spans_spare(&c->spans);
	near_lock_unlock(&c->lock);
	s = near__span_begin(s, class);
	if (!s)
		return false;
	near__central_make_room(*node, count, aligned ? count : 1);
	first = near__pages_alloc(*node, count, aligned ? count : 1, &zero);
	if (first != NEAR__NONE) {
		if (zero && aligned)
			span_populate(first, class);
		near__span_place(s, first);
		s->untouched = zero;
		*node = near__node_of(first);
		c = central_of(*node, class);
	}
	near__heap_lock(&c->lock);
	if (first == NEAR__NONE) {
		near__spans_keep(&c->spans, s);
	} else {
		c->spans.count++;
		near__spans_add(&c->spans, s);
	}
	near_lock_unlock(&c->lock);
	return first != NEAR__NONE;
}

/* Fills either *list or *t. */
static void central_take(unsigned node, unsigned class, unsigned most, uint64_t *list,
			 struct taken *t)
{
	struct central *c = central_of(node, class);

	near__heap_lock(&c->lock);
	if (c->waiting) {
		*list = near__waiting_list(batches_of(node, class)[--c->waiting]);
		if (c->waiting < c->fewest)
			c->fewest = c->waiting;
	} else {
		t->n = near__spans_take(&c->spans, t->blocks, most, &t->fresh);
		t->few = c->spans.count <= 1;
	}
	c->refills += *list || t->n;
	near_lock_unlock(&c->lock);
}

unsigned near__central_batch(unsigned class)
{
	return near__is_single(class) ? near__single_batch(class) : near__sizes[class].batch;
}

uint64_t near__central_fetch(unsigned class, unsigned most, void **untouched)
{
	unsigned node = near__node_now();
	struct taken t;
	uint64_t list = 0;

	if (near__is_single(class)) {
		near__central_make_room(node, near__sizes[class].pages, 1);
		return near__single_take(node, class, most);
	}
	t.n = 0;
	if (near__chains_have(class))
		list = near__waiting_list(near__chains_take(nodes[node]->chains, class, true));
	if (list)
		return list;
	do {
		central_take(node, class, most, &list, &t);
	} while (!list && !t.n && add_span(&node, class));
	/* No memory is left, but other nodes may have blocks. */
	for (node = 0; !list && !t.n && node < near__heap.nodes; node++)
		central_take(node, class, most, &list, &t);
	if (list)
		return list;
	if (t.n != 1 || !t.fresh || !near__span_of(t.blocks[0])->untouched)
		return taken_list(class, &t);
	*untouched = t.blocks[0];
	return NEAR__EMPTY_LIST;
}

uint64_t near__central_take(unsigned class, unsigned most)
{
	void *untouched = NULL;
	uint64_t list = near__central_fetch(class, most, &untouched);

	if (untouched)
		near__list_put(&list, untouched);
	return list;
}

/* ---- giving ---- */

static void give_to(unsigned node, unsigned class, uint64_t list)
{
	struct central *c = central_of(node, class);
	uint64_t word;
	bool kept = false;

	if (near__is_single(class)) {
		near__single_give(class, list);
		return;
	}
	word = near__list_waiting(list);
	near__heap_lock(&c->lock);
	c->spills++;
	if (c->waiting < near__sizes[class].lists) {
		batches_of(node, class)[c->waiting++] = word;
		kept = true;
	}
	near_lock_unlock(&c->lock);
	if (!kept && !near__chains_put(nodes[node]->chains, class, word))
		give_list(c, list);
}

/* Gives each block to its node, except for those of node `kept`, which it returns;
 * NEAR__MAX_NODES: none. */
static uint64_t list_sort(unsigned class, uint64_t list, unsigned kept)
{
	uint64_t lists[NEAR__MAX_NODES + 1];

	for (unsigned i = 0; i <= NEAR__MAX_NODES; i++)
		lists[i] = NEAR__EMPTY_LIST;
	while (!near__list_is_empty(list)) {
		void *p = near__list_take(&list);

		near__list_put(&lists[near__node_of(near__page_of(p))], p);
	}
	for (unsigned i = 0; i < near__heap.nodes; i++)
		if (i != kept && lists[i] != NEAR__EMPTY_LIST)
			give_to(i, class, lists[i]);
	return lists[kept];
}

void near__central_give(unsigned class, uint64_t list)
{
	if (NEAR__LIKELY(near__heap.nodes == 1))
		give_to(0, class, list);
	else
		list_sort(class, list, NEAR__MAX_NODES);
}

uint64_t near__central_send_home(unsigned class, uint64_t list)
{
	return NEAR__LIKELY(near__heap.nodes == 1) ? list
						   : list_sort(class, list, near__node_now());
}

/* ---- decay ---- */

/* Gives the oldest batches to the spans: all, or those that no slot needed since the last step. */
static void give_batches(unsigned node, unsigned class, bool all)
{
	struct central *c = central_of(node, class);
	uint64_t lists[NEAR__MOST_LISTS], *batches = batches_of(node, class);
	unsigned n;

	near__heap_lock(&c->lock);
	n = all ? c->waiting : c->fewest;
	for (unsigned i = 0; i < n; i++)
		lists[i] = batches[i];
	for (unsigned i = n; i < c->waiting; i++)
		batches[i - n] = batches[i];
	c->waiting -= n;
	c->fewest = c->waiting;
	near_lock_unlock(&c->lock);
	for (unsigned i = 0; i < n; i++)
		give_list(c, near__waiting_list(lists[i]));
}

/* Half of the lists that nobody needed, as transfer caches do, but not too many in one call. */
static void give_chains(unsigned node, unsigned class, bool all, unsigned *left)
{
	for (unsigned i = 0; i < NEAR__CHAINS; i++) {
		struct near__chains *c = &nodes[node]->chains[i];
		uint32_t n = near__chain_step(c, class) / 2;
		uint64_t word;

		n = n < *left ? n : *left;
		*left -= n;
		for (n = all ? near__chains_have(class) : n;
		     n-- > 0 && (word = near__chain_take(c, class, false));)
			give_list(central_of(node, class), near__waiting_list(word));
	}
}

void near__central_decay(bool all)
{
	unsigned left = MOST_FROM_CHAINS;

	for (unsigned node = 0; node < near__heap.nodes; node++)
		for (unsigned class = 1; class <= NEAR__SIZES; class ++) {
			if (__atomic_load_n(&central_of(node, class)->waiting, __ATOMIC_RELAXED))
				give_batches(node, class, all);
			if (near__chains_have(class))
				give_chains(node, class, all, &left);
		}
}

/* Serialises discards, and excludes forks: a child would not have the blocks that the discarding
 * thread holds. Taken before the locks of spans and pages. */
static struct near_lock discarding;

/* The lock is not held while the system takes the pages: the span's free blocks appear to be in use
 * to other threads. */
static size_t discard_in(struct central *c, unsigned quarter)
{
	struct near__held held = {0};
	struct near__span *s, *empty;
	size_t all = 0;

	near__heap_lock(&c->lock);
	near__spans_begin(&c->spans, quarter);
	while ((s = near__spans_next(&c->spans))) {
		if (!s->here)
			continue;
		near__span_hold(&c->spans, s, &held);
		near_lock_unlock(&c->lock);
		all += near__span_discard(s, &held);
		near__heap_lock(&c->lock);
		empty = near__span_release(&c->spans, s, &held);
		if (empty) {
			near_lock_unlock(&c->lock);
			free_spans(c, &empty, 1);
			near__heap_lock(&c->lock);
		}
	}
	near_lock_unlock(&c->lock);
	return all;
}

size_t near__central_discard(void)
{
	size_t all = 0;

	near_lock_lock(&discarding);
	for (unsigned node = 0; node < near__heap.nodes; node++)
		for (unsigned class = 1; class <= NEAR__SIZES; class ++)
			for (unsigned q = 0; q < NEAR__QUARTERS; q++)
				all += discard_in(central_of(node, class), q);
	near_lock_unlock(&discarding);
	return all;
}

void near__central_stats(unsigned class, struct near__central_stats *out)
{
	*out = (struct near__central_stats){0};
	if (near__is_single(class))
		near__single_stats(class, out);
	for (unsigned node = 0; node < near__heap.nodes; node++) {
		struct central *c = central_of(node, class);

		near__heap_lock(&c->lock);
		out->out += c->spans.out;
		out->spans += c->spans.count;
		out->carved += c->spans.carved;
		out->refills += c->refills;
		out->spills += c->spills;
		for (unsigned i = 0; i < c->waiting; i++)
			out->waiting += near__waiting_length(batches_of(node, class)[i]);
		near_lock_unlock(&c->lock);
		near__chains_stats(nodes[node]->chains, class, &out->waiting, &out->refills);
	}
}

/* ---- initialisation, fork ---- */

bool near__central_init(void)
{
	size_t size = sizeof(first_node) + NEAR__CACHE_LINE;

	for (unsigned i = 1; i < near__heap.nodes; i++) {
		uint32_t number = near__meta_alloc(size);
		uintptr_t at;

		if (!number)
			return false;
		at = (uintptr_t)near__meta_at(number) + NEAR__CACHE_LINE - 1;
		nodes[i] = (struct node *)(at - at % NEAR__CACHE_LINE);
	}
	return true;
}

void near__central_fork(near__fork_step *step)
{
	step(&discarding);
	for (unsigned node = 0; node < near__heap.nodes; node++) {
		near__chains_fork(nodes[node]->chains, step);
		for (unsigned class = 1; class <= NEAR__SIZES; class ++)
			step(&central_of(node, class)->lock);
	}
}
