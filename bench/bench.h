/* SPDX-License-Identifier: MIT */
/* bench: the programs that `nearcpu bench` measures, as tables of rows.
 *
 * A benchmark is one struct bench: one table, whose rows do the same work in different ways. Each
 * measurement of a row runs in a process of its own, with the row's environment, so that rows
 * which differ in the mode of a whole process can be in one table, and none of them inherits
 * caches, memory or slots from another.
 *
 * A row that measures time gives three functions. `setup` runs once, on the main thread. `prepare`
 * runs in each thread, untimed. `work` does `iterations` operations; the harness in threads.c
 * times it. It is called several times, so `check` compares with run->done, not with one run. A
 * row that measures otherwise gives `run` alone. State is in static variables: a process runs one
 * row.
 *
 * A benchmark with a pattern has no functions: its rows are runs of a program of plain C, see
 * malloc/pattern.h. One with a program has none either: its rows are those of the program, see
 * locks/window.h. A row of BENCH_WAIT that gives `run` finds its window, in ms, in run->iterations.
 *
 * To add a benchmark: one file here, one line in registry.c.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_LINE 128 /* two lines of 64: the neighbour is prefetched with it */
#define BENCH_MAX_THREADS 8192

enum bench_role {
	BENCH_PEER,
	BENCH_OURS,
	BENCH_YARDSTICK, /* does less than the others: shows what the rest costs */
};

struct bench_sample {
	uint64_t ops;
	uint64_t wall_ns;
	uint64_t user_ns, system_ns; /* of all threads */
	uint64_t bytes;              /* benchmarks of memory; of allocators: the peak */
	/* Of single calls; benchmarks of allocators and of waiting alone. */
	uint64_t p99_ns, p999_ns;
	/* Of waiting alone: what the thread did that did the fewest, and the most. */
	uint64_t least, most, longest_ns;
};

struct bench_run {
	unsigned threads;
	uint64_t iterations; /* of each thread; 0: find out how long an operation takes */
	uint64_t done;       /* operations of all threads so far, warm-up included */
	const char *wrong;   /* what `prepare` or `check` found */
};

struct bench_thread {
	struct bench_run *run;
	unsigned index;
	uint64_t iterations;
};

struct bench_row {
	const char *name;  /* as typed and as in the JSON */
	const char *label; /* as in the tables, at most 30 columns */
	enum bench_role role;
	const char *conf;     /* NEAR_CONF of the process; NULL: as the user set it */
	const char *tunables; /* GLIBC_TUNABLES, likewise */
	/* Where the benchmark has a pattern: LD_PRELOAD of the process, or BENCH_OURS_PRELOAD; its
	 * package; and the heap that the pattern takes instead of malloc, or NULL. */
	const char *preload, *package, *heap;
	const char *program_row; /* where the benchmark has a program; NULL: as `name` */
	/* Why this process cannot measure the row, or NULL; of rows that are one of several
	 * implementations, `choose` with its name. */
	const char *(*missing)(void), *(*choose)(const char *impl), *impl;
	int (*setup)(struct bench_run *run);
	/* What is wrong, or NULL; so also `check`. */
	const char *(*prepare)(struct bench_thread *t);
	void (*work)(struct bench_thread *t);
	const char *(*check)(struct bench_run *run);
	int (*run)(struct bench_run *run, struct bench_sample *out);
};

/* Stands for the path of libnearcpu-malloc.so. */
#define BENCH_OURS_PRELOAD "ours"

enum bench_kind {
	BENCH_TIME,   /* the cost of an operation is CPU time */
	BENCH_MEMORY, /* the cost of an object is resident memory */
	/* The cost of a call is CPU time; memory and single calls are reported, too. */
	BENCH_ALLOCATOR,
	/* The cost of an operation is wall time: threads wait for each other, asleep or awake. */
	BENCH_WAIT,
};

/* What figures and tables compare; times are of an operation, in nanoseconds. */
enum bench_measure {
	BENCH_COST,       /* by the kind of the benchmark */
	BENCH_UNFAIRNESS, /* most operations of a thread over the fewest */
	BENCH_P99,
	BENCH_P999,
	BENCH_WALL,
	BENCH_USER,
	BENCH_SYSTEM,
	BENCH_CPU,       /* user and system */
	BENCH_CPU_MS,    /* milliseconds, of all operations */
	BENCH_MEGABYTES, /* of all operations */
};

/* A bound that a row keeps or not, printed below the table. */
struct bench_figure {
	const char *text;
	const char *row;
	const char *against; /* NULL: the row's own cost */
	bool difference;     /* row minus against, not row over against */
	enum bench_measure measure;
	double goal;       /* at most */
	unsigned from, to; /* number of threads that it is about; 0: any */
	const char *less;  /* a row whose cost is taken off that of `row` first, or NULL */
};

struct bench {
	const char *name; /* benchmarks of one name are run together */
	const char *part; /* distinguishes them, or NULL */
	const char *title;
	const char *text; /* what is measured, for the report */
	const char *op;   /* one operation, with its article: "an add" */
	enum bench_kind kind;
	const struct bench_row *rows;
	size_t row_count;
	const struct bench_figure *figures;
	size_t figure_count;
	const char *base;    /* a row whose cost is taken off in a column of its own, or NULL */
	const char *against; /* the row that ratios are to; NULL: the best of the others */
	const char *pattern; /* rows are runs of nearcpu-malloc-patterns, or NULL */
	const char *program; /* it measures rows for a window of time, or NULL */
	const char *args[2]; /* an option of the program and its value, or NULL */
	const unsigned *thread_list; /* by default; ends with 0 */
	uint64_t iterations; /* of each thread; 0: as many as fill the time of a measurement */
	unsigned threads;    /* 0: by default one, and one for each CPU */
	bool fixed_threads;  /* --threads does not apply */
	bool core;           /* runs when no name is given */
	bool apart;          /* its rows do different things: they are not compared */
	/* It is a line of the table of all that have its name, as ratios to the first row. */
	bool together;
	unsigned window_ms; /* BENCH_WAIT: how long a measurement is; 0: as they all are */
	/* BENCH_WAIT: one thread waits, or nobody does: p99 is shown, and not how fair it was. */
	bool latency;
};

