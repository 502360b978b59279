/* SPDX-License-Identifier: MIT */
/* memory: what a million counters cost that several threads add to.
 *
 * The handles (a struct near_counter each) are allocated and touched first and not counted.
 * Counted is how much resident memory grows from then until every thread has added to every
 * counter, with what the threads themselves need.
 */
#include "bench.h"

#include <nearcpu/counter.h>
#include <nearcpu/rseq.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNTERS 1000000
#define LINE_BYTES 64

/* So that the threads overlap on a busy machine, too: those that run one after the other share a
 * slot. */
#define PASSES 8

static uint64_t counters;

/* By the page tables, since the counters behind statm lag by 32 pages and more for each CPU.
 * Pages of files are left out: the kernel maps several at a time. */
static uint64_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/smaps_rollup", "re");
	unsigned long long kilobytes = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Anonymous: %llu kB", &kilobytes) == 1)
			break;
	if (f)
		fclose(f);
	return kilobytes * 1024;
}

/* Each thread adds to all counters, starting with one of its own, on a CPU of its own and
 * together with the others: a counter then has a copy for each of them. */
struct adder {
	pthread_t id;
	unsigned index;
	uint64_t first;
	void (*add)(uint64_t i);
	pthread_mutex_t *start;
};

static void *add_to_all(void *arg)
{
	struct adder *a = arg;

	bench_pin(bench_allowed_cpu(a->index));
	pthread_mutex_lock(a->start);
	pthread_mutex_unlock(a->start);
	for (uint64_t i = 0; i < counters * PASSES; i++)
		a->add((a->first + i) % counters);
	return NULL;
}

static int add_by_threads(unsigned threads, void (*add)(uint64_t i))
{
	pthread_mutex_t start = PTHREAD_MUTEX_INITIALIZER;
	struct adder *adders = calloc(threads, sizeof(*adders));
	unsigned started;
	int err = adders ? 0 : ENOMEM;

	pthread_mutex_lock(&start);
	for (started = 0; started < threads && !err; started += !err) {
		adders[started] = (struct adder){.index = started,
						 .first = counters / threads * started,
						 .add = add,
						 .start = &start};
		err = pthread_create(&adders[started].id, NULL, add_to_all, &adders[started]);
	}
	pthread_mutex_unlock(&start);
	while (started--)
		pthread_join(adders[started].id, NULL);
	free(adders);
	return -err;
}

int bench_grow(struct bench_run *run, struct bench_sample *out, int (*init)(void),
	       void (*add)(uint64_t i))
{
	uint64_t before = resident_bytes();
	int err;

	counters = run->iterations;
	err = init();

	if (!err)
		err = add_by_threads(run->threads, add);
	*out = (struct bench_sample){.ops = counters, .bytes = resident_bytes() - before};
	run->done = counters * PASSES * run->threads;
	return err;
}

void *bench_reserve(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	madvise(p, size, MADV_NOHUGEPAGE);
	return p;
}

static struct near_counter *handles;

static int init_near(void)
{
	int err = 0;

	for (uint64_t i = 0; i < counters && !err; i++)
		err = near_counter_init(&handles[i]);
	return err;
}

static void add_near(uint64_t i) { near_counter_add(&handles[i], 1); }

static int run_near(struct bench_run *run, struct bench_sample *out)
{
	uint64_t sum = 0;
	int err;

	counters = run->iterations;
	handles = bench_alloc(counters, sizeof(*handles));
	if (!handles)
		return -ENOMEM;
	err = bench_grow(run, out, init_near, add_near);
	for (uint64_t i = 0; i < counters && !err; i++)
		sum += (uint64_t)near_counter_read(&handles[i]);
	run->wrong = err ? NULL : bench_compare(sum, run->done);
	return err;
}

/* Copy c of counter i is the word at i * stride + c * shift. */
static _Atomic uint64_t *words;
static size_t stride, shift, word_count;

static int init_words(void)
{
	words = bench_reserve(word_count * sizeof(*words));
	return words ? 0 : -ENOMEM;
}

static void add_word(uint64_t i)
{
	size_t copy = shift ? (size_t)sched_getcpu() * shift : 0;

	atomic_fetch_add_explicit(&words[i * stride + copy], 1, memory_order_relaxed);
}

static int run_words(struct bench_run *run, struct bench_sample *out, size_t between_counters,
		     size_t between_cpus, size_t all)
{
	uint64_t sum = 0;
	int err;

	stride = between_counters;
	shift = between_cpus;
	word_count = all;
	err = bench_grow(run, out, init_words, add_word);
	for (size_t i = 0; i < word_count && !err; i++)
		sum += atomic_load_explicit(&words[i], memory_order_relaxed);
	run->wrong = err ? NULL : bench_compare(sum, run->done);
	return err;
}

#define LINE_WORDS (LINE_BYTES / sizeof(*words))
BENCH_RUN(run_one, run_words(run, out, 1, 0, run->iterations))
BENCH_RUN(run_lines, run_words(run, out, near_cpus() * LINE_WORDS, LINE_WORDS,
			       run->iterations *near_cpus() * LINE_WORDS))
BENCH_RUN(run_arrays, run_words(run, out, 1, run->iterations, run->iterations *near_cpus()))

static const char *missing_lines(void)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t most = (uint64_t)COUNTERS * LINE_BYTES * near_cpus();

	/* The check reads every line, so all of it can become page tables at least. */
	return most / page > (uint64_t)sysconf(_SC_AVPHYS_PAGES) / 2
		       ? "needs more than half of the free memory"
		       : NULL;
}

static const struct bench_row rows[] = {
	{"atomic", "one atomic each", .run = run_one},
	{"lines", "atomics, a line a CPU", .missing = missing_lines, .run = run_lines},
	{"arrays", "atomics, an array a CPU", .run = run_arrays},
	{"near-off", "nearcpu, rseq off", BENCH_OFF, .run = run_near},
	{"near", "nearcpu", BENCH_LIVE, .run = run_near},
};

BENCH(bench_memory, "memory", NULL, "Memory of a million counters", "a counter",
      "Two threads add to each of a million counters. Counted is the growth of "
      "resident memory, without the handles. One atomic each is small and slow, a cache "
      "line for each CPU is fast and large.",
      rows,
      BENCH_FIGURES({"a counter of a million, handles aside", "near", NULL, .goal = 18, .to = 2}),
      .kind = BENCH_MEMORY, .iterations = COUNTERS, .threads = 2, .core = true);
