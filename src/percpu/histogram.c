/* SPDX-License-Identifier: MIT */
/* near_histogram: creation, slow path, and how buckets are read and reset. */
#include "percpu/histogram.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/reserved.h"
#include "region/region.h"

#define ABOUT_EXACT_SUM 1u

static int histogram_configure(struct near_histogram *h, const struct near_histogram_options *o)
{
	uint64_t max = o && o->max ? o->max : UINT64_MAX;
	struct near_histogram_snapshot all = {.max = UINT64_MAX};

	memset(h, 0, sizeof(*h));
	if (o && (!NEAR__RESERVED_ARE_ZERO(o) || !(o->units >= 0 && o->units <= DBL_MAX)))
		return -EINVAL;
	h->units = o && o->units > 0 ? o->units : 1;
	h->precision = o && o->precision ? o->precision : NEAR_HISTOGRAM_PRECISION;
	h->exact_sum = o && o->exact_sum;
	if (h->precision > NEAR_HISTOGRAM_MAX_PRECISION)
		return -EINVAL;
	h->linear = (uint64_t)1 << h->precision;
	h->buckets = (uint32_t)near__histogram_bucket(max, h->precision, h->linear) + 1;
	all.precision = h->precision;
	h->max = near_histogram_snapshot_bucket(&all, h->buckets - 1).high;
	h->buckets += h->max < UINT64_MAX;
	return 0;
}

static struct near_histogram_snapshot histogram_shape(const struct near_histogram *h)
{
	return (struct near_histogram_snapshot){.max = h->max,
						.precision = h->precision,
						.buckets = h->buckets,
						.has_exact_sum = h->exact_sum};
}

/* Words of a copy: the buckets and the sum. */
static size_t words_of(const struct near_histogram *h)
{
	return h->buckets + (size_t)h->exact_sum;
}

/* Values below it are recorded by one sequence. */
static uint64_t inline_end(const struct near_histogram *h)
{
	return h->exact_sum ? 0 : h->max + (h->max < UINT64_MAX);
}

int near_histogram_init(struct near_histogram *h, const struct near_histogram_options *options)
{
	int err = histogram_configure(h, options);
	void *p;

	if (err)
		return err;
	err = near_percpu_alloc(words_of(h) * sizeof(int64_t), NEAR__CACHE_LINE, &p);
	if (err)
		return err;
	h->p = p;
	h->arena = (uintptr_t)p & ~NEAR__ARENA_MASK;
	h->percpu_end = inline_end(h);
	return 0;
}

/* What the directory has about it. */
static void histogram_describe(const struct near_histogram *h, struct near_region_object *o)
{
	o->kind = NEAR_REGION_HISTOGRAM;
	o->flags = 0;
	o->size = words_of(h) * sizeof(int64_t);
	o->about[0] = h->precision;
	o->about[1] = h->max;
	o->about[2] = h->exact_sum ? ABOUT_EXACT_SUM : 0;
	o->about[3] = 0;
}

static void use_region(struct near_histogram *h, const struct near_region *r, uint64_t offset)
{
	h->bases = (int64_t *)(r->base + offset);
	h->region = *r;
	h->region_end = inline_end(h);
}

int near_histogram_open_object(struct near_histogram *h, const struct near_region *r,
			       const struct near_region_object *o)
{
	static const char reason[] = "the object is no histogram";
	struct near_histogram_options options = {
		.precision = o->about[0] <= NEAR_HISTOGRAM_MAX_PRECISION ? (unsigned)o->about[0]
									 : 0,
		.exact_sum = o->about[2],
		.max = o->about[1]};
	struct near_region_object right;

	if (histogram_configure(h, &options))
		return near__reason_set(r, -EINVAL, reason);
	histogram_describe(h, &right);
	if (o->kind != right.kind || o->flags != right.flags || o->size != right.size ||
	    memcmp(o->about, right.about, sizeof(right.about)) != 0)
		return near__reason_set(r, -EINVAL, reason);
	use_region(h, r, o->offset);
	return 0;
}

int near_histogram_open(struct near_histogram *h, const struct near_region *r, const char *name,
			const char *labels, const struct near_histogram_options *options)
{
	struct near_region_object o = {.name = name, .labels = labels};
	int err = histogram_configure(h, options);

	if (err)
		return near__reason_set(
			r, err,
			"a histogram has a precision of at most 10, and its options "
			"reserved words of 0");
	histogram_describe(h, &o);
	err = near_region_open_object(r, &o);
	if (err == 0)
		use_region(h, r, o.offset);
	return err;
}

void near_histogram_destroy(struct near_histogram *h)
{
	if (h->p) {
		near_percpu_free(h->p);
		free(h->bases);
	}
	free(h->exemplars);
	memset(h, 0, sizeof(*h));
}

