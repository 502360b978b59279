/* SPDX-License-Identifier: MIT */
/* report: the options of `nearcpu bench`, its measurements, and their text. */
#ifndef NEARCPU_REPORT_H
#define NEARCPU_REPORT_H

#include "bench.h"
#include "common/machine.h"
#include "common/spread.h"
#include "common/text.h"

#include <stdio.h>
#include <time.h>

#define MAX_THREAD_COUNTS 32

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

struct bench_options {
	char *const *names; /* what to run; all of the core if there are none */
	size_t name_count;
	unsigned threads[MAX_THREAD_COUNTS];
	size_t thread_counts; /* 0: chosen by the benchmark */
	uint64_t iterations;  /* 0: likewise */
	unsigned repeat;
	bool repeat_given;
	bool quick;
	const char *only;        /* names of parts, with commas; NULL: all */
	bool scale;              /* --report */
	const char *json, *html; /* files, or NULL */
};

struct row_result {
	const struct bench_row *row;
	char note[240]; /* why it was not measured */
	bool failed;    /* the note is about a failure, not about something missing */
	/* The standard error of the last run of a program: counts of a lock, if NEAR_CONF enables
	 * them. */
	char said[480];
	uint64_t iterations; /* of each thread, in each repetition */
	double pilot_ns;     /* wall time of an iteration, roughly */
	struct bench_sample *samples;
	unsigned count; /* of samples; 0: not measured */
};

struct table_result {
	const struct bench *bench;
	unsigned threads;
	uint64_t iterations; /* of each thread: what the times shown are for; BENCH_WAIT: ms */
	bool fixed;          /* rows do exactly this number */
	unsigned wanted;     /* repetitions */
	unsigned percent;    /* of the work that a pattern has, if no number was named */
	double rate;         /* of the loop that passes time in a program; 0: not known yet */
	struct row_result *rows;
};

struct load_start {
	double busy, stolen, total; /* CPU seconds of all CPUs since boot */
	double own;                 /* of this process and its children */
};

/* Parts of the CPU time that all CPUs had. */
struct load_share {
	double others; /* used by other programs */
	double stolen; /* taken by the hypervisor */
};

struct report {
	struct bench_options options;
	struct machine machine;
	struct table_result *tables;
	size_t count;
	time_t started;
	double seconds;
	struct load_share load;
	bool cut; /* tables are missing: time was up */
};

/* stats.c */

struct spread row_measure_of(const struct table_result *t, const struct row_result *r,
			     enum bench_measure m);
/* Of one operation: nanoseconds of CPU time, of wall time (BENCH_WAIT), or bytes. */
struct spread row_cost(const struct table_result *t, const struct row_result *r);
/* Cost of a over cost of b, pair by pair: what slows the machine for a while slows both. */
struct spread cost_ratio(const struct table_result *t, const struct row_result *a,
			 const struct row_result *b);
struct spread measure_ratio(const struct table_result *t, const struct row_result *a,
			    const struct row_result *b, enum bench_measure m);
const struct row_result *find_row(const struct table_result *t, const char *name);
/* The cheapest of the rows that r competes with, or NULL. */
const struct row_result *best_other(const struct table_result *t, const struct row_result *r);

/* What a program gets of ours without settings: the first of our rows that needs none; NULL:
 * nothing of ours could be measured. */
const struct row_result *default_row(const struct table_result *t);
/* How many times as fast (or compact) as the best other row, pair by pair; false: nothing competes
 * with it. *decided: the repetitions agree on which is ahead, and are enough. */
bool row_gain(const struct table_result *t, const struct row_result *r, struct spread *gain,
	      bool *decided);

/* A figure of the benchmark: false if it is not about this table, or rows are missing. */
bool figure_value(const struct table_result *t, const struct bench_figure *f, double *value);

/* words.c */

extern const char *const role_names[]; /* by enum bench_role */

struct word say_ratio(double ratio);                     /* 12.1, 1.36, 0.121 */
struct word say_rate(double per_second);                 /* 27.6 M */
struct word say_cost(enum bench_kind kind, double cost); /* 0.81 ns, 16.0 bytes */
struct word say_count(uint64_t n);                       /* 10,000,000 */
struct word say_ms(double ns);
/* 1.2 %, 259 %, >9999 %: at most seven columns. `decimals`: of less than ten percent. */
struct word say_spread(struct spread s, int decimals);
/* All operations that the times shown are for. */
double table_ops(const struct table_result *t, const struct row_result *r);
/* "hitcounter, 2 threads" */
void table_name(const struct table_result *t, char *out, size_t size);

void table_title(const struct table_result *t, char *out, size_t size);
/* What the times are for and how often it was measured. */
void table_conditions(const struct table_result *t, char *out, size_t size);
/* One line: value, what it is, goal, reached or not. */
bool figure_line(const struct table_result *t, const struct bench_figure *f, char *out,
		 size_t size);
/* Whether it ran less than the table is about, for want of time. */
bool row_is_scaled(const struct table_result *t, const struct row_result *r);

struct column {
	unsigned tables; /* that have it */
	const char *head;
	int width;
	unsigned shows;
	enum bench_measure part;
};
#define MAX_COLUMNS 12
/* Which columns the table has; returns their number. */
size_t table_columns(const struct table_result *t, const struct column *out[MAX_COLUMNS]);
struct word column_cell(const struct column *c, const struct table_result *t,
			const struct row_result *r);

