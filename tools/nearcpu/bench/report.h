/* SPDX-License-Identifier: MIT */
/* report: the options of `nearcpu bench`, its measurements, and their text. */
#ifndef NEARCPU_REPORT_H
#define NEARCPU_REPORT_H

#include "../../../bench/bench.h"
#include "common/machine.h"
#include "common/spread.h"
#include "common/text.h"

#include <stdio.h>
#include <time.h>

#define MAX_THREAD_COUNTS 32

struct bench_options {
	char *const *names; /* what to run; all of the core if there are none */
	size_t name_count;
	bool names_given; /* by the user */
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

/* What may disturb, before the work. */
struct scale_noise {
	double load, mhz; /* below 0, or 0: not known */
};

struct report {
	struct bench_options options;
	struct machine machine;
	struct table_result *tables;
	size_t count;
	time_t started;
	double seconds;
	struct load_share load;
	struct scale_noise noise;
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
/* The cheapest or the dearest of the rows that r competes with, or NULL. */
const struct row_result *best_other(const struct table_result *t, const struct row_result *r);
const struct row_result *worst_other(const struct table_result *t, const struct row_result *r);

bool row_without_rseq(const struct row_result *r);
/* What a program gets of ours without settings: the first of our rows that needs none; NULL:
 * nothing of ours could be measured. */
const struct row_result *default_row(const struct table_result *t);
/* The repetitions do not agree on which of two rows is the cheaper one, or are too few. */
bool ratio_undecided(struct spread ratio, unsigned count);
/* It costs more than the best of the others, beyond doubt. */
bool row_loses(const struct table_result *t, const struct row_result *r);

/* A figure of the benchmark: false if it is not about this table, or rows are missing. */
bool figure_value(const struct table_result *t, const struct bench_figure *f, double *value);

/* words.c */

extern const char *const role_names[]; /* by enum bench_role */

struct word say_ratio(double ratio);                     /* 1.36, 12.1, 1/8.3 */
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
/* What the table shows, in sentences made from its figures; whether one of them is a loss. */
bool table_loses(const struct table_result *t);
void table_verdict(const struct table_result *t, char *out, size_t size);
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

/* html.c, plot.c: *out is to be freed. */
/* -EINTR when interrupted. */
int report_html(const struct report *report, char **out);
/* An inline SVG element; *out is NULL if there is no gnuplot or nothing to draw. */
int plot_svg(const struct table_result *t, char **out);
extern const char html_style[];

/* scale.c: `nearcpu bench --report`, a text to be pasted where people talk about big machines. */

/* Benchmarks, where the user named none. */
void scale_choose(struct bench_options *o);

/* Fills `out` with numbers of threads: 1, 2, 4 ... and `cpus`; returns how many. */
size_t scale_threads(unsigned out[MAX_THREAD_COUNTS], unsigned cpus);

/* Brings the tables into the order in which they are measured, what matters most first: should
 * time run out, the rest is left. And back into that in which they are shown. */
void scale_sort_to_measure(struct report *report, unsigned cpus);
void scale_sort_to_show(struct report *report);

/* Load average and clock of the machine, to be printed with those at the end. */
void scale_begin(struct scale_noise *noise);

/* Prints the whole text. `why` is the reason if it is incomplete, or NULL. */
void scale_print(const struct report *report, const char *why);

/* Prints an item of a list, broken at spaces. */
__attribute__((format(printf, 1, 2))) void scale_item(const char *fmt, ...);

/* scale_head.c: what it is about: machine, versions, noise. */
void scale_print_head(const struct report *report, const char *why);

#endif
