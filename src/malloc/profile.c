/* SPDX-License-Identifier: MIT */
/* profile: samples allocations for the heap profile.
 *
 * One byte in `heap_sample` is chosen, at random distances (exponential, so that no pattern of the
 * program meets it), counted over the bytes that a thread asks for; the allocation that it lies in
 * is the sample. So each has the chance 1 - exp(-size / heap_sample), which tools undo. All
 * allocations are counted, not those alone that refill a list: who allocates and frees in turn
 * meets the empty list much more often than who keeps what it gets, and would fill the profile.
 * Hence a profiled program leaves the fast path of malloc; that of free stays. Others pay nothing.
 *
 * A sampled block has granules of its own, by whose kind free knows it. */
#include <string.h>

#include "profile.h"

#include "conf.h"
#include "fast.h"
#include "hooks.h"

/* What `owner` of a sampled block names. */
struct sample {
	uint32_t granules, bucket; /* of a sample that is not in use, `bucket` is the next one */
	size_t size, usable;
};

uint32_t near__buckets[NEAR__BUCKET_CHAINS];
static struct near_lock lock; /* of the buckets' numbers, and of these: */
static uint32_t spare, seeds;

static __thread struct {
	int64_t left; /* bytes to the next sample */
	uint64_t random;
	bool seeded, busy; /* busy: the unwinder works, and what it asks for is not counted */
} own __attribute__((tls_model("initial-exec")));

static bool on, constructed;

NEAR__RUN_EARLY void near__profile_init(void)
{
	if (near__malloc_conf.profile.text) {
		near__heap.hooks = NEAR__PROFILED;
		near__profile_files_init();
	}
}

NEAR__RUN_EARLY void near__profile_fork(near__fork_step *step)
{
	step(&lock);
}

/* The unwinder may be loaded once constructors run. Blocks from before are in no profile. */
static NEAR__RUN_EARLY bool prime(void)
{
	if (!constructed || near__heap.hooks != NEAR__PROFILED || own.busy)
		return false;
	own.busy = true;
	__atomic_store_n(&on, near__stack_prime(), __ATOMIC_RELEASE);
	own.busy = false;
	return on;
}

__attribute__((constructor)) static void begin(void)
{
	constructed = true;
	prime();
}

/* ---- when ---- */

/* xorshift64*, by Vigna. The first thread to come has always the same numbers. */
static uint64_t next_random(void)
{
	if (!own.seeded) {
		uint64_t seed = __atomic_add_fetch(&seeds, 1, __ATOMIC_RELAXED);

		own.seeded = true;
		own.random = seed * UINT64_C(0x9e3779b97f4a7c15);
	}
	own.random ^= own.random >> 12;
	own.random ^= own.random << 25;
	own.random ^= own.random >> 27;
	return own.random * UINT64_C(0x2545f4914f6cdd1d);
}

/* -log2(u), u in (0, 1] in units of 2^-64, times 2^16. Bits behind the point by squaring. */
static uint64_t minus_log2(uint64_t u)
{
	unsigned zeros;
	uint64_t log = 0;

	u += u == 0;
	zeros = (unsigned)__builtin_clzll(u);
	u = u << zeros >> 32; /* 1 to 2, 31 bits behind the point */
	for (int i = 0; i < 16; i++) {
		u = u * u >> 31;
		log = log * 2 + (u >> 32);
		u >>= u >> 32;
	}
	return ((uint64_t)zeros + 1) * 65536 - log;
}

/* -ln(u) * heap_sample. */
static int64_t next_distance(void)
{
	uint64_t rate = near__malloc_conf.heap_sample, ln;

	rate = rate < (uint64_t)1 << 40 ? rate : (uint64_t)1 << 40;
	ln = minus_log2(next_random()) * 45426 >> 16; /* ln 2 * 65536 */
	return (int64_t)(rate * ln >> 16);
}

/* Counts an allocation. True: it is to be sampled. */
static bool is_chosen(size_t n)
{
	if (own.busy || n > near__heap.size)
		return false;
	if (!NEAR__LIKELY(__atomic_load_n(&on, __ATOMIC_ACQUIRE)) && !prime())
		return false;
	if (!own.seeded)
		own.left = next_distance();
	own.left -= (int64_t)n;
	if (NEAR__LIKELY(own.left > 0))
		return false;
	own.left = next_distance();
	return true;
}

/* ---- what ---- */

