/* SPDX-License-Identifier: MIT */
/* latency: what single calls take, by the clock around one call in a few dozen. */
#include "malloc/pattern.h"
#include "clock.h"

#include <sys/mman.h>

/* Log-linear: 32 steps for each power of two, so that a value is known to 3 percent. */
#define STEPS 32
#define BUCKETS (40 * STEPS)

struct latency {
	uint32_t count[BUCKETS];
};

static uint64_t clock_cost;

static void find_clock_cost(void)
{
	clock_cost = UINT64_MAX;
	for (int i = 0; i < 10000; i++) {
		uint64_t start = now_ns(), took = now_ns() - start;

		if (took < clock_cost)
			clock_cost = took;
	}
}

/* Not by malloc, which is being measured. */
struct latency *latency_new(void)
{
	void *p = mmap(NULL, sizeof(struct latency), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		die("no memory");
	if (!clock_cost)
		find_clock_cost();
	return p;
}

uint64_t latency_next(struct worker *w)
{
	/* At random: a pattern has rhythms of its own. */
	return w->latency ? 1 + random_below(w, 2 * w->run->every - 1) : UINT64_MAX;
}

static unsigned bucket_of(uint64_t ns)
{
	unsigned shift = ns < STEPS ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 5;
	uint64_t i = (uint64_t)shift * STEPS + (ns >> shift);

	return i < BUCKETS ? (unsigned)i : BUCKETS - 1;
}

/* The middle of a bucket. */
static double value_of(unsigned bucket)
{
	unsigned shift = bucket < 2 * STEPS ? 0 : bucket / STEPS - 1;
	uint64_t first = (uint64_t)(bucket - shift * STEPS) << shift;

	return (double)first + (double)(((uint64_t)1 << shift) - 1) / 2;
}

static void record(struct worker *w, uint64_t start)
{
	uint64_t took = now_ns() - start;

	w->latency->count[bucket_of(took > clock_cost ? took - clock_cost : 0)]++;
	w->calls += w->interval;
	w->interval = w->countdown = latency_next(w);
}

void *timed_malloc(struct worker *w, size_t n)
{
	uint64_t start = now_ns();
	void *p = malloc(n);

	record(w, start);
	return p;
}

void *timed_calloc(struct worker *w, size_t n)
{
	uint64_t start = now_ns();
	void *p = calloc(1, n);

	record(w, start);
	return p;
}

void *timed_realloc(struct worker *w, void *p, size_t n)
{
	uint64_t start = now_ns();

	p = realloc(p, n);
	record(w, start);
	return p;
}

void timed_free(struct worker *w, void *p)
{
	uint64_t start = now_ns();

	free(p);
	record(w, start);
}

size_t timed_usable(struct worker *w, void *p)
{
	uint64_t start = now_ns();
	size_t n = malloc_usable_size(p);

	record(w, start);
	return n;
}

double latency_quantile(const struct worker *workers, unsigned count, double q)
{
	uint64_t all = 0, seen = 0;

	for (unsigned i = 0; i < count; i++)
		for (unsigned b = 0; b < BUCKETS; b++)
			all += workers[i].latency->count[b];
	for (unsigned b = 0; b < BUCKETS; b++) {
		for (unsigned i = 0; i < count; i++)
			seen += workers[i].latency->count[b];
		if (seen && (double)seen >= q * (double)all)
			return value_of(b);
	}
	return 0;
}