/* ---- recording ---- */

/* word[local slot] += n commits. */
static inline bool try_add(const struct near_histogram *h, uint64_t word, uint64_t n)
{
	return h->p ? near__histogram_try_add(h, word, n)
		    : near__region_try_add(&h->region, h->bases + word, (int64_t)n);
}

static void add_slow(const struct near_histogram *h, uint64_t word, uint64_t n)
{
	if (h->p)
		near__counter_add_slow(h->p + word, (int64_t)n);
	else
		near__region_add_slow(&h->region, h->bases + word, (int64_t)n);
}

/* Not inline: one sequence for all that use it. */
static __attribute__((noinline)) void word_add(const struct near_histogram *h, uint64_t word,
					       uint64_t n)
{
	if (!try_add(h, word, n))
		add_slow(h, word, n);
}

static uint64_t bucket_of(const struct near_histogram *h, uint64_t value)
{
	return value > h->max ? h->buckets - 1
			      : near__histogram_bucket(value, h->precision, h->linear);
}

/* The thread may be preempted, and its process killed, between the two adds; the value is then
 * counted and not in the sum. */
static __attribute__((noinline)) void record_with_sum(struct near_histogram *h, uint64_t bucket,
						      uint64_t value, uint64_t n)
{
	word_add(h, bucket, n);
	word_add(h, h->buckets, value * n);
}

/* Without an exact sum the sequence failed already, inline. */
void near__histogram_record_slow(struct near_histogram *h, uint64_t bucket, uint64_t value,
				 uint64_t n)
{
	if (value > h->max)
		bucket = h->buckets - 1;
	if (h->exact_sum)
		record_with_sum(h, bucket, value, n);
	else
		add_slow(h, bucket, n);
}

/* value + (value - interval) + ..., n of them, modulo 2^64. */
static uint64_t sum_of_terms(uint64_t value, uint64_t interval, uint64_t n)
{
	uint64_t pairs = n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1);

	return n * value - pairs * interval;
}

/* All terms of a bucket at once: an outage of a second with an interval of a nanosecond is a
 * billion terms in some thousand buckets. */
void near_histogram_record_corrected(struct near_histogram *h, uint64_t value, uint64_t interval)
{
	const struct near_histogram_snapshot all = histogram_shape(h);
	uint64_t left = interval && value >= interval ? value / interval : 1, n;

	for (; left; left -= n, value -= n * interval) {
		uint64_t bucket = bucket_of(h, value);
		uint64_t low = near_histogram_snapshot_bucket(&all, (unsigned)bucket).low;

		n = interval ? (value - low) / interval + 1 : 1;
		n = n < left ? n : left;
		word_add(h, bucket, n);
		if (h->exact_sum)
			word_add(h, h->buckets, sum_of_terms(value, interval, n));
	}
}

/* ---- reading ---- */

/* The next copy in use at or after *slot, or NULL. */
static const uint64_t *next_copy(const struct near_histogram *h, unsigned *slot)
{
	uint64_t offset;

	if (h->p)
		return near_percpu_next(h->p, slot) ? near_percpu_at(h->p, *slot) : NULL;
	offset = (uint64_t)((char *)h->bases - h->region.base);
	return near_region_next(&h->region, slot)
		       ? (const uint64_t *)near_region_at(&h->region, *slot, offset)
		       : NULL;
}

/* total[i] = the sum of word first + i over the slots. Sequences write by plain stores of eight
 * aligned bytes, so a load sees whole values. */
static void sum_words(const struct near_histogram *h, uint64_t *total, size_t first, size_t count)
{
	const uint64_t *copy;

	memset(total, 0, count * sizeof(*total));
	for (unsigned slot = 0; (copy = next_copy(h, &slot)); slot++)
		for (size_t i = 0; i < count; i++)
			total[i] += __atomic_load_n(&copy[first + i], __ATOMIC_RELAXED);
}

/* Moves the base of a word from `base` to its sum `now`, as near_counter_reset does, and returns by
 * how much. The release pairs with the acquire in `read_words`. */
