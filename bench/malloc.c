/* SPDX-License-Identifier: MIT */
/* malloc: allocators, each loaded before the same programs: the tutorial's loop as a table, and a
 * suite of patterns. The files in malloc/ describe the patterns. */
#include "bench.h"

#define GLIBC                                                                                      \
	{                                                                                          \
		"glibc", "the C library's malloc", .preload = ""                                   \
	}
#define OURS                                                                                       \
	{"near", "near, malloc", BENCH_OURS, .preload = BENCH_OURS_PRELOAD},                       \
	{                                                                                          \
		"near-off", "near, without rseq", BENCH_OFF, .preload = BENCH_OURS_PRELOAD         \
	}
#define PEERS                                                                                      \
	{"jemalloc", "jemalloc", .preload = "libjemalloc.so.2", .package = "libjemalloc2"},        \
		{"tcmalloc", "gperftools, tcmalloc", .preload = "libtcmalloc_minimal.so.4",        \
		 .package = "libtcmalloc-minimal4"},                                               \
	{                                                                                          \
		"mimalloc", "mimalloc", .preload = "libmimalloc.so.2", .package = "libmimalloc2.0" \
	}

static const struct bench_row table_rows[] = {
	GLIBC,
	{"sharded", "32 heaps by CPU, mutexes", .preload = "", .heap = "sharded"},
	{"thread", "heap per thread, mutex", .preload = "", .heap = "thread"},
	OURS,
	PEERS,
	{"null", "functions that do nothing", BENCH_YARDSTICK, .preload = "", .heap = "null"},
};

BENCH(bench_malloc_table, "malloc", "tutorial", "malloc: the tutorial's loop", "a malloc and free",
      "Each thread does free(identity(malloc(i % 256))), ten million times. ", table_rows,
      BENCH_FIGURES({"ours over glibc", "near", "glibc", .goal = 0.7},
		    {"ours over jemalloc", "near", "jemalloc", .goal = 1},
		    {"ours over gperftools", "near", "tcmalloc", .goal = 1},
		    {"ours over mimalloc", "near", "mimalloc", .goal = 1}),
      .pattern = "loop", .iterations = 10000000, .core = true);

static const struct bench_row startup_rows[] = {GLIBC, OURS, PEERS};
static const struct bench_row freed_rows[] = {
	GLIBC,
	OURS,
	{"near-thread", "near, background thread", BENCH_OURS, .conf = "malloc_background:1",
	 .preload = BENCH_OURS_PRELOAD},
	PEERS,
};

BENCH(bench_malloc_startup, "malloc", "startup", "malloc: memory of a program with one block",
      "for the program",
      "What is resident when main has allocated and freed 100 bytes, and nothing else. ",
      startup_rows, BENCH_FIGURES({"ours", "near", .goal = 1.4e6}), .kind = BENCH_MEMORY,
      .pattern = "startup", .iterations = 1, .threads = 1, .fixed_threads = true);

BENCH(bench_malloc_freed, "malloc", "freed",
      "malloc: memory after 300 MB of small blocks were freed", "in the end",
      "300 MB of blocks of 16 to 256 bytes are written and freed; after three seconds "
      "without a call, the resident memory is measured. ",
      freed_rows, BENCH_FIGURES({"ours with the background thread", "near-thread", .goal = 20e6}),
      .kind = BENCH_MEMORY, .pattern = "freed", .iterations = 300, .threads = 1,
      .fixed_threads = true);

#define IDLE_THREADS(word, what, how, list)                                                        \
	BENCH_TABLE("malloc", word, what, "in the end",                                            \
		    "1,000 threads start together; each writes 64 blocks of each of ten "          \
		    "sizes, 16 to 8192 bytes, and frees them. " how,                               \
		    startup_rows, list, .pattern = word, .kind = BENCH_MEMORY, .iterations = 3000, \
		    .threads = 1000, .fixed_threads = true)

const struct bench bench_malloc_waiting =
	IDLE_THREADS("waiting", "malloc: memory of 1,000 threads that wait",
		     "Then they wait; three seconds later the resident memory is measured. ",
		     BENCH_FIGURES({"ours", "near", .goal = 45e6},
				   {"ours without rseq", "near-off", .goal = 70e6}));
const struct bench bench_malloc_ended =
	IDLE_THREADS("ended", "malloc: memory after 1,000 threads ended",
		     "Then they end; three seconds later the resident memory is measured. ",
		     BENCH_FIGURES({"ours", "near", .goal = 20e6}));

BENCH(bench_malloc_freed_threads, "malloc", "freed-threads",
      "malloc: memory after two threads freed 300 MB of small blocks", "in the end",
      "Two threads write and free 150 MB each, as above. ", freed_rows,
      BENCH_FIGURES({"ours", "near", .goal = 25e6}), .kind = BENCH_MEMORY, .pattern = "freed",
      .iterations = 150, .threads = 2, .fixed_threads = true);

static const struct bench_row suite_rows[] = {GLIBC, OURS, PEERS};
static const unsigned few_to_many[] = {1, 2, 8, 32, 0}, several[] = {2, 8, 32, 0},
		      two_eight[] = {2, 8, 0}, one_two[] = {1, 2, 0};

#define PATTERN(word, what, ...)                                                                   \
	BENCH_TABLE("malloc", word, what, "a call", what, suite_rows, .pattern = word,             \
		    .kind = BENCH_ALLOCATOR, .together = true, __VA_ARGS__)
#define THREADS .thread_list = few_to_many

const struct bench bench_malloc[BENCH_MALLOC_PATTERNS] = {
	PATTERN("loop", "the tutorial's loop", THREADS),
	PATTERN("exchange", "producers and consumers", .thread_list = several),
	PATTERN("larson", "a server whose threads hand their objects on", THREADS),
	PATTERN("small", "small blocks that live shortly", THREADS),
	PATTERN("far", "small blocks, 16,384 a thread live together", THREADS),
	PATTERN("mixed", "sizes to 64 KB", THREADS),
	PATTERN("grow", "arrays and strings that grow by realloc", THREADS),
	PATTERN("zeroed", "calloc to 1 MB, a quarter used", THREADS),
	PATTERN("large", "blocks of 1 to 32 MB", THREADS),
	PATTERN("fragment", "sizes that change while a tenth stays", THREADS),
	PATTERN("burst", "65,536 blocks, freed together", THREADS),
	PATTERN("churn", "threads that live for 100 blocks", THREADS),
	PATTERN("idle", "1,000 threads that mostly wait", .threads = 1000, .fixed_threads = true),
	PATTERN("compiler", "trees of nodes, passes, names", .threads = 1, .fixed_threads = true),
	PATTERN("interpreter", "strings, boxes, dictionaries", .threads = 1, .fixed_threads = true),
	PATTERN("cache", "a key-value server", THREADS),
	PATTERN("flood", "1,000 blocks of 8 to 64 bytes, freed together", .thread_list = two_eight),
	PATTERN("flood-many", "100,000 blocks of 8 to 64 bytes, freed together",
		.thread_list = two_eight),
	PATTERN("flood-16", "200,000 blocks of 16 bytes, freed together", .thread_list = one_two),
	PATTERN("flood-64", "200,000 blocks of 64 bytes, freed together", .thread_list = one_two),
	PATTERN("stay", "realloc that finds room in the block", .threads = 1,
		.fixed_threads = true),
	PATTERN("usable", "malloc_usable_size", .threads = 1, .fixed_threads = true),
};