/* Ends with NULL. */
extern const struct bench *const bench_registry[];

#define BENCH_MALLOC_PATTERNS 22 /* of the suite */
extern const struct bench bench_malloc[BENCH_MALLOC_PATTERNS];
#define BENCH_MAP_PARTS 6
extern const struct bench bench_map[BENCH_MAP_PARTS];
#define BENCH_TRACE_PARTS 7
extern const struct bench bench_trace[BENCH_TRACE_PARTS];
#define BENCH_ATOMIC_CASES 84
extern const struct bench bench_atomic[BENCH_ATOMIC_CASES];

/* Runs one row. 0 or negative errno; the sample counts only if run->wrong is NULL. */
int bench_measure(const struct bench_row *row, struct bench_run *run, struct bench_sample *out);

/* How many CPUs this process may use, and the i-th of them (modulo their number). */
unsigned bench_allowed_cpus(void);
unsigned bench_allowed_cpu(unsigned i);

/* Binds the calling thread to one CPU. */
int bench_pin(unsigned cpu);

/* How much resident memory grows from before `init`, until each thread, on a CPU of its own, has
 * called `add` for each of run->iterations objects, several times. */
int bench_grow(struct bench_run *run, struct bench_sample *out, int (*init)(void),
	       void (*add)(uint64_t i));

/* Address space only, for bench_grow: what is not touched does not count. NULL without any. */
void *bench_reserve(size_t size);

/* Atomics by CPU: as bench_row.setup, and their sum. */
struct bench_line {
	_Alignas(BENCH_LINE) _Atomic uint64_t value;
};
extern struct bench_line *bench_lines;
int bench_setup_lines(struct bench_run *run);
uint64_t bench_sum_lines(void);

/* `n` zeroed objects of `size` bytes; aligned to BENCH_LINE. NULL without memory. */
void *bench_alloc(size_t n, size_t size);

/* What a histogram of single calls has: their median is the wall time. 0 or a negative errno. */
struct near_histogram;
int bench_waits(struct near_histogram *times, struct bench_sample *out);

/* Compares what was counted with what was done. */
const char *bench_compare(uint64_t found, uint64_t expected);

/* Reasons for bench_row.missing. */
const char *bench_needs_live(void);
const char *bench_needs_cid(void);
const char *bench_needs_own_area(void);

/* Roles of rows with sequences, and without. */
#define BENCH_LIVE BENCH_OURS, .missing = bench_needs_live
#define BENCH_OFF BENCH_OURS, .conf = "rseq:off"

#define BENCH_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A benchmark; what follows the rows are further members. */
#define BENCH_TABLE(name_, part_, title_, op_, text_, rows_, ...)                                  \
	{                                                                                          \
		.name = name_, .part = part_, .title = title_, .op = op_, .text = text_,           \
		.rows = rows_, .row_count = BENCH_COUNT(rows_), __VA_ARGS__                        \
	}
/* A row of a program. */
#define BENCH_ROW(name_, label_, role_, ...)                                                       \
	{                                                                                          \
		.name = name_, .label = label_, .role = role_, __VA_ARGS__                         \
	}
#define BENCH(id, ...) const struct bench id = BENCH_TABLE(__VA_ARGS__)
#define BENCH_BOUND(text_, row_, against_, goal_, ...)                                             \
	{                                                                                          \
		.text = text_, .row = row_, .against = against_, .goal = goal_, __VA_ARGS__        \
	}
#define BENCH_BOUNDS(list) .figures = list, .figure_count = BENCH_COUNT(list)
#define BENCH_FIGURES(...)                                                                         \
	.figures = (const struct bench_figure[]){__VA_ARGS__},                                     \
	.figure_count = BENCH_COUNT(((const struct bench_figure[]){__VA_ARGS__}))

/* Functions of rows, written in a line. `t`, `i`, `run` and `out` are theirs. */
#define BENCH_WORK(name, ...)                                                                      \
	static void name(struct bench_thread *t)                                                   \
	{                                                                                          \
		for (uint64_t i = 0; i < t->iterations; i++) {                                     \
			__VA_ARGS__;                                                               \
		}                                                                                  \
	}
#define BENCH_SETUP(name, ...)                                                                     \
	static int name(struct bench_run *run)                                                     \
	{                                                                                          \
		(void)run;                                                                         \
		return __VA_ARGS__;                                                                \
	}
#define BENCH_RUN(name, ...)                                                                       \
	static int name(struct bench_run *run, struct bench_sample *out) { return __VA_ARGS__; }
#define BENCH_MISSING(name, why)                                                                   \
	static const char *name(void) { return why; }
#define BENCH_CHECK(name, ...)                                                                     \
	static const char *name(struct bench_run *run)                                             \
	{                                                                                          \
		(void)run;                                                                         \
		return __VA_ARGS__;                                                                \
	}

/* The compiler must neither fold nor move memory accesses across it. */
#define BENCH_BARRIER() __asm__ volatile("" ::: "memory")
#define BENCH_USE(value) __asm__ volatile("" ::"r"(value))

#endif
