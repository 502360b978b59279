/* SPDX-License-Identifier: MIT */
/* nearcpu trace stat: counts, and the latencies between two events. */
#include "trace/pairs.h"

#include <inttypes.h>
#include <nearcpu/histogram.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define MOST_EXACT (UINT64_C(4) << 20) /* latencies that are kept */

struct slow {
	uint64_t ns;
	char *lines; /* of the two events, as show has them */
};

struct latency {
	struct trace_pairs pairs;
	struct near_histogram histogram; /* of all, for the bars */
	uint64_t *exact;                 /* of the first MOST_EXACT */
	uint64_t kept, count, sum;       /* kept: of those */
	struct slow *slowest;            /* the slowest one first */
	unsigned slow_count, slow_most;
};

static void record(struct latency *l, uint64_t ns)
{
	near_histogram_record(&l->histogram, ns);
	if (l->kept < MOST_EXACT)
		APPEND(l->exact, l->kept, ns);
	l->sum += ns;
	l->count++;
}

/* Of equal ones those that came first stay. */
static void slowest_take(struct latency *l, const struct trace *t, const struct trace_event *begin,
			 const struct trace_event *end, uint64_t ns)
{
	struct memory_file lines;
	unsigned at = l->slow_count;

	if (at == l->slow_most && (!at || ns <= l->slowest[at - 1].ns))
		return;
	if (at == l->slow_most)
		free(l->slowest[--at].lines);
	else
		l->slow_count++;
	for (; at && l->slowest[at - 1].ns < ns; at--)
		l->slowest[at] = l->slowest[at - 1];
	fprintf(memory_open(&lines), "%14" PRIu64 "  ", ns);
	trace_print_event(lines.file, t, begin);
	fprintf(lines.file, "%16s", "");
	trace_print_event(lines.file, t, end);
	memory_close(&lines);
	l->slowest[at] = (struct slow){ns, lines.text};
}

static void latency_take(struct latency *l, const struct trace *t, const struct trace_event *e)
{
	const struct trace_begun *b = trace_pairs_end(&l->pairs, e);

	if (b) {
		record(l, e->ns - b->event.ns);
		slowest_take(l, t, &b->event, e, e->ns - b->event.ns);
	}
	trace_pairs_begin(&l->pairs, e);
}

