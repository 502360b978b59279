/* SPDX-License-Identifier: MIT */
/* The figures of tables that are shown together. */
#include "program/report.h"

#include <math.h>
#include <string.h>

static const struct suite_measure of_malloc[] = {
	{BENCH_CPU_MS, "CPU time, user and system", "ms", "cpu", 0},
	{BENCH_MEGABYTES, "Memory at the peak", "MB", "memory", 1},
	{BENCH_P99, "Single calls, 99 of 100 take at most", "ns", "p99", 0},
	{BENCH_P999, "Single calls, 999 of 1,000 take at most", "ns", "p999", 0},
};

static const struct suite_measure of_atomic[] = {
	{BENCH_WALL, "Wall time of an operation", "ns", "wall", 1},
	{BENCH_P999, "Single operations, 999 of 1,000 take at most", "ns", "p999", 0},
	{BENCH_UNFAIRNESS, "Most served thread over least served one", "times", "unfairness", 1},
};

const struct suite_kind suite_kinds[] = {
	{"malloc", "malloc: programs on different allocators",
	 "Each line is a program of plain C, run with each allocator loaded before it. The first "
	 "has its figure, the others are compared with it: the median over the repetitions, which "
	 "were interleaved. Each line does the same work, whichever the allocator.",
	 "allocators", 18, of_malloc, BENCH_COUNT(of_malloc)},
	{"atomic", "atomic: objects wider than a register, in different libraries",
	 "Each line is one operation on objects of a given size, over and over for a window of "
	 "time, through the functions that compilers call. The first column has its figure, the "
	 "others are compared with it: the median over the repetitions, which were interleaved.",
	 "atomics", 25, of_atomic, BENCH_COUNT(of_atomic)},
	{.name = NULL},
};

bool bench_is_only(const struct bench *b, const struct bench_options *o)
{
	char *rest = o->only && b->part ? strdupa(o->only) : NULL, *word;

	while ((word = strsep(&rest, ",")))
		if (strcmp(word, b->part) == 0)
			return true;
	return !o->only;
}

bool suite_has(const struct table_result *t)
{
	if (!t->bench->together)
		return false;
	for (size_t i = 0; i < t->bench->row_count; i++)
		if (t->rows[i].count || t->rows[i].note[0])
			return true;
	return false;
}

const struct suite_kind *suite_kind_of(const struct table_result *t)
{
	const struct suite_kind *kind = suite_kinds;

	while (strcmp(kind->name, t->bench->name) != 0)
		kind++;
	return kind;
}

const struct table_result *suite_line(const struct suite *s, size_t i)
{
	const struct table_result *t = &s->report->tables[i];

	return suite_has(t) && suite_kind_of(t) == s->kind ? t : NULL;
}

const struct table_result *suite_first(const struct suite *s)
{
	for (size_t i = 0; i < s->report->count; i++)
		if (suite_line(s, i))
			return suite_line(s, i);
	return NULL;
}

struct word suite_line_name(const struct table_result *t)
{
	struct word w;

	snprintf(w.text, sizeof(w.text), "%-*s%5u", suite_kind_of(t)->width - 6, t->bench->part,
		 t->threads);
	return w;
}

bool suite_has_bounds(const struct table_result *t, const struct suite_measure *m)
{
	return t->bench->figure_count && m == suite_kind_of(t)->measures;
}

const char *suite_bound(const struct table_result *t, double *goal)
{
	const char *verdict = NULL;
	double value;

	for (size_t i = 0; i < t->bench->figure_count; i++)
		if (figure_value(t, &t->bench->figures[i], &value)) {
			*goal = t->bench->figures[i].goal;
			verdict = value <= *goal ? "reached" : "missed";
		}
	return verdict;
}

bool suite_shows(const struct table_result *t, const struct suite_measure *m)
{
	return m->of != BENCH_UNFAIRNESS || t->threads > 1;
}

bool suite_shown(const struct suite *s, const struct suite_measure *m)
{
	for (size_t i = 0; i < s->report->count; i++)
		if (suite_line(s, i) && suite_shows(suite_line(s, i), m))
			return true;
	return false;
}

bool suite_ratio(const struct table_result *t, size_t row, const struct suite_measure *m,
		 struct spread *ratio)
{
	const struct row_result *r = &t->rows[row], *first = &t->rows[0];

	if (!r->count || !first->count || !suite_shows(t, m))
		return false;
	*ratio = measure_ratio(t, r, first, m->of);
	return true;
}

struct suite_mean suite_mean(const struct suite *s, size_t row, const struct suite_measure *m,
			     unsigned threads)
{
	struct suite_mean mean = {0};
	double logs = 0;

	for (size_t i = 0; i < s->report->count; i++) {
		const struct table_result *t = suite_line(s, i);
		struct spread ratio;

		if (!t || (threads && t->threads != threads) || !suite_ratio(t, row, m, &ratio))
			continue;
		logs += log(ratio.median);
		mean.lines++;
		mean.behind += ratio.median > 1;
	}
	if (mean.lines)
		mean.mean = exp(logs / mean.lines);
	return mean;
}

static unsigned lines_with(const struct suite *s, const struct suite_measure *m, unsigned threads)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->report->count; i++)
		n += suite_line(s, i) && suite_shows(suite_line(s, i), m) &&
		     suite_line(s, i)->threads == threads;
	return n;
}

size_t suite_threads(const struct suite *s, const struct suite_measure *m,
		     unsigned out[MAX_THREAD_COUNTS])
{
	size_t n = 0;

	for (unsigned threads = 1; threads <= BENCH_MAX_THREADS && n < MAX_THREAD_COUNTS; threads++)
		if (lines_with(s, m, threads) > 1)
			out[n++] = threads;
	return n;
}
