/* SPDX-License-Identifier: MIT */
/* suite: what is made of the tables of BENCH_ALLOCATOR. They are shown together: a line for each
 * pattern and number of threads, a column for each allocator, all as ratios to the first one. */
#ifndef NEARCPU_SUITE_H
#define NEARCPU_SUITE_H

#include "report.h"

enum suite_measure { SUITE_CPU, SUITE_MEMORY, SUITE_P99, SUITE_P999, SUITE_MEASURES };

/* What it is, in what unit; and its name in the JSON. */
const char *suite_title(enum suite_measure m);
const char *suite_unit(enum suite_measure m);
const char *suite_key(enum suite_measure m);

bool suite_has(const struct table_result *t);
/* The first such table that was measured, or NULL: its rows are the columns. */
const struct table_result *suite_first(const struct report *report);

/* "larson  8": the pattern, and threads. */
struct word suite_line_name(const struct table_result *t);

/* In the unit of the measure. */
struct spread suite_value(const struct table_result *t, size_t row, enum suite_measure m);
/* Row over the first one, pair by pair. False: one of them was not measured. */
bool suite_ratio(const struct table_result *t, size_t row, enum suite_measure m,
		 struct spread *ratio);

struct suite_mean {
	double mean;            /* geometric, of medians; 0: there is none */
	unsigned lines, behind; /* behind: where the ratio is above 1 */
};
/* Of the lines with so many threads; 0: of all. */
struct suite_mean suite_mean(const struct report *report, size_t row, enum suite_measure m,
			     unsigned threads);
/* The numbers of threads that several lines have, in rising order; returns how many. */
size_t suite_threads(const struct report *report, unsigned out[MAX_THREAD_COUNTS]);

/* The worst `n` lines of a row, worst first; returns how many there are. */
struct suite_worst {
	const struct table_result *table;
	double ratio;
};
size_t suite_worst(const struct report *report, size_t row, enum suite_measure m,
		   struct suite_worst *out, size_t n);

/* Sentences made from the figures. False: there is no such sentence. */
bool suite_verdict(const struct report *report, enum suite_measure m, char *out, size_t size);

/* Whether the pattern is among those of --only, if it names any. */
bool bench_is_only(const struct bench *b, const struct bench_options *o);

/* suite_text.c: while it runs, a line of CPU time for each table; the rest at the end. */
void suite_text_line(const struct table_result *t);
void suite_text_end(const struct report *report);

/* suite_html.c */
void suite_html(FILE *f, const struct report *report);

/* suite_json.c: what stands beside the samples of a row; and for the whole report, or NULL. */
void suite_json_row(json_t *json, const struct table_result *t, size_t row);
json_t *suite_json(const struct report *report);

#endif
