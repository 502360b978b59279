/* SPDX-License-Identifier: MIT */
/* pattern: the programs behind `nearcpu bench malloc`.
 *
 * One executable of plain C holds them all: it knows nothing of the allocator that is loaded before
 * it. A pattern does a given number of rounds, whatever the allocator and the number of threads,
 * and writes what it allocates, as a program would: small blocks entirely, large ones page by page.
 *
 * To add a pattern: one struct pattern, one line in main.c, one in bench/malloc.c.
 */
#ifndef BENCH_MALLOC_PATTERN_H
#define BENCH_MALLOC_PATTERN_H

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 4096
#define WHOLE 1024 /* larger blocks are written page by page behind this */

struct latency;

struct worker {
	struct run *run;
	unsigned index;
	uint64_t rounds;    /* this thread's share, at least 1 */
	uint64_t countdown; /* calls until one is timed */
	uint64_t interval;  /* what countdown began with */
	uint64_t calls;     /* before that */
	uint64_t random;
	struct latency *latency; /* NULL: none is timed */
};

/* Where the loop takes its blocks from. */
struct heap {
	const char *name;
	void *(*alloc)(size_t n);
	void (*release)(void *p);
};

struct run {
	unsigned threads;
	uint64_t rounds;
	const struct heap *heap;
	unsigned every; /* one call in `every` is timed */
	pthread_barrier_t barrier;
	uint64_t resident; /* the result of a pattern of memory at the end; 0: not measured yet */
	uint64_t pause_ms; /* before that is measured */
};

struct pattern {
	const char *name;
	uint64_t rounds; /* in all; by default */
	unsigned every;  /* 0: as usual; less for those that make few calls */
	bool at_end;     /* memory is what is resident at the end, not the peak */
	void (*setup)(struct run *run, struct worker *w);
	void (*work)(struct worker *w);
};

/* clang-format off */
#define PATTERNS(X) \
	X(loop) X(exchange) X(larson) X(small) X(far) X(mixed) X(grow) X(zeroed) X(large) \
	X(fragment) X(burst) X(churn) X(idle) X(compiler) X(interpreter) X(cache) X(flood) \
	X(flood_many) X(flood_16) X(flood_64) X(stay) X(usable) \
	X(startup) X(freed) X(waiting) X(ended)
/* clang-format on */
#define DECLARED(name) extern const struct pattern pattern_##name;
PATTERNS(DECLARED)

/* What follows are further members. */
#define PATTERN(id, name_, rounds_, work_, ...)                                                    \
	const struct pattern pattern_##id = {                                                      \
		.name = name_, .rounds = rounds_, .work = work_, __VA_ARGS__}

/* heaps.c: NULL: no such heap. */
const struct heap *heap_find(const char *name);

/* main.c */

/* Waits for all threads of the run. Each pattern waits when its threads have what they keep, and
 * again before they free it: otherwise a thread with little to do has ended before the next one
 * begins, and the peak depends on the scheduler. */
void meet(struct worker *w);

void pause_ms(uint64_t ms);

/* What is resident now is the result, of a pattern of the memory at the end. */
void note_resident(struct run *run);

/* A thread that ends before its caller goes on. */
void worker_run(struct worker *w, void (*work)(struct worker *w));

__attribute__((noreturn, cold)) void die(const char *what);

/* latency.c */
struct latency *latency_new(void);
uint64_t latency_next(struct worker *w);
double latency_quantile(const struct worker *workers, unsigned count, double q);
void *timed_malloc(struct worker *w, size_t n);
void *timed_calloc(struct worker *w, size_t n);
void *timed_realloc(struct worker *w, void *p, size_t n);
void timed_free(struct worker *w, void *p);
size_t timed_usable(struct worker *w, void *p);

static inline uint64_t worker_calls(const struct worker *w)
{
	return w->calls + w->interval - w->countdown;
}

/* xorshift. */
static inline uint32_t random_next(struct worker *w)
{
	uint64_t x = w->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	w->random = x;
	return (uint32_t)(x >> 16);
}

/* 0 ... n - 1 */
static inline uint32_t random_below(struct worker *w, uint32_t n)
{
	return (uint32_t)((uint64_t)random_next(w) * n >> 32);
}

static inline uint32_t random_between(struct worker *w, uint32_t least, uint32_t most)
{
	return least + random_below(w, most - least + 1);
}

/* Each power of two is as likely as the next: 2^from ... 2^to - 1 */
static inline uint32_t random_log(struct worker *w, unsigned from, unsigned to)
{
	uint32_t base = (uint32_t)1 << (from + random_below(w, to - from));

	return base + random_below(w, base);
}

static inline void *w_malloc(struct worker *w, size_t n)
{
	void *p = __builtin_expect(--w->countdown == 0, 0) ? timed_malloc(w, n)
							   : malloc(n); /* NOLINT: 0, too */

	if (__builtin_expect(!p, 0))
		die("no memory");
	return p;
}

static inline void *w_calloc(struct worker *w, size_t n)
{
	void *p = __builtin_expect(--w->countdown == 0, 0) ? timed_calloc(w, n) : calloc(1, n);

	if (__builtin_expect(!p, 0))
		die("no memory");
	return p;
}

static inline void *w_realloc(struct worker *w, void *p, size_t n)
{
	p = __builtin_expect(--w->countdown == 0, 0) ? timed_realloc(w, p, n) : realloc(p, n);
	if (__builtin_expect(!p, 0))
		die("no memory");
	return p;
}

static inline void w_free(struct worker *w, void *p)
{
	if (__builtin_expect(--w->countdown == 0, 0))
		timed_free(w, p);
	else
		free(p);
}

static inline size_t w_usable(struct worker *w, void *p)
{
	return __builtin_expect(--w->countdown == 0, 0) ? timed_usable(w, p)
							: malloc_usable_size(p);
}

/* From `from` to `n`, as a program writes it. */
static inline void touch(char *p, size_t from, size_t n)
{
	if (from < WHOLE)
		memset(p + from, (int)n & 0xff, (n < WHOLE ? n : WHOLE) - from);
	for (size_t at = from < WHOLE ? WHOLE : from; at < n; at += PAGE)
		p[at] = (char)at;
}

/* Blocks that know their size, so that each is checked when it is freed: at least 16 bytes. */
static inline void *block_new(struct worker *w, size_t n)
{
	char *p = w_malloc(w, n);

	touch(p, 0, n);
	memcpy(p, &n, sizeof(n));
	p[n - 1] = (char)~n;
	return p;
}

static inline void block_free(struct worker *w, void *p)
{
	size_t n;

	if (!p)
		return;
	memcpy(&n, p, sizeof(n));
	if (n < 16 || n > (size_t)1 << 30 || ((char *)p)[n - 1] != (char)~n)
		die("a block's content has changed");
	w_free(w, p);
}

#endif