/* report.c: measures what the options select. 0, -EINTR when interrupted, or another negative
 * errno. `done` is called after each table; it returns false to stop there. */
int report_run(struct report *report, bool (*done)(const struct table_result *t));
void report_free(struct report *report);
bool report_failed(const struct report *report);

/* row.c: `nearcpu bench --row BENCHMARK/ROW THREADS ITERATIONS`, by which we start ourselves. */
int row_main(int argc, char **argv);
/* Starts it, waits, and fills *sample or r->note. As child_run. */
int row_measure(const struct table_result *t, struct row_result *r, uint64_t iterations,
		struct bench_sample *sample);

/* program.c: one run of a program for a window of `window_ms`. As row_measure. */
int wait_measure(struct table_result *t, struct row_result *r, uint64_t window_ms,
		 struct bench_sample *s);
void row_note(struct row_result *r, bool failed, const char *text);

#define ROW_TIMEOUT_S 600

/* Runs a program with the row's settings. Fills *s and *answer, the whole JSON object, or r->note.
 * As child_run, but a timeout becomes a note. */
int row_run(struct row_result *r, const char *const *argv, const char *preload, unsigned timeout_s,
	    struct bench_sample *s, json_t **answer);

/* False if it is not a sample. */
bool sample_read(const json_t *json, struct bench_sample *s);
json_t *sample_json(const struct table_result *t, const struct bench_sample *s);

/* program.c: one run of a pattern. `latency`: single calls are timed, in a part of the work. As
 * row_measure. */
int program_measure(const struct table_result *t, struct row_result *r, uint64_t iterations,
		    bool latency, struct bench_sample *s);

/* load.c: how busy other programs kept the machine during the measurement. */
struct load_start load_now(void);
struct load_share load_since(const struct load_start *start);

bool load_is_quiet(const struct load_share *load);
/* A sentence if that disturbs a measurement; false if the machine was quiet. */
bool load_warning(const struct load_share *load, char *out, size_t size);

/* text.c */
void text_table(const struct table_result *t);
/* What columns and marks mean: above the first table. */
void text_legend(void);
/* Below all tables. */
void text_end(const struct report *report);

/* text.c: one line on standard error, while that is a terminal. */
void progress_begin(unsigned steps);
void progress_step(const struct table_result *t, const struct bench_row *row, unsigned repetition);
void progress_clear(void);

/* json.c */
json_t *report_json(const struct report *report);

/* page.c: *out is to be freed. */
int report_page(const struct report *report, char **out);
/* Files of page/, as strings. */
extern const unsigned char bench_page_begin[], bench_page_style[], bench_page_view[];

/* ---- suites: tables that are shown together (struct bench, `together`): a line for each part and
 * number of threads, a column for each row, all as ratios to the first one ---- */

/* What one of its tables is about; `key` is its name in the JSON. */
struct suite_measure {
	enum bench_measure of;
	const char *title, *unit, *key;
	int decimals;
};

/* What is shown of the benchmarks of one name. */
struct suite_kind {
	const char *name;
	const char *title;
	const char *text; /* of the page */
	const char *key;  /* in the JSON */
	int width;        /* of a line's name */
	const struct suite_measure *measures;
	size_t measure_count;
};

/* Ends with a name of NULL. */
extern const struct suite_kind suite_kinds[];

struct suite {
	const struct suite_kind *kind;
	const struct report *report;
};

/* Whether it is a line of some suite, and was measured. */
bool suite_has(const struct table_result *t);
/* The i-th table of the report, or NULL if it is no line of this suite. */
const struct table_result *suite_line(const struct suite *s, size_t i);
/* The first such table that was measured, or NULL: its rows are the columns. */
const struct table_result *suite_first(const struct suite *s);
/* What the table is a line of. */
const struct suite_kind *suite_kind_of(const struct table_result *t);

/* "larson  8": the part, and threads. */
struct word suite_line_name(const struct table_result *t);

/* Bounds are on the first measure. "reached" or "missed": that of this line; NULL: it has none. */
bool suite_has_bounds(const struct table_result *t, const struct suite_measure *m);
const char *suite_bound(const struct table_result *t, double *goal);

/* Whether it is shown for this line: one thread is neither fair nor unfair. */
bool suite_shows(const struct table_result *t, const struct suite_measure *m);
/* Whether it is shown for any line. */
bool suite_shown(const struct suite *s, const struct suite_measure *m);
/* Row over the first one, pair by pair. False: one of them was not measured, or not this. */
bool suite_ratio(const struct table_result *t, size_t row, const struct suite_measure *m,
		 struct spread *ratio);

struct suite_mean {
	double mean;            /* geometric, of medians; 0: there is none */
	unsigned lines, behind; /* behind: where the ratio is above 1 */
};
/* Of the lines with that number of threads; 0: of all. */
struct suite_mean suite_mean(const struct suite *s, size_t row, const struct suite_measure *m,
			     unsigned threads);
/* The numbers of threads that several lines have, in rising order; returns how many. */
size_t suite_threads(const struct suite *s, const struct suite_measure *m,
		     unsigned out[MAX_THREAD_COUNTS]);

/* Whether the part is among those of --only, if it names any. */
bool bench_is_only(const struct bench *b, const struct bench_options *o);

/* text.c: while it runs, a line of the first measure for each table; the rest at the end. */
void suite_text_line(const struct table_result *t);
void suite_text_end(const struct report *report);

#endif