static uint64_t move_base(const struct near_histogram *h, size_t word, int64_t base, uint64_t now)
{
	while ((int64_t)now != base &&
	       !__atomic_compare_exchange_n(&h->bases[word], &base, (int64_t)now, false,
					    __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sum_words(h, &now, word, 1);
	return now - (uint64_t)base;
}

/* Each bucket, and the sum, is as exact as a near_counter. The bases are loaded first, by an
 * acquire: what a reset took away is then not missing from the sums. The first reset makes the
 * bases; the acquire of their address pairs with the release in make_bases. */
static void read_words(const struct near_histogram *h, size_t first, size_t words, uint64_t *now,
		       uint64_t *base, bool reset)
{
	const int64_t *bases = __atomic_load_n(&h->bases, __ATOMIC_ACQUIRE);

	for (size_t i = 0; i < words; i++)
		base[i] = bases ? (uint64_t)__atomic_load_n(&bases[first + i], __ATOMIC_ACQUIRE)
				: 0;
	sum_words(h, now, first, words);
	for (size_t i = 0; i < words; i++)
		now[i] = reset ? move_base(h, first + i, (int64_t)base[i], now[i])
			       : now[i] - base[i];
}

/* The sum of the middles of what the buckets have, and how far it may be off. */
static void derive_sum(struct near_histogram_snapshot *s)
{
	for (unsigned i = 0; i < s->buckets; i++) {
		struct near_histogram_range r = near_histogram_snapshot_bucket(s, i);
		double n = (double)s->counts[i], middle = near__histogram_middle(r, s->max);

		s->sum += n * middle;
		s->sum_error += n * ((double)r.high - middle);
	}
}

/* Two that reset for the first time may both make them. */
static int make_bases(struct near_histogram *h)
{
	int64_t *made, *none = NULL;

	if (__atomic_load_n(&h->bases, __ATOMIC_ACQUIRE))
		return 0;
	made = near__heap_zeroed(words_of(h), sizeof(*made));
	if (!made)
		return -ENOMEM;
	if (!__atomic_compare_exchange_n(&h->bases, &none, made, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		free(made);
	return 0;
}

static int histogram_take(const struct near_histogram *h, struct near_histogram_snapshot *s,
			  bool reset)
{
	size_t words = words_of(h);

	*s = histogram_shape(h);
	s->counts = near__heap_zeroed(2 * words, sizeof(*s->counts));
	if (!s->counts)
		return -ENOMEM;
	read_words(h, 0, words, s->counts, s->counts + words, reset);
	for (unsigned i = 0; i < h->buckets; i++)
		s->count += s->counts[i];
	if (h->exact_sum)
		s->sum = (double)(s->exact_sum = s->counts[h->buckets]);
	else
		derive_sum(s);
	return 0;
}

int near_histogram_read(const struct near_histogram *h, struct near_histogram_snapshot *s)
{
	return histogram_take(h, s, false);
}

int near_histogram_reset(struct near_histogram *h, struct near_histogram_snapshot *s)
{
	int err = make_bases(h);

	if (err)
		memset(s, 0, sizeof(*s));
	return err ? err : histogram_take(h, s, true);
}

/* ---- in place ---- */

#define PARTS ((65u << NEAR_HISTOGRAM_MAX_PRECISION) / NEAR__HISTOGRAM_PART + 1)

struct near_histogram_range near__histogram_range_of(const struct near_histogram *h, unsigned i)
{
	const struct near_histogram_snapshot all = histogram_shape(h);

	return near_histogram_snapshot_bucket(&all, i);
}

uint64_t near__histogram_read_part(const struct near_histogram *h, unsigned first,
				   struct near__histogram_part *p)
{
	unsigned left = h->buckets - first;
	uint64_t total = 0;

	p->size = left < NEAR__HISTOGRAM_PART ? left : NEAR__HISTOGRAM_PART;
	read_words(h, first, p->size, p->counts, p->bases, false);
	for (unsigned i = 0; i < p->size; i++)
		total += p->counts[i];
	return total;
}

uint64_t near__histogram_exact_sum(const struct near_histogram *h)
{
	uint64_t sum, base;

	read_words(h, h->buckets, 1, &sum, &base, false);
	return sum;
}

/* The counts of the parts say which one has the rank, and only that is read again. It has no less
 * then, unless a reset came between: then the next value is returned. */
struct near_histogram_range near_histogram_percentile(const struct near_histogram *h,
						      double percent)
{
	const unsigned part = NEAR__HISTOGRAM_PART, parts = (h->buckets + part - 1) / part;
	uint64_t totals[PARTS], count = 0, below = 0, rank;
	struct near__histogram_part p;

	for (unsigned i = 0; i < parts; i++)
		count += totals[i] = near__histogram_read_part(h, i * part, &p);
	rank = near__histogram_rank(count, percent);
	for (unsigned n = 0; n < parts; n++) {
		if (below + totals[n] < rank) {
			below += totals[n];
			continue;
		}
		near__histogram_read_part(h, n * part, &p);
		for (unsigned i = 0; i < p.size; i++) {
			below += p.counts[i];
			if (below >= rank && p.counts[i])
				return near__histogram_range_of(h, n * part + i);
		}
	}
	return (struct near_histogram_range){0, 0};
}
