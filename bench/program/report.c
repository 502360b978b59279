/* SPDX-License-Identifier: MIT */
/* report: which tables, how many iterations of each row, and the order in which they are measured.
 *
 * Repetitions are interleaved: first repetition of all rows of a table, then the second of all.
 * Whatever slows the machine for a while so slows all rows.
 */
#include "common/child.h"
#include "common/clock.h"
#include "common/memory.h"
#include "program/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The times in a table are for this number of operations of each thread, by default. */
#define NOMINAL 10000000

#define TARGET_NS 100e6 /* a measurement of a row that is free to choose */
#define TARGET_QUICK_NS 15e6
#define START_S 0.005    /* to start a process and its threads */
#define QUICK_PART 10    /* of the iterations that a benchmark names, */
#define QUICK_PART_RUN 4 /* for rows that measure themselves */
#define MEMORY_PART 10   /* of the objects, in the report: many CPUs make them large */

#define PILOT_LOOP 200000 /* iterations of a pattern, to find out what one costs */
#define REPEAT_PROGRAMS 5
#define REPEAT_PROGRAMS_QUICK 3
#define PERCENT_QUICK 25 /* of a pattern's work */

/* In which threads wait for each other; in the core set, and with --quick. */
#define WINDOW_MS 200
#define WINDOW_CORE_MS 100
#define WINDOW_QUICK_MS 20

/* Of a run over all, in seconds. The work is planned to end by the first; at the second no further
 * repetition begins. The rest is for the last one and for the report. */
struct budget {
	double plan, end;
};
static const struct budget whole = {145, 170}, quick = {13, 17}, scale = {100, 120};

/* A table that the user named. */
#define NAMED_S 60

/* Of the parts of these, --report without names has those of the core set. */
static bool is_scaling(const struct bench *b)
{
	static const char *const names[] = {"hitcounter", "list",   "refcount", "counter",
					    "calls",      "across", "memory"};

	for (size_t i = 0; i < BENCH_COUNT(names); i++)
		if (strcmp(names[i], b->name) == 0)
			return b->core || !b->part;
	return false;
}

static bool is_selected(const struct bench *b, const struct bench_options *o)
{
	if (!bench_is_only(b, o))
		return false;
	for (size_t i = 0; i < o->name_count; i++)
		if (strcmp(o->names[i], b->name) == 0)
			return true;
	return !o->name_count && (o->scale ? is_scaling(b) : b->core);
}

static unsigned window_ms(const struct bench *b, const struct bench_options *o)
{
	if (o->quick)
		return WINDOW_QUICK_MS;
	if (b->window_ms)
		return b->window_ms;
	return o->name_count ? WINDOW_MS : WINDOW_CORE_MS;
}

static uint64_t nominal(const struct bench *b, const struct bench_options *o)
{
	if (b->kind == BENCH_WAIT)
		return window_ms(b, o);
	if (o->iterations || b->kind == BENCH_ALLOCATOR)
		return o->iterations;
	if (!b->iterations)
		return NOMINAL;
	if (o->scale && b->kind == BENCH_MEMORY)
		return b->iterations / MEMORY_PART;
	if (!o->quick || b->kind == BENCH_MEMORY)
		return b->iterations;
	return b->iterations / (b->rows[0].run ? QUICK_PART_RUN : QUICK_PART);
}

static unsigned repetitions(const struct bench *b, const struct bench_options *o)
{
	if ((!b->pattern && !b->program) || b->kind == BENCH_TIME || o->repeat_given)
		return o->repeat;
	if (b->kind == BENCH_MEMORY)
		return o->quick ? 1 : REPEAT_PROGRAMS_QUICK;
	return o->quick ? REPEAT_PROGRAMS_QUICK : REPEAT_PROGRAMS;
}

static int add_table(struct report *report, const struct bench *b, unsigned threads)
{
	struct table_result *t;

	grow(&report->tables, report->count, sizeof(*t));
	t = &report->tables[report->count];
	*t = (struct table_result){.bench = b,
				   .threads = threads,
				   .iterations = nominal(b, &report->options),
				   .fixed = report->options.iterations ||
					    (b->iterations &&
					     (!report->options.scale || b->rows[0].run)),
				   .wanted = repetitions(b, &report->options),
				   .percent = report->options.quick ? PERCENT_QUICK : 100};
	t->rows = calloc(b->row_count, sizeof(*t->rows));
	if (!t->rows)
		return -ENOMEM;
	report->count++;
	for (size_t i = 0; i < b->row_count; i++) {
		t->rows[i].row = &b->rows[i];
		t->rows[i].samples = calloc(t->wanted, sizeof(struct bench_sample));
		if (!t->rows[i].samples)
			return -ENOMEM;
	}
	return 0;
}