static uint32_t chain_of(const void *const *stack, unsigned depth)
{
	uint64_t h = depth;

	for (unsigned i = 0; i < depth; i++)
		h = (h ^ (uintptr_t)stack[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 32) % NEAR__BUCKET_CHAINS;
}

/* 0: no memory. */
static uint32_t bucket_for(const void *const *stack, unsigned depth)
{
	uint32_t *chain = &near__buckets[chain_of(stack, depth)], number;
	struct near__bucket *b;

	for (number = *chain; number; number = b->next) {
		b = near__meta_at(number);
		if (b->depth == depth && memcmp(b->stack, stack, depth * sizeof(*stack)) == 0)
			return number;
	}
	number = near__meta_alloc(sizeof(*b) + depth * sizeof(*stack));
	if (!number)
		return 0;
	b = near__meta_at(number);
	b->next = *chain;
	b->depth = depth;
	memcpy(b->stack, stack, depth * sizeof(*stack));
	/* Pairs with the acquire of who writes the file. */
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

/* One by one; the lock orders who adds. */
static void add(uint64_t *sum, uint64_t n)
{
	__atomic_store_n(sum, *sum + n, __ATOMIC_RELAXED);
}

static uint32_t record(const void *const *stack, unsigned depth, const struct sample *of)
{
	uint32_t number, bucket;
	struct near__bucket *b;

	near_lock_lock(&lock);
	bucket = bucket_for(stack, depth);
	number = bucket ? new_sample() : 0;
	if (number) {
		b = near__meta_at(bucket);
		add(&b->allocs, 1);
		add(&b->alloc_bytes, of->size);
		*(struct sample *)near__meta_at(number) = *of;
		((struct sample *)near__meta_at(number))->bucket = bucket;
	}
	near_lock_unlock(&lock);
	return number;
}

/* Makes a sample of a large block that nobody else has yet. Without memory for it, it stays what it
 * is. */
static void sample(void *p, size_t n, const void *caller)
{
	uint32_t first = near__granule_of(p), number;
	struct sample s = {.granules = near__heap.owner[first], .size = n};
	const void *stack[NEAR__STACK_MAX];
	unsigned depth;

	s.usable = n > NEAR__SMALL_MAX ? (size_t)s.granules << NEAR__GRANULE_SHIFT
				       : near__sizes[near__class_of(n)].size;
	own.busy = true;
	depth = near__stack_take(stack, caller);
	own.busy = false;
	number = record(stack, depth, &s);
	if (number) {
		near__heap.owner[first] = number;
		near__set_kind(first, NEAR__SAMPLED);
	}
}

static struct sample *sample_of(const void *p)
{
	uint32_t first = near__granule_of(p);

	if (p != near__granule_at(first))
		near__heap_die("a pointer into a block", p);
	return near__meta_at(near__heap.owner[first]);
}

/* It is a large block again. */
static void forget(void *p)
{
	uint32_t first = near__granule_of(p), number = near__heap.owner[first];
	struct sample *s = sample_of(p);
	struct near__bucket *b = near__meta_at(s->bucket);

	near__heap.owner[first] = s->granules;
	near__set_kind(first, NEAR__LARGE);
	near_lock_lock(&lock);
	add(&b->frees, 1);
	add(&b->free_bytes, s->size);
	s->bucket = spare;
	spare = number;
	near_lock_unlock(&lock);
}

/* ---- calls ---- */

static void *alloc_unsampled(size_t align, size_t n, bool *zero)
{
	void *p;

	if (n > NEAR__TABLE_MAX || align != 1 || !near__heap.front ||
	    !near__pop_by_slot(near__entry_for(n), &p))
		return near__plain_alloc(align, n, zero);
	*zero = false;
	return p;
}

void *near__profile_alloc(size_t align, size_t n, const void *caller, bool *zero)
{
	void *p = is_chosen(n) ? near__large_alloc(n ? n : 1, align, zero) : NULL;

	if (!p)
		return alloc_unsampled(align, n, zero);
	sample(p, n, caller);
	return p;
}

void near__profile_free(void *p)
{
	forget(p);
	near__large_free(p);
}

size_t near__profile_size(const void *p)
{
	return sample_of(p)->usable;
}

/* Both sizes are large. What grows in place counts as new, too: it is, to who looks at the
 * profile. */
static void *resize_large(void *p, size_t n, const void *caller)
{
	void *q;

	if (near__heap.kind[near__granule_of(p)] == NEAR__SAMPLED)
		forget(p);
	q = near__large_resize(p, n);
	if (!q)
		return near__no_memory();
	if (is_chosen(n))
		sample(q, n, caller);
	return q;
}

void *near__profile_realloc(void *p, size_t n, const void *caller)
{
	size_t had = near__usable_size(p);
	bool zero = false;
	void *q;

	if (had > NEAR__SMALL_MAX && n > NEAR__SMALL_MAX)
		return resize_large(p, n, caller);
	if (n <= had && n > had / 2)
		return p;
	q = near__profile_alloc(1, n, caller, &zero);
	if (!q)
		return NULL;
	memcpy(q, p, had < n ? had : n);
	near__plain_free(p);
	return q;
}
