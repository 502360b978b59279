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
		"near-off", "near, without rseq", BENCH_OURS, .conf = "rseq:off",                  \
							      .preload = BENCH_OURS_PRELOAD        \
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

static const struct bench_figure table_figures[] = {
	{"ours over glibc", "near", "glibc", .goal = 0.7},
	{"ours over jemalloc", "near", "jemalloc", .goal = 1},
	{"ours over gperftools", "near", "tcmalloc", .goal = 1},
	{"ours over mimalloc", "near", "mimalloc", .goal = 1},
};

const struct bench bench_malloc_table = {
	.name = "malloc",
	.part = "tutorial",
	.title = "malloc: the tutorial's loop",
	.text = "Each thread does free(identity(malloc(i % 256))), ten million times. ",
	.op = "a malloc and free",
	.rows = table_rows,
	.row_count = BENCH_COUNT(table_rows),
	.figures = table_figures,
	.figure_count = BENCH_COUNT(table_figures),
	.pattern = "loop",
	.iterations = 10000000,
	.core = true,
};

static const struct bench_row startup_rows[] = {GLIBC, OURS, PEERS};
static const struct bench_row freed_rows[] = {
	GLIBC,
	OURS,
	{"near-thread", "near, background thread", BENCH_OURS, .conf = "malloc_background:1",
	 .preload = BENCH_OURS_PRELOAD},
	PEERS,
};

static const struct bench_figure startup_figures[] = {
	{"ours", "near", .goal = 1.4e6},
};
static const struct bench_figure freed_figures[] = {
	{"ours with the background thread", "near-thread", .goal = 20e6},
};

static const struct bench_figure freed_threads_figures[] = {
	{"ours", "near", .goal = 25e6},
};

const struct bench bench_malloc_startup = {
	.name = "malloc",
	.part = "startup",
	.title = "malloc: memory of a program with one block",
	.text = "What is resident when main has allocated and freed 100 bytes, and nothing else. ",
	.op = "for the program",
	.kind = BENCH_MEMORY,
	.rows = startup_rows,
	.row_count = BENCH_COUNT(startup_rows),
	.figures = startup_figures,
	.figure_count = BENCH_COUNT(startup_figures),
	.pattern = "startup",
	.iterations = 1,
	.threads = 1,
	.fixed_threads = true,
};

const struct bench bench_malloc_freed = {
	.name = "malloc",
	.part = "freed",
	.title = "malloc: memory after 300 MB of small blocks were freed",
	.text = "300 MB of blocks of 16 to 256 bytes are written and freed; after three seconds "
		"without a call, the resident memory is measured. ",
	.op = "in the end",
	.kind = BENCH_MEMORY,
	.rows = freed_rows,
	.row_count = BENCH_COUNT(freed_rows),
	.figures = freed_figures,
	.figure_count = BENCH_COUNT(freed_figures),
	.pattern = "freed",
	.iterations = 300,
	.threads = 1,
	.fixed_threads = true,
};

#define IDLE_THREADS(word, what, how, list)                                                        \
	{                                                                                          \
		.name = "malloc", .part = word, .pattern = word, .title = what,                    \
		.text = "1,000 threads start together; each writes 64 blocks of each of ten "      \
			"sizes, 16 to 8192 bytes, and frees them. " how,                           \
		.op = "in the end", .kind = BENCH_MEMORY, .rows = startup_rows,                    \
		.row_count = BENCH_COUNT(startup_rows), .iterations = 3000, .threads = 1000,       \
		.fixed_threads = true, .figures = list, .figure_count = BENCH_COUNT(list),         \
	}

static const struct bench_figure waiting_figures[] = {
	{"ours", "near", .goal = 45e6},
	{"ours without rseq", "near-off", .goal = 70e6},
};
static const struct bench_figure ended_figures[] = {
	{"ours", "near", .goal = 20e6},
};

const struct bench bench_malloc_waiting = IDLE_THREADS(
	"waiting", "malloc: memory of 1,000 threads that wait",
	"Then they wait; three seconds later the resident memory is measured. ", waiting_figures);
const struct bench bench_malloc_ended = IDLE_THREADS(
	"ended", "malloc: memory after 1,000 threads ended",
	"Then they end; three seconds later the resident memory is measured. ", ended_figures);

const struct bench bench_malloc_freed_threads = {
	.name = "malloc",
	.part = "freed-threads",
	.title = "malloc: memory after two threads freed 300 MB of small blocks",
	.text = "Two threads write and free 150 MB each, as above. ",
	.op = "in the end",
	.kind = BENCH_MEMORY,
	.rows = freed_rows,
	.row_count = BENCH_COUNT(freed_rows),
	.figures = freed_threads_figures,
	.figure_count = BENCH_COUNT(freed_threads_figures),
	.pattern = "freed",
	.iterations = 150,
	.threads = 2,
	.fixed_threads = true,
};

static const struct bench_row suite_rows[] = {GLIBC, OURS, PEERS};
static const unsigned few_to_many[] = {1, 2, 8, 32, 0}, several[] = {2, 8, 32, 0},
		      two_eight[] = {2, 8, 0};

#define PATTERN(word, what, ...)                                                                   \
	{                                                                                          \
		.name = "malloc", .part = word, .pattern = word, .title = what, .text = what,      \
		.op = "a call", .kind = BENCH_ALLOCATOR, .together = true, .rows = suite_rows,     \
		.row_count = BENCH_COUNT(suite_rows), __VA_ARGS__                                  \
	}
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
};
