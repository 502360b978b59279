/* SPDX-License-Identifier: MIT */
/* nearcpu trace stat: counts, and the latencies between two events. */
#include "trace/print.h"

#include <inttypes.h>
#include <nearcpu/histogram.h>
#include <stdlib.h>
#include <string.h>

#include "common/tool.h"

#define ENTRIES 65536u
#define PROBES 16u
#define MOST_EXACT (UINT64_C(4) << 20) /* latencies that are kept */

/* Begun and not ended, by key. Of more than ENTRIES or so the earlier ones are forgotten. */
struct begun {
	uint64_t key, ns;
	bool used;
};

struct latency {
	char *first, *last; /* the names of the events */
	const char *field;  /* that begin and end have in common; NULL: the thread */
	struct begun *open;
	struct near_histogram histogram; /* of all, for the bars */
	uint64_t *exact;                 /* of the first MOST_EXACT */
	uint64_t room, count, sum;
	uint64_t unmatched;
};

static uint64_t mix(uint64_t key)
{
	key = (key ^ key >> 31) * UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 29;
}

static uint64_t hash(const struct trace_value *v, size_t size)
{
	uint64_t sum = size;

	for (size_t i = 0; i < size; i++)
		sum = mix(sum ^ (unsigned char)v->data[i]);
	return sum;
}

/* False: the event does not have the field. */
static bool key_of(const struct latency *l, const struct trace_event *e, uint64_t *key)
{
	const char *at = e->payload;
	struct trace_value v;

	*key = mix(e->file->session.pid) + (l->field ? 0 : e->tid);
	for (unsigned i = 0; l->field && i < e->point->field_count; i++) {
		const struct trace_field *f = &e->point->fields[i];

		if (!trace_take(f, &at, trace_end(e), &v))
			return false;
		if (strcmp(f->name, l->field) == 0) {
			*key += hash(&v, (size_t)v.count * f->size);
			return true;
		}
	}
	return !l->field;
}

/* The entry of the key, or a free one, or NULL. */
static struct begun *find(struct latency *l, uint64_t key, bool may_add)
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

/* Without memory they are those of the histogram. */
static void record(struct latency *l, uint64_t ns)
{
	uint64_t room = l->room ? 2 * l->room : 1024;
	uint64_t *grown;

	near_histogram_record(&l->histogram, ns);
	if (l->count == l->room && room <= MOST_EXACT) {
		grown = realloc(l->exact, room * sizeof(*grown));
		if (grown) {
			l->exact = grown;
			l->room = room;
		}
	}
	if (l->count < l->room)
		l->exact[l->count] = ns;
	l->sum += ns;
	l->count++;
}

static void take(struct latency *l, const struct trace_event *e)
{
	bool is_first = strcmp(e->point->name, l->first) == 0;
	bool is_last = strcmp(e->point->name, l->last) == 0;
	struct begun *b;
	uint64_t key;

	if ((!is_first && !is_last) || !key_of(l, e, &key))
		return;
	b = find(l, key, false);
	if (is_last && b) {
		record(l, e->ns - b->ns);
		b->used = false;
	} else if (!is_first) {
		l->unmatched++;
	}
	if (is_first) {
		b = find(l, key, true);
		l->unmatched += b->used;
		*b = (struct begun){key, e->ns, true};
	}
}

/* A bar for each power of two. */
static void print_bars(const struct near_snapshot *s)
{
	uint64_t counts[65] = {0}, most = 1;

	for (unsigned i = 0; i < s->buckets; i++) {
		uint64_t low = near_snapshot_bucket(s, i).low;

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

/* As the page has them; those of a histogram are marked. */
static void print_figures(struct latency *l, const struct near_snapshot *s)
{
	static const double percents[] = {50, 90, 99, 99.9};
	bool is_exact = l->count && l->count <= l->room;
	char line[400];

	if (!is_exact) {
		near_snapshot_text(s, line, sizeof(line));
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

static int print_latency(struct latency *l)
{
	struct near_snapshot s;

	for (unsigned i = 0; i < ENTRIES; i++)
		l->unmatched += l->open[i].used;
	if (near_histogram_read(&l->histogram, &s))
		return failure("trace", "not enough memory");
	printf("\n%s to %s, in ns, by %s; %" PRIu64 " without the other one\n", l->first, l->last,
	       l->field ? l->field : "thread", l->unmatched);
	print_figures(l, &s);
	print_bars(&s);
	near_snapshot_free(&s);
	return EXIT_DONE;
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
static int print_counts(const struct trace *t)
{
	struct trace_point **all = calloc(t->points + 1, sizeof(*all));
	unsigned n = 0, names = 0;

	if (!all)
		return failure("trace", "not enough memory");
	for (unsigned i = 0; i < t->file_count; i++)
		for (unsigned id = 0; id < 65536; id++) {
			struct trace_point *p = t->files[i].points[id];

			if (p && p->selected && (p->count || !p->unknown))
				all[n++] = p;
		}
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
	return EXIT_DONE;
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

	for (unsigned i = 0; i < t->file_count; i++)
		for (unsigned id = 0; id < 65536; id++) {
			const struct trace_point *p = t->files[i].points[id];

			if (!p || strcmp(p->name, name) != 0)
				continue;
			found = true;
			if (has_field(p, field))
				return EXIT_DONE;
		}
	return found ? failure("trace", "'%s' has no field '%s'", name, field)
		     : failure("trace", "there is no tracepoint '%s'", name);
}

int trace_check_pair(const struct trace *t, const char *pair, const char *field)
{
	char *first = strdup(pair), *comma = first ? strchr(first, ',') : NULL;
	int code;

	if (!comma || comma == first || !comma[1]) {
		code = usage_error("trace", "--between takes two names: FIRST,LAST");
	} else {
		*comma = 0;
		code = check_name(t, first, field);
		code = code ? code : check_name(t, comma + 1, field);
	}
	free(first);
	return code;
}

static int begin_latency(struct latency *l, const struct trace *t, const char *pair,
			 const char *field)
{
	int code = trace_check_pair(t, pair, field);

	if (code)
		return code;
	l->first = strdup(pair);
	if (!l->first)
		return failure("trace", "not enough memory");
	l->last = strchr(l->first, ',') + 1;
	l->first[l->last - l->first - 1] = 0;
	l->field = field;
	l->open = calloc(ENTRIES, sizeof(*l->open));
	if (l->open && near_histogram_init(&l->histogram, NULL) == 0)
		return EXIT_DONE;
	free(l->open);
	l->open = NULL;
	return failure("trace", "not enough memory");
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
			take(&l, &e);
	}
	code = code ? code : trace_interrupted();
	if (!code) {
		printf("%14" PRIu64 "  events in ", events);
		trace_print_seconds(stdout, last - first);
		puts(" s");
		code = print_counts(t);
		code = !code && l.open ? print_latency(&l) : code;
	}
	if (l.open)
		near_histogram_destroy(&l.histogram);
	free(l.open);
	free(l.exact);
	free(l.first);
	return code;
}
