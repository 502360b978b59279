/* SPDX-License-Identifier: MIT */
/* Samples allocations for the heap profile.
 *
 * sampler.h chooses them. All allocations are counted, not only those that refill a list: a thread
 * that frees what it allocates refills its list much less often than one that keeps its blocks, so
 * that the profile would be wrong. A profiled program therefore does not use the fast path of
 * malloc, but that of free. Other programs pay nothing.
 *
 * A sampled block has pages of its own, whose tag free finds. */
#include <string.h>

#include "base/block.h"
#include "malloc/diagnostics/profile.h"

#include "malloc/base/malloc_conf.h"
#include "malloc/cache/malloc_cache.h"
#include "malloc/diagnostics/hooks.h"
#include "malloc/diagnostics/sampler.h"
#include "malloc/pages/pages.h"

/* `owner` of a sampled block is the number of its sample. */
struct sample {
	uint32_t pages, bucket; /* `bucket` of an unused sample is the next one */
	size_t size, usable;
};

static struct near_lock lock; /* of the buckets' numbers, and of the samples */
static uint32_t spare;        /* samples that are not in use */

/* Of a thread; without memory for it the thread's allocations are not sampled. */
struct profiled {
	struct near__sampler sampler;
	bool busy; /* in the unwinder, whose allocations are not counted */
};
NEAR__BLOCK_PART(profiled, struct profiled, malloc);

static bool on, constructed;

void near__profile_init(void)
{
	if (near__malloc_conf.profile.text) {
		near__heap.hooks = NEAR__PROFILED;
		near__profile_files_init();
	}
}

void near__profile_fork(near__fork_step *step)
{
	step(&lock);
}

/* Otherwise it would sample the same allocations as its parent. */
void near__profile_fork_child(void)
{
	if (profiled_peek()->sampler.seed)
		profiled_peek()->sampler = (struct near__sampler){0};
	near__profile_files_fork_child();
}

/* The unwinder may be loaded once constructors run. Earlier blocks are in no profile. */
static bool unwinder_prime(void)
{
	struct profiled *own;

	if (!constructed || near__heap.hooks != NEAR__PROFILED)
		return false;
	own = profiled_own();
	if (!own || own->busy)
		return false;
	own->busy = true;
	__atomic_store_n(&on, near__stack_prime(), __ATOMIC_RELEASE);
	own->busy = false;
	return on;
}

__attribute__((constructor)) static void profile_begin(void)
{
	constructed = true;
	unwinder_prime();
}

/* Counts an allocation. True: the caller samples it. */
static bool count_sampled(size_t n)
{
	struct profiled *own = profiled_own();

	if (!own || own->busy || n > near__heap.size)
		return false;
	if (!NEAR__LIKELY(__atomic_load_n(&on, __ATOMIC_ACQUIRE)) && !unwinder_prime())
		return false;
	return near__sampler_take(&own->sampler, near__malloc_conf.heap_sample, n);
}

/* ---- samples ---- */

/* Eight ranges for each doubling. The tools use the mean size of a range: the number of blocks is
 * wrong by .2 %, that of bytes by less. */
static uint16_t sizes_of(size_t n)
{
	unsigned log = 63 - (unsigned)__builtin_clzll(n | 8);

	return (uint16_t)(log * 8 + (n >> (log - 3) & 7));
}