static int add_tables(struct report *report, const struct bench *b)
{
	const struct bench_options *o = &report->options;
	unsigned cpus = bench_allowed_cpus(), some[MAX_THREAD_COUNTS] = {1, cpus};
	const unsigned *threads = o->thread_counts ? o->threads : some;
	size_t count = o->thread_counts ? o->thread_counts : cpus == 1 ? 1 : 2;
	int err = 0;

	for (size_t i = 0; b->thread_list && b->thread_list[i] && !o->thread_counts; i++) {
		err = add_table(report, b, b->thread_list[i]);
		if (err || !b->thread_list[i + 1])
			return err;
	}
	if (b->fixed_threads || (b->threads && !o->thread_counts))
		return add_table(report, b, b->threads);
	for (size_t i = 0; i < count && !err; i++)
		err = add_table(report, b, threads[i]);
	return err;
}

static int add_selected(struct report *report)
{
	int err = 0;

	for (size_t i = 0; bench_registry[i] && !err; i++)
		if (is_selected(bench_registry[i], &report->options))
			err = add_tables(report, bench_registry[i]);
	return err;
}

/* One thread, all CPUs, half of them and so on: in the order of what matters. */
static size_t scaling_threads(unsigned out[MAX_THREAD_COUNTS], unsigned cpus)
{
	size_t count = 0;
	unsigned n = 1;

	out[count++] = 1;
	if (cpus > 1)
		out[count++] = cpus;
	while (n * 2 < cpus)
		n *= 2;
	for (; n > 1 && count < MAX_THREAD_COUNTS; n /= 2)
		out[count++] = n;
	return count;
}

/* All tables for one number of threads, then for the next: should time run out, the rest is left.
 * A benchmark with a number of its own is among the first. */
static int add_scaling(struct report *report)
{
	const struct bench_options *o = &report->options;
	unsigned some[MAX_THREAD_COUNTS];
	const unsigned *threads = o->thread_counts ? o->threads : some;
	size_t count = o->thread_counts ? o->thread_counts
					: scaling_threads(some, bench_allowed_cpus());
	int err = 0;

	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; bench_registry[j] && !err; j++) {
			const struct bench *b = bench_registry[j];

			if (is_selected(b, o) && (!i || !b->threads))
				err = add_table(report, b, b->threads ? b->threads : threads[i]);
		}
	return err;
}

/* Finds out what an iteration costs, and which rows cannot run here. */
static int pilot(struct table_result *t)
{
	for (size_t i = 0; i < t->bench->row_count; i++) {
		struct row_result *r = &t->rows[i];
		struct bench_sample s = {0};
		int err;

		if (r->row->run)
			continue;
		err = t->bench->pattern ? program_measure(t, r, PILOT_LOOP, false, &s)
					: row_measure(t, r, 0, &s);
		if (err)
			return err;
		if (s.ops)
			r->pilot_ns = (double)s.wall_ns * t->threads / (double)s.ops;
	}
	return 0;
}

/* Seconds for all repetitions if no measurement takes more than cap_ns. */
static double time_with(const struct table_result *t, double cap_ns)
{
	double sum = 0;

	for (size_t i = 0; i < t->bench->row_count; i++) {
		double ns = t->rows[i].pilot_ns * (double)t->rows[i].iterations;

		sum += START_S + (ns < cap_ns ? ns : cap_ns) / 1e9;
	}
	return sum * t->wanted;
}

/* Shortens the longest measurements until the table fits. */
static void fit(struct table_result *t, double seconds)
{
	double low = 1e6, high = 1e12;

	if (time_with(t, high) <= seconds)
		return;
	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;

		if (time_with(t, middle) > seconds)
			high = middle;
		else
			low = middle;
	}
	for (size_t i = 0; i < t->bench->row_count; i++) {
		struct row_result *r = &t->rows[i];

		if (r->pilot_ns * (double)r->iterations > low)
			r->iterations = (uint64_t)(low / r->pilot_ns) + 1;
	}
}

/* Each measurement is two windows. */
static void fit_windows(struct table_result *t, double seconds)
{
	double each = seconds / t->wanted / (double)t->bench->row_count;
	double ms = (each - START_S) * 1e3 / 2;

	if (ms < (double)t->iterations)
		t->iterations = ms < WINDOW_QUICK_MS ? WINDOW_QUICK_MS : (uint64_t)ms;
}

