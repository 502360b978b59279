/* SPDX-License-Identifier: MIT */
/* memory: what objects of one type cost that several threads replace again and again: those in use,
 * and those that lists keep. */
#include "bench.h"

#include <nearcpu/malloc.h>
#include <nearcpu/pool.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define OBJECTS 200000
#define BYTES 72

static _Atomic(char *) *objects;

static inline void object_replace(uint64_t i, char *fresh, void (*put)(void *object))
{
	memset(fresh, (int)i, BYTES);
	/* acquire and release: what another thread wrote to the old object is complete. */
	fresh = atomic_exchange_explicit(&objects[i], fresh, memory_order_acq_rel);
	if (fresh)
		put(fresh);
}

static int no_init(void) { return 0; }

static struct near_pool pool;

static int init_pool(void)
{
	const struct near_pool_options o = {.align = 8};

	return near_pool_init(&pool, BYTES, &o);
}

static void put_near(void *object) { near_pool_put(&pool, object); }
static void replace_near(uint64_t i) { object_replace(i, near_pool_get(&pool), put_near); }
static void replace_glibc(uint64_t i) { object_replace(i, malloc(BYTES), free); }
static void replace_malloc(uint64_t i) { object_replace(i, near_malloc(BYTES), near_free); }

static int run_with(struct bench_run *run, struct bench_sample *out, int (*init)(void),
		    void (*one)(uint64_t i))
{
	objects = bench_alloc(run->iterations, sizeof(*objects));
	return objects ? bench_grow(run, out, init, one) : -ENOMEM;
}

BENCH_RUN(run_near, run_with(run, out, init_pool, replace_near))
BENCH_RUN(run_glibc, run_with(run, out, no_init, replace_glibc))
BENCH_RUN(run_malloc, run_with(run, out, no_init, replace_malloc))

static const struct bench_row rows[] = {
	{"glibc", "malloc, glibc", .run = run_glibc},
	{"near", "near_pool", BENCH_LIVE, .run = run_near},
	{"near-off", "near_pool, rseq off", BENCH_OFF, .run = run_near},
	{"malloc", "near_malloc", BENCH_OURS, .run = run_malloc},
};

BENCH(bench_memory_pool, "memory", "pool", "Memory of 200,000 objects of 72 bytes", "an object",
      "Each of four threads replaces each of 200,000 objects, several times. Counted is "
      "the growth of resident memory. ",
      rows, BENCH_FIGURES({"an object of 72 bytes in a pool", "near", NULL, .goal = 80}),
      .kind = BENCH_MEMORY, .iterations = OBJECTS, .threads = 4);
