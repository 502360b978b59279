/* SPDX-License-Identifier: MIT */
/* near_metrics: the registry, a list in the order of names and labels, and the text. */
#include <nearcpu/metrics.h>

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/reserved.h"
#include "percpu/histogram.h"
#include "percpu/percpu.h"
#include "region/region.h"

/* NULL is the same as "". */
static int strings_compare(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static bool ends_with(const char *name, const char *before, const char *end)
{
	size_t n = strlen(name), m = strlen(before) + strlen(end);

	return n > m && strncmp(name + n - m, before, strlen(before)) == 0 &&
	       strcmp(name + n - strlen(end), end) == 0;
}

/* ---- the registry ---- */

static bool metric_is_right(const struct near_metric *m)
{
	if (!NEAR__RESERVED_ARE_ZERO(m) || !(m->units >= 0))
		return false;
	if (m->kind == NEAR_METRIC_REGION)
		return m->object && !m->name && !m->labels && !m->unit;
	if (m->kind < NEAR_METRIC_COUNTER || m->kind > NEAR_METRIC_REGION || !m->name ||
	    !near__region_is_name(m->name) ||
	    (m->labels && !near__region_are_labels(m->labels, NEAR_METRIC_LABELS)) ||
	    (m->unit && (!near__region_is_name(m->unit) || !ends_with(m->name, "_", m->unit))) ||
	    (m->kind == NEAR_METRIC_COUNTER && ends_with(m->name, "_", "total")))
		return false;
	if (m->family)
		return !m->object && m->family->kind == m->kind;
	return m->kind == NEAR_METRIC_CALL ? m->call != NULL : m->object != NULL;
}

/* The release pairs with the acquires in near_metrics_write. */
int near_metrics_add(struct near_metrics *m, struct near_metric *metric)
{
	struct near_lock *lock = near__percpu_lock(m);
	struct near_metric **place = &m->first;
	int err = metric_is_right(metric) ? 0 : -EINVAL;

	near_lock_lock(lock);
	for (struct near_metric **at = place; *at && err == 0; at = &(*at)->next) {
		int order = strings_compare((*at)->name, metric->name);
		bool same_name = order == 0 && metric->name;

		order = order ? order : strings_compare((*at)->labels, metric->labels);
		if (*at == metric || (same_name && order == 0))
			err = -EEXIST;
		else if (same_name && (*at)->kind != metric->kind)
			err = -EINVAL;
		if (order <= 0)
			place = &(*at)->next;
	}
	if (err == 0) {
		metric->next = *place;
		__atomic_store_n(place, metric, __ATOMIC_RELEASE);
	}
	near_lock_unlock(lock);
	return err;
}

void near_metrics_remove(struct near_metrics *m, struct near_metric *metric)
{
	struct near_lock *lock = near__percpu_lock(m);
	struct near_metric **at = &m->first;

	near_lock_lock(lock);
	while (*at && *at != metric)
		at = &(*at)->next;
	if (*at)
		*at = metric->next;
	near_lock_unlock(lock);
}

/* ---- the text ---- */

struct text {
	near_metrics_take *take;
	void *argument;
	bool is_open; /* OpenMetrics */
	int error;    /* then nothing more is given away */
	/* What is written now. */
	const struct near_metric *metric;
	int length;    /* of its name, without `_total`, */
	bool is_total; /* which it has */
	const char *of_member;
	double units;
	size_t used;
	char buffer[1024];
};

struct number {
	char text[48];
};

static void text_flush(struct text *t)
{
	if (t->used && !t->error)
		t->error = t->take(t->argument, t->buffer, t->used);
	t->used = 0;
}

/* What fits into the buffer. */
__attribute__((format(printf, 2, 3))) static void text_put(struct text *t, const char *fmt, ...)
{
	for (unsigned tries = 0; tries < 2; tries++) {
		size_t room = sizeof(t->buffer) - t->used, n;
		va_list args;

		va_start(args, fmt);
		n = (size_t)vsnprintf(t->buffer + t->used, room, fmt, args);
		va_end(args);
		if (n < room) {
			t->used += n;
			return;
		}
		text_flush(t);
	}
}

/* The shortest that is read back as the same. What is no part of a number is the locale's decimal
 * point. */
static struct number number_of(double value)
{
	struct number n = {"NaN"};
	size_t length = 0;

	if (isinf(value))
		strcpy(n.text, value < 0 ? "-Inf" : "+Inf");
	for (int digits = 15; digits <= 17 && strtod(n.text, NULL) != value; digits++)
		if (!isnan(value))
			snprintf(n.text, sizeof(n.text), "%.*g", digits, value);
	for (const char *c = n.text; *c; c++)
		if (isalnum((unsigned char)*c) || *c == '-' || *c == '+')
			n.text[length++] = *c;
		else if (n.text[length - 1] != '.')
			n.text[length++] = '.';
	n.text[length] = '\0';
	return n;
}

static void put_head(struct text *t, const char *what)
{
	text_put(t, "# %s %.*s%s ", what, t->length, t->metric->name,
		 t->is_total && !t->is_open ? "_total" : "");
}

static void put_about_name(struct text *t)
{
	static const char types[][10] = {"",          "counter", "gauge",  "gauge",
					 "histogram", "gauge",   "counter"};
	bool may_fall = t->metric->kind == NEAR_METRIC_SHARED && !t->is_total;

	if (t->metric->help) {
		put_head(t, "HELP");
		for (const char *c = t->metric->help; *c; c++)
			text_put(t, "%s%c", strchr(t->is_open ? "\n\\\"" : "\n\\", *c) ? "\\" : "",
				 *c == '\n' ? 'n' : *c);
		text_put(t, "\n");
	}
	put_head(t, "TYPE");
	text_put(t, "%s\n", may_fall && t->is_open ? "unknown" : types[t->metric->kind]);
	if (t->metric->unit && t->is_open) {
		put_head(t, "UNIT");
		text_put(t, "%s\n", t->metric->unit);
	}
}

/* name_suffix{labels,name="value"} and a space; without a value no such label. */
static void put_name(struct text *t, const char *suffix, const char *name, const char *value)
{
	const char *labels[] = {t->metric->labels, t->of_member}, *before = "{";

	text_put(t, "%.*s%s", t->length, t->metric->name, t->is_total ? "_total" : suffix);
	for (unsigned i = 0; i < 2; i++)
		if (labels[i] && *labels[i]) {
			text_put(t, "%s%s", before, labels[i]);
			before = ",";
		}
	if (value)
		text_put(t, "%s%s=\"%s\"", before, name, value);
	text_put(t, value || *before == ',' ? "} " : " ");
}

static void put_double(struct text *t, double value)
{
	text_put(t, "%s\n", number_of(value / t->units).text);
}

static void put_integer(struct text *t, int64_t value)
{
	if (t->units == 1)
		text_put(t, "%" PRId64 "\n", value);
	else
		put_double(t, (double)value);
}

/* OpenMetrics wants 1.0. */
static struct number number_of_bound(const struct text *t, uint64_t bound)
{
	struct number n = number_of((double)bound / t->units);

	if (t->units == 1)
		snprintf(n.text, sizeof(n.text), "%" PRIu64, bound);
	if (t->is_open && !strpbrk(n.text, ".e"))
		strcat(n.text, ".0");
	return n;
}

/* The exemplar is that of a value from `low` to `high`. */
static void put_bucket(struct text *t, const struct near_histogram *h, const char *le, uint64_t low,
		       uint64_t high, uint64_t count)
{
	struct near_histogram_exemplar e;

	put_name(t, "_bucket", "le", le);
	text_put(t, "%" PRIu64, count);
	if (t->is_open && near_histogram_exemplar(h, low, high, &e))
		text_put(t, " # {trace_id=\"%s\"} %s %" PRIu64 ".%03u", e.trace_id,
			 number_of((double)e.value / t->units).text, e.ns / 1000000000,
			 (unsigned)(e.ns / 1000000 % 1000));
	text_put(t, "\n");
}

static bool is_written(const struct near_metric *metric, uint64_t bound)
{
	return bound >= metric->least && (!metric->most || bound <= metric->most);
}

/* With a bucket for each power of two, whatever was recorded: bounds must not change. */
static void put_histogram(struct text *t, const struct near_histogram *h)
{
	uint64_t count = 0, low = 0, bound = 1;
	struct near__histogram_part p;
	double sum = 0;

	t->units = t->metric->units > 0 ? t->units : h->units;
	for (unsigned first = 0; first < h->buckets; first += p.size) {
		near__histogram_read_part(h, first, &p);
		for (unsigned i = 0; i < p.size; i++) {
			struct near_histogram_range r = near__histogram_range_of(h, first + i);

			count += p.counts[i];
			sum += (double)p.counts[i] * near__histogram_middle(r, h->max);
			if (r.high != bound)
				continue;
			if (is_written(t->metric, bound)) {
				put_bucket(t, h, number_of_bound(t, bound).text, low, bound, count);
				low = bound + (bound < UINT64_MAX);
			}
			bound = bound * 2 + 1;
		}
	}
	put_bucket(t, h, "+Inf", low, UINT64_MAX, count);
	put_name(t, "_sum", NULL, NULL);
	put_double(t, h->exact_sum ? (double)near__histogram_exact_sum(h) : sum);
	put_name(t, "_count", NULL, NULL);
	text_put(t, "%" PRIu64 "\n", count);
}

static void put_shared(struct text *t, const struct near_shared_counters *c)
{
	for (size_t i = 0; i < c->count && !t->error; i++) {
		struct number index;

		snprintf(index.text, sizeof(index.text), "%zu", i);
		put_name(t, "", "index", c->count > 1 ? index.text : NULL);
		put_integer(t, near_shared_counters_read(c, i));
	}
}

static void put_values(struct text *t, enum near_metric_kind kind, void *object)
{
	if (kind == NEAR_METRIC_HISTOGRAM) {
		put_histogram(t, object);
	} else if (kind == NEAR_METRIC_SHARED) {
		put_shared(t, object);
	} else {
		put_name(t, "", NULL, NULL);
		if (kind == NEAR_METRIC_CALL)
			put_double(t, t->metric->call(object));
		else
			put_integer(t, kind == NEAR_METRIC_GAUGE ? near_gauge_read(object)
								 : near_counter_read(object));
	}
}

static void begin_metric(struct text *t, const struct near_metric *metric, bool is_new)
{
	bool has_total = metric->kind == NEAR_METRIC_SHARED &&
			 ends_with(metric->name, "_", "total");

	t->metric = metric;
	t->is_total = has_total || metric->kind == NEAR_METRIC_COUNTER;
	t->length = (int)(strlen(metric->name) - (has_total ? strlen("_total") : 0));
	t->units = metric->units > 0 ? metric->units : 1;
	if (is_new)
		put_about_name(t);
	t->of_member = NULL;
}

static void write_metric(struct text *t, const struct near_metric *metric, bool is_new)
{
	size_t i = 0;
	void *member;

	begin_metric(t, metric, is_new);
	if (!metric->family)
		put_values(t, metric->kind, metric->object);
	while (metric->family && (member = near__family_next(metric->family, &i, &t->of_member)))
		put_values(t, metric->kind, member);
}

/* ---- regions ---- */

static int compare_names(const void *a, const void *b)
{
	const struct near_region_object *left = a, *right = b;
	int order = strcmp(left->name, right->name);

	return order ? order : strcmp(left->labels, right->labels);
}

/* Of gauges the process, besides the place. */
static void put_value(struct text *t, size_t i, uint64_t pid, int64_t value)
{
	char place[64];
	int n = snprintf(place, sizeof(place), "%zu", i);

	if (pid)
		snprintf(place + n, sizeof(place) - (size_t)n, "\",pid=\"%" PRIu64, pid);
	put_name(t, "", "index", place);
	put_integer(t, value);
}

static void write_values(struct text *t, const struct near_region *r,
			 const struct near_region_object *o, bool is_new)
{
	const struct near_metric metric = {
		.name = o->name,
		.labels = o->labels,
		.help = "Values that processes publish in a region.",
		.kind = o->about[NEAR_REGION_ABOUT_GAUGE] ? NEAR_METRIC_GAUGE : NEAR_METRIC_SHARED};
	const uint64_t self = near__owner_self();
	struct near__value v;

	begin_metric(t, &metric, is_new);
	for (size_t i = 0; i < near__region_values(o) && !t->error; i++)
		if (near__region_value(r, o, i, self, &v))
			put_value(t, i, v.pid, v.value);
}

/* The help text is the same for all regions: collectors compare those of the files that they read.
 * Returns 1; 0: it has no values; -EBADMSG. */
static int write_object(struct text *t, const struct near_region *r,
			const struct near_region_object *o, bool is_new)
{
	struct near_metric metric = {.name = o->name, .labels = o->labels};
	struct near_shared_counters counters;
	struct near_histogram histogram;

	if (o->kind == NEAR_REGION_HISTOGRAM) {
		if (near_histogram_open_object(&histogram, r, o))
			return -EBADMSG;
		metric.kind = NEAR_METRIC_HISTOGRAM;
		metric.object = &histogram;
		metric.help = "A near_histogram(3) in a region.";
	} else if (near__region_values(o)) {
		write_values(t, r, o, is_new);
		return 1;
	} else {
		if (o->kind != NEAR_REGION_COUNTERS ||
		    near_shared_counters_open_object(&counters, r, o))
			return 0;
		metric.kind = NEAR_METRIC_SHARED;
		metric.object = &counters;
		metric.help = "A near_shared_counters(3) counter.";
	}
	write_metric(t, &metric, is_new);
	return 1;
}

/* A directory that is damaged may have several kinds of objects under a name: those of the first
 * are written. */
static int write_region(struct text *t, const struct near_region *r)
{
	struct near_region_object o, *all, *first;
	unsigned n = 0, i = 0;
	bool is_new = true;
	int err = 0, got;

	while (near_region_object(r, n, &o) == 0)
		n++;
	first = all = near__heap_zeroed(n + 1, sizeof(*all));
	if (!all)
		return -ENOMEM;
	while (i < n && near_region_object(r, i, &all[i]) == 0)
		i++;
	qsort(all, i, sizeof(*all), compare_names);
	for (struct near_region_object *at = all; at < all + i && !t->error; at++) {
		if (strcmp(first->name, at->name) != 0) {
			first = at;
			is_new = true;
		}
		got = at->kind == first->kind ? write_object(t, r, at, is_new) : 0;
		err = got < 0 ? got : err;
		is_new = is_new && got <= 0;
	}
	free(all);
	return err;
}

int near_metrics_write(const struct near_metrics *m, enum near_metrics_format format,
		       near_metrics_take *take, void *argument)
{
	struct text t = {
		.take = take, .argument = argument, .is_open = format == NEAR_METRICS_OPENMETRICS};
	const char *last = NULL;
	int saved = errno, err = 0, got;

	for (const struct near_metric *at = __atomic_load_n(&m->first, __ATOMIC_ACQUIRE);
	     at && !t.error; at = __atomic_load_n(&at->next, __ATOMIC_ACQUIRE)) {
		if (at->kind == NEAR_METRIC_REGION) {
			got = write_region(&t, at->object);
			err = err ? err : got;
			continue;
		}
		write_metric(&t, at, strings_compare(at->name, last) != 0);
		last = at->name;
	}
	if (t.is_open)
		text_put(&t, "# EOF\n");
	text_flush(&t);
	errno = saved;
	return t.error ? t.error : err;
}
