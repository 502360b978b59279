/* SPDX-License-Identifier: MIT */
/* nearcpu trace stat: counts, and the latencies between two events. */
#include "trace/print.h"

#include <inttypes.h>
#include <nearcpu/histogram.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

#define ENTRIES 65536u
#define PROBES 16u
#define MOST_EXACT (UINT64_C(4) << 20) /* latencies that are kept */

/* An event whose other one has not come yet. If there are more than the table can hold, earlier
 * ones are forgotten. */
struct begun {
	uint64_t key, ns;
	bool used;
};

struct latency {
	char *first;       /* the name of the first event, allocated, */
	const char *last;  /* and of the last one, behind it */
	const char *field; /* that begin and end have in common; NULL: the thread */
	struct begun *open;
	struct near_histogram histogram; /* of all, for the bars */
	uint64_t *exact;                 /* of the first MOST_EXACT */
	uint64_t kept, count, sum;       /* kept: of those */
	uint64_t unmatched;
};

static uint64_t mix(uint64_t key)
{
	key = (key ^ key >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 29;
}

static uint64_t value_hash(const struct trace_value *v, size_t size)
{
	uint64_t sum = size;

	for (size_t i = 0; i < size; i++)
		sum = mix(sum ^ (unsigned char)v->data[i]);
	return sum;
}

/* False: the event does not have the field. */
static bool key_of(const struct latency *l, const struct trace_event *e, uint64_t *key)
{
	*key = mix(e->file->session.pid) + (l->field ? 0 : e->tid);
	if (!l->field)
		return true;
	for (struct trace_cursor c = trace_fields(e); trace_next_field(&c);)
		if (strcmp(c.field->name, l->field) == 0) {
			*key += value_hash(&c.value, (size_t)c.value.count * c.field->size);
			return true;
		}
	return false;
}

/* The entry of the key, or a free one, or NULL. */
static struct begun *begun_find(struct latency *l, uint64_t key, bool may_add)
{
	struct begun *chosen = NULL;

	for (unsigned i = 0; i < PROBES; i++) {
		struct begun *b = &l->open[(mix(key) + i) % ENTRIES];

		if (b->used && b->key == key)
			return b;
		if (may_add && (!chosen || (chosen->used && (!b->used || b->ns < chosen->ns))))
			chosen = b;
	}
	return chosen;
}

static void record(struct latency *l, uint64_t ns)
{
	near_histogram_record(&l->histogram, ns);
	if (l->kept < MOST_EXACT)
		APPEND(l->exact, l->kept, ns);
	l->sum += ns;
	l->count++;
}

static void latency_take(struct latency *l, const struct trace_event *e)
{
	bool is_first = strcmp(e->point->name, l->first) == 0;
	bool is_last = strcmp(e->point->name, l->last) == 0;
	struct begun *b;
	uint64_t key;

	if ((!is_first && !is_last) || !key_of(l, e, &key))
		return;
	b = begun_find(l, key, false);
	if (is_last && b) {
		record(l, e->ns - b->ns);
		b->used = false;
	} else if (!is_first) {
		l->unmatched++;
	}
	if (is_first) {
		b = begun_find(l, key, true);
		l->unmatched += b->used;
		*b = (struct begun){key, e->ns, true};
	}
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

	for (unsigned i = 0; i < ENTRIES; i++)
		l->unmatched += l->open[i].used;
	if (near_histogram_read(&l->histogram, &s))
		out_of_memory();
	printf("\n%s to %s, in ns, by %s; %" PRIu64 " without the other one\n", l->first, l->last,
	       l->field ? l->field : "thread", l->unmatched);
	print_figures(l, &s);
	print_bars(&s);
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

static bool has_field(const struct trace_point *p, const char *field)
{
	for (unsigned i = 0; field && i < p->field_count; i++)
		if (strcmp(p->fields[i].name, field) == 0)
			return true;
	return !field;
}

static int check_name(const struct trace *t, const char *name, const char *field)
{
	bool found = false;

	for (unsigned i = 0; i < t->point_count; i++) {
		if (strcmp(t->points[i]->name, name) != 0)
			continue;
		found = true;
		if (has_field(t->points[i], field))
			return EXIT_DONE;
	}
	return found ? failure("trace", "'%s' has no field '%s'", name, field)
		     : failure("trace", "there is no tracepoint '%s'", name);
}

int trace_check_pair(const struct trace *t, const char *pair, const char *field, char **first)
{
	size_t n = strcspn(pair, ",");
	int code;

	if (!n || !pair[n] || !pair[n + 1])
		return usage_error("trace", "--between takes two names: FIRST,LAST");
	*first = copy_text(pair);
	(*first)[n] = 0;
	code = check_name(t, *first, field);
	return code ? code : check_name(t, *first + n + 1, field);
}

static int begin_latency(struct latency *l, const struct trace *t, const char *pair,
			 const char *field)
{
	int code = trace_check_pair(t, pair, field, &l->first);

	if (code)
		return code;
	l->last = l->first + strlen(l->first) + 1;
	l->field = field;
	if (near_histogram_init(&l->histogram, NULL))
		out_of_memory();
	l->open = allocate_zeros(ENTRIES, sizeof(*l->open));
	return EXIT_DONE;
}

int trace_stat(struct trace *t, const char *pair, const char *key)
{
	uint64_t events = 0, first = 0, last = 0;
	struct latency l = {0};
	struct trace_event e;
	int code = pair ? begin_latency(&l, t, pair, key) : EXIT_DONE;

	while (!code && !trace_must_stop(stdout) && trace_next(t, &e)) {
		first = events++ ? first : e.ns;
		last = e.ns;
		if (l.open)
			latency_take(&l, &e);
	}
	code = code ? code : child_report_interrupt("trace");
	if (!code) {
		printf("%14" PRIu64 "  events in ", events);
		trace_print_seconds(stdout, last - first);
		puts(" s");
		print_counts(t);
		if (l.open)
			print_latency(&l);
	}
	if (l.open)
		near_histogram_destroy(&l.histogram);
	free(l.open);
	free(l.exact);
	free(l.first);
	return code;
}