/* A bar for each power of two. */
static void print_bars(const struct near_histogram_snapshot *s)
{
	uint64_t counts[65] = {0}, most = 1;

	for (unsigned i = 0; i < s->buckets; i++) {
		uint64_t low = near_histogram_snapshot_bucket(s, i).low;

		counts[low ? 64 - __builtin_clzll(low) : 0] += s->counts[i];
	}
	for (unsigned i = 0; i < 65; i++)
		most = counts[i] > most ? counts[i] : most;
	for (unsigned i = 0; i < 65; i++)
		if (counts[i])
			printf("%20" PRIu64 " ns  %12" PRIu64 "  %.*s\n",
			       i ? UINT64_C(1) << (i - 1) : 0, counts[i],
			       (int)((double)counts[i] * 40 / (double)most),
			       "########################################");
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t rank(const struct latency *l, double percent)
{
	double exact = percent / 100 * (double)l->count;
	uint64_t n = (uint64_t)exact;

	n += (double)n < exact;
	return l->exact[n ? n - 1 : 0];
}

/* As the page shows them. Figures of a histogram are marked. */
static void print_figures(struct latency *l, const struct near_histogram_snapshot *s)
{
	static const double percents[] = {50, 90, 99, 99.9};
	bool is_exact = l->count && l->count == l->kept;
	char line[400];

	if (!is_exact) {
		near_histogram_snapshot_text(s, line, sizeof(line));
		printf("%s%s\n", line, l->count ? "  (to 2 %: too many to be kept)" : "");
		return;
	}
	qsort(l->exact, l->count, sizeof(*l->exact), by_value);
	printf("count %" PRIu64 "  mean %.1f  min %" PRIu64, l->count,
	       (double)l->sum / (double)l->count, l->exact[0]);
	for (unsigned i = 0; i < sizeof(percents) / sizeof(*percents); i++)
		printf("  p%g %" PRIu64, percents[i], rank(l, percents[i]));
	printf("  max %" PRIu64 "\n", l->exact[l->count - 1]);
}

static void print_latency(struct latency *l)
{
	struct near_histogram_snapshot s;

	if (near_histogram_read(&l->histogram, &s))
		out_of_memory();
	printf("\n%s to %s, in ns, by %s; %" PRIu64 " without the other one\n", l->pairs.first,
	       l->pairs.last, l->pairs.field ? l->pairs.field : "thread",
	       trace_pairs_unmatched(&l->pairs));
	print_figures(l, &s);
	print_bars(&s);
	if (l->slow_count)
		puts("\nthe slowest, in ns");
	for (unsigned i = 0; i < l->slow_count; i++)
		fputs(l->slowest[i].lines, stdout);
	near_histogram_snapshot_free(&s);
}

static int by_name(const void *a, const void *b)
{
	const struct trace_point *p = *(struct trace_point *const *)a;
	const struct trace_point *q = *(struct trace_point *const *)b;
	int order = strcmp(p->name, q->name);

	return order ? order : (p->index > q->index) - (p->index < q->index);
}

/* Those with events first. */
static int by_index(const void *a, const void *b)
{
	const struct trace_point *p = *(struct trace_point *const *)a;
	const struct trace_point *q = *(struct trace_point *const *)b;

	if (!p->count != !q->count)
		return p->count ? -1 : 1;
	return (p->index > q->index) - (p->index < q->index);
}

/* Tracepoints with the same name, such as those of several processes, are one. */
static void print_counts(const struct trace *t)
{
	struct trace_point **all = allocate_zeros(t->point_count, sizeof(*all));
	unsigned n = 0, names = 0;

	for (unsigned i = 0; i < t->point_count; i++)
		if (t->points[i]->selected && (t->points[i]->count || !t->points[i]->unknown))
			all[n++] = t->points[i];
	qsort(all, n, sizeof(*all), by_name);
	for (unsigned i = 0; i < n; i++)
		if (names && strcmp(all[names - 1]->name, all[i]->name) == 0)
			all[names - 1]->count += all[i]->count;
		else
			all[names++] = all[i];
	qsort(all, names, sizeof(*all), by_index);
	for (unsigned i = 0; i < names; i++)
		printf("%14" PRIu64 "  %s\n", all[i]->count, all[i]->name);
	free(all);
}

static int begin_latency(struct latency *l, const struct trace *t, const struct trace_wanted *w)
{
	int code = trace_pairs_init(&l->pairs, t, w->between, w->by);

	if (code || !l->pairs.open)
		return code;
	if (near_histogram_init(&l->histogram, NULL))
		out_of_memory();
	l->slow_most = (unsigned)w->slowest;
	l->slowest = allocate_zeros(l->slow_most, sizeof(*l->slowest));
	return EXIT_DONE;
}

static void end_latency(struct latency *l)
{
	if (l->slowest)
		near_histogram_destroy(&l->histogram);
	for (unsigned i = 0; i < l->slow_count; i++)
		free(l->slowest[i].lines);
	free(l->slowest);
	free(l->exact);
	trace_pairs_free(&l->pairs);
}

int trace_stat(struct trace *t, const struct trace_wanted *w)
{
	uint64_t events = 0, first = 0, last = 0;
	struct latency l = {0};
	struct trace_event e;
	int code = begin_latency(&l, t, w);

	while (!code && !trace_must_stop(stdout) && trace_next(t, &e)) {
		first = events++ ? first : e.ns;
		last = e.ns;
		latency_take(&l, t, &e);
	}
	code = code ? code : child_report_interrupt("trace");
	if (!code) {
		printf("%14" PRIu64 "  events in ", events);
		trace_print_seconds(stdout, last - first);
		puts(" s");
		print_counts(t);
		if (l.slowest)
			print_latency(&l);
	}
	end_latency(&l);
	return code;
}