static void plan(struct table_result *t, const struct bench_options *o, double seconds)
{
	double target = o->quick ? TARGET_QUICK_NS : TARGET_NS;

	if (t->bench->program && !o->name_count)
		fit_windows(t, seconds);
	for (size_t i = 0; i < t->bench->row_count; i++) {
		struct row_result *r = &t->rows[i];

		r->iterations = t->iterations;
		if (!t->fixed && r->pilot_ns > 0)
			r->iterations = (uint64_t)(target / r->pilot_ns) + 1;
	}
	if (!o->iterations)
		fit(t, seconds);
}

static int time_calls(struct table_result *t, struct row_result *r, struct bench_sample *s)
{
	struct bench_sample calls = {0};
	int err = program_measure(t, r, r->iterations, true, &calls);

	s->p99_ns = calls.p99_ns;
	s->p999_ns = calls.p999_ns;
	if (!calls.ops)
		s->ops = 0;
	return err;
}

static int measure_row(struct table_result *t, struct row_result *r)
{
	struct bench_sample s = {0};
	int err = t->bench->pattern   ? program_measure(t, r, r->iterations, false, &s)
		  : t->bench->program ? wait_measure(t, r, r->iterations, &s)
				      : row_measure(t, r, r->iterations, &s);

	if (!err && s.ops && t->bench->kind == BENCH_ALLOCATOR)
		err = time_calls(t, r, &s);
	if (!err && s.ops)
		r->samples[r->count++] = s;
	/* After a failure the earlier samples of the row prove nothing. */
	if (!err && !s.ops)
		r->count = 0;
	return err;
}

static int run_table(struct table_result *t, const struct bench_options *o, double seconds,
		     double end)
{
	/* A number that the user named is kept, so nothing has to be found out. */
	bool suite = t->bench->kind == BENCH_ALLOCATOR;
	bool complete = suite || (t->bench->program && o->name_count);
	bool fixed = suite || t->bench->program ||
		     (t->bench->pattern && t->bench->kind == BENCH_MEMORY);
	int err = o->iterations || fixed ? 0 : pilot(t);

	if (err)
		return err;
	plan(t, o, seconds);
	for (unsigned n = 0; n < t->wanted; n++) {
		if (n && end > 0 && !complete && now_seconds() > end)
			break;
		for (size_t i = 0; i < t->bench->row_count && !err; i++) {
			struct row_result *r = &t->rows[i];

			progress_step(t, r->row, n + 1);
			if (!r->note[0])
				err = measure_row(t, r);
		}
		if (err)
			return err;
	}
	return 0;
}

static unsigned count_steps(const struct report *report)
{
	unsigned steps = 0;

	for (size_t i = 0; i < report->count; i++)
		steps += (unsigned)report->tables[i].bench->row_count * report->tables[i].wanted;
	return steps;
}

/* Most tables need little, and the few that need more come first: they may take a good part of what
 * is left. */
static double share(double left, size_t tables)
{
	double even = left / (double)tables;

	return even > left * 0.4 ? even : left * 0.4;
}

static void drop_tables(struct report *report, size_t first)
{
	for (size_t i = first; i < report->count; i++) {
		struct table_result *t = &report->tables[i];

		for (size_t j = 0; j < t->bench->row_count; j++)
			free(t->rows[j].samples);
		free(t->rows);
	}
	report->count = first;
}

int report_run(struct report *report, bool (*done)(const struct table_result *t))
{
	const struct bench_options *o = &report->options;
	const struct budget *budget = o->quick        ? &quick
				      : o->scale      ? &scale
				      : o->name_count ? NULL
						      : &whole;
	double start = now_seconds(), seconds = NAMED_S;
	struct load_start load = load_now();
	int err = o->scale ? add_scaling(report) : add_selected(report);

	report->started = time(NULL);
	progress_begin(count_steps(report));
	for (size_t i = 0; i < report->count && !err; i++) {
		double left = budget ? budget->plan - (now_seconds() - start) : 0;

		if (o->scale && i && now_seconds() - start > budget->end) {
			drop_tables(report, i);
			report->cut = true;
			break;
		}
		if (budget)
			seconds = o->scale ? left / (double)(report->count - i)
					   : share(left, report->count - i);
		err = run_table(&report->tables[i], o, seconds, budget ? start + budget->end : 0);
		progress_clear();
		/* After Ctrl-C a line of allocators has what there was time for. */
		if (err && !suite_has(&report->tables[i]))
			break;
		if (!done(&report->tables[i]))
			break;
	}
	report->seconds = now_seconds() - start;
	report->load = load_since(&load);
	return child_interrupted() ? -EINTR : err;
}

bool report_failed(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		for (size_t j = 0; j < report->tables[i].bench->row_count; j++)
			if (report->tables[i].rows[j].failed)
				return true;
	return false;
}

void report_free(struct report *report)
{
	drop_tables(report, 0);
	free(report->tables);
}