static uint32_t chain_of(const void *const *stack, unsigned depth, uint16_t sizes)
{
	uint64_t h = depth + ((uint64_t)sizes << 16);

	for (unsigned i = 0; i < depth; i++)
		h = (h ^ (uintptr_t)stack[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 32) % NEAR__BUCKET_CHAINS;
}

/* 0: no memory. */
static uint32_t bucket_for(const void *const *stack, unsigned depth, uint16_t sizes)
{
	uint32_t *chain = &near__buckets[chain_of(stack, depth, sizes)], number;
	struct near__bucket *b;

	for (number = *chain; number; number = b->next) {
		b = near__meta_at(number);
		if (b->depth == depth && b->sizes == sizes &&
		    memcmp(b->stack, stack, depth * sizeof(*stack)) == 0)
			return number;
	}
	number = near__meta_alloc(sizeof(*b) + depth * sizeof(*stack));
	if (!number)
		return 0;
	b = near__meta_at(number);
	b->next = *chain;
	b->depth = (uint16_t)depth;
	b->sizes = sizes;
	memcpy(b->stack, stack, depth * sizeof(*stack));
	/* Pairs with the acquire in for_each_bucket. */
	__atomic_store_n(chain, number, __ATOMIC_RELEASE);
	return number;
}

static uint32_t new_sample(void)
{
	uint32_t number = spare;

	if (!number)
		return near__meta_alloc(sizeof(struct sample));
	spare = ((struct sample *)near__meta_at(number))->bucket;
	return number;
}

/* The lock orders writers. The release pairs with the acquire in read_bucket: a reader that counts
 * a block as freed counts it as allocated. */
static void profile_add(uint64_t *sum, uint64_t n)
{
	__atomic_store_n(sum, *sum + n, __ATOMIC_RELEASE);
}

static uint32_t sample_record(const void *const *stack, unsigned depth, const struct sample *of)
{
	uint32_t number, bucket;
	struct near__bucket *b;

	near_lock_lock(&lock);
	bucket = bucket_for(stack, depth, sizes_of(of->size));
	number = bucket ? new_sample() : 0;
	if (number) {
		b = near__meta_at(bucket);
		profile_add(&b->allocs, 1);
		profile_add(&b->alloc_bytes, of->size);
		*(struct sample *)near__meta_at(number) = *of;
		((struct sample *)near__meta_at(number))->bucket = bucket;
	}
	near_lock_unlock(&lock);
	return number;
}

/* Makes a large block, which no other thread has yet, a sample. Without memory for the sample the
 * block stays as it is. */
static void sample_make(void *p, size_t n, size_t usable, const void *caller)
{
	struct profiled *own = profiled_peek(); /* its own: count_sampled has returned true */
	uint32_t first = near__page_of(p), number;
	struct sample s = {.pages = near__heap.owner[first], .size = n, .usable = usable};
	const void *stack[NEAR__STACK_MAX];
	unsigned depth;

	own->busy = true;
	depth = near__stack_take(stack, caller);
	own->busy = false;
	number = sample_record(stack, depth, &s);
	if (number) {
		near__heap.owner[first] = number;
		near__set_tag(first, NEAR__SAMPLED);
	}
	near__profile_interval();
}

static struct sample *sample_of(struct near__place at)
{
	if (at.offset % NEAR__PAGE)
		near__heap_die("a pointer into a block", at.offset);
	return near__meta_at(near__heap.owner[at.offset >> NEAR__PAGE_SHIFT]);
}

/* It is a large block again. */
static void sample_forget(struct near__place *at)
{
	uint32_t first = (uint32_t)(at->offset >> NEAR__PAGE_SHIFT);
	uint32_t number = near__heap.owner[first];
	struct sample *s = sample_of(*at);
	struct near__bucket *b = near__meta_at(s->bucket);

	near__heap.owner[first] = s->pages;
	near__set_tag(first, NEAR__LARGE);
	at->tag = NEAR__LARGE;
	near_lock_lock(&lock);
	profile_add(&b->frees, 1);
	profile_add(&b->free_bytes, s->size);
	s->bucket = spare;
	spare = number;
	near_lock_unlock(&lock);
}

/* ---- calls ---- */

static void *alloc_unsampled(size_t align, size_t n, bool *zero)
{
	void *p;

	if (n > NEAR__TABLE_MAX || align != 1 || !near__heap.caches ||
	    !near__pop_by_slot(near__entry_for(n), &p))
		return near__plain_alloc(align, n, zero);
	*zero = false;
	return p;
}

/* A small block keeps the usable size of its class. */
static void *alloc_sampled(size_t align, size_t n, const void *caller, bool *zero)
{
	size_t size = n > NEAR__SMALL_MAX ? n : near__sizes[near__class_of(n)].size;
	void *p = near__large_alloc(size, align, zero);

	if (p)
		sample_make(p, n, n > NEAR__SMALL_MAX ? near__large_size(near__offset_of(p)) : size,
			    caller);
	return p;
}

void *near__profile_alloc(size_t align, size_t n, const void *caller, bool *zero)
{
	void *p = count_sampled(n) ? alloc_sampled(align, n, caller, zero) : NULL;

	return p ? p : alloc_unsampled(align, n, zero);
}

void near__profile_forget(struct near__place *at)
{
	if (at->tag == NEAR__SAMPLED)
		sample_forget(at);
}

size_t near__profile_size(struct near__place at)
{
	return at.tag == NEAR__SAMPLED ? sample_of(at)->usable : near__plain_size(at);
}

/* Both sizes are large. A block that grows in place counts as a new allocation, which it is to a
 * reader of the profile. */
static void *resize_large(struct near__place at, size_t n, const void *caller)
{
	void *q;

	near__profile_forget(&at);
	q = near__large_resize(near__list_block(at.offset), n);
	if (!q)
		return near__no_memory();
	if (count_sampled(n))
		sample_make(q, n, near__large_size(near__offset_of(q)), caller);
	return q;
}

void *near__profile_realloc(struct near__place at, size_t n, const void *caller)
{
	size_t had = near__profile_size(at);
	void *p = near__list_block(at.offset), *q;
	bool zero = false;

	if (had > NEAR__SMALL_MAX && n > NEAR__SMALL_MAX)
		return resize_large(at, n, caller);
	if (n <= had && n > had / 2)
		return near__plain_cut(p, had, n);
	q = near__profile_alloc(1, n, caller, &zero);
	if (!q)
		return NULL;
	memcpy(q, p, had < n ? had : n);
	near__profile_forget(&at);
	near__plain_free(at);
	return q;
}
