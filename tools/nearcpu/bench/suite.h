/* SPDX-License-Identifier: MIT */
/* suite: what is made of tables that are shown together (struct bench, `together`): a line for each
 * part and number of threads, a column for each row, all as ratios to the first one. */
#ifndef NEARCPU_SUITE_H
#define NEARCPU_SUITE_H

#include "bench/report.h"

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

/* The worst `n` lines of a row, worst first; returns how many there are. */
struct suite_worst {
	const struct table_result *table;
	double ratio;
};
size_t suite_worst(const struct suite *s, size_t row, const struct suite_measure *m,
		   struct suite_worst *out, size_t n);

/* The first of ours is behind the first row or another one in some line. */
bool suite_loses(const struct suite *s, const struct suite_measure *m);
/* Sentences made from the figures. False: there is no such sentence. */
bool suite_verdict(const struct suite *s, const struct suite_measure *m, char *out, size_t size);

/* Whether the part is among those of --only, if it names any. */
bool bench_is_only(const struct bench *b, const struct bench_options *o);

/* text.c: while it runs, a line of the first measure for each table; the rest at the end. */
void suite_text_line(const struct table_result *t);
void suite_text_end(const struct report *report);

#endif
