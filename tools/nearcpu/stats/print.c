/* SPDX-License-Identifier: MIT */
/* nearcpu stats as text, and in Prometheus' text format. */
#include "stats/stats.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

/* The label `index` distinguishes several counters of an object. */
static void print_counter_name(const struct near_region_object *o, size_t i)
{
	char index[24];

	snprintf(index, sizeof(index), "%zu", i);
	print_name(o, "", counters_of(o) > 1 ? "index" : NULL, index);
}

/* ---- text ---- */

static void print_head(const struct content *c)
{
	const struct near_region_status *s = &c->status;
	time_t made = (time_t)(s->created_ns / 1000000000);
	char when[64] = "?";
	struct tm tm;

	if (localtime_r(&made, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	printf("%-14s%s\n", "region", c->path);
	printf("%-14s%s by %s, process %" PRIu64 "\n", "made", when, s->program, s->creator);
	printf("%-14s%u of %u\n", "objects", c->count, s->objects);
	printf("%-14s%u of %u CPUs, %u of %u fallbacks, each %zu bytes\n", "copies", s->cpus_used,
	       s->cpus, s->fallbacks_used, s->cpus, c->region.size);
	printf("%-14s%" PRIu64 " KiB of %" PRIu64 " KiB\n\n", "allocated", s->allocated / 1024,
	       s->total / 1024);
}

static void print_histogram_text(struct content *c, const struct near_region_object *o)
{
	struct near_snapshot s;
	char line[400] = "is damaged";

	if (read_histogram(c, o, &s)) {
		near_snapshot_text(&s, line, sizeof(line));
		near_snapshot_free(&s);
	}
	printf("%20s  ", "histogram");
	print_name(o, "", NULL, NULL);
	printf("\n%22s%s\n", "", line);
}

static void print_object(struct content *c, const struct near_region_object *o)
{
	size_t counters = counters_of(o);

	if (o->kind == NEAR_REGION_HISTOGRAM) {
		print_histogram_text(c, o);
	} else if (counters == 0) {
		printf("%14" PRIu64 " bytes  ", o->size);
		print_name(o, "", NULL, NULL);
		printf("%s\n", o->flags & NEAR_REGION_ONCE ? ", once" : "");
	}
	for (size_t n = 0; n < counters && !ferror(stdout); n++) {
		printf("%20" PRId64 "  ", counter_value(c, o, n));
		print_counter_name(o, n);
		putchar('\n');
	}
}

void print_text(struct content *c)
{
	print_head(c);
	for (unsigned i = 0; i < c->count && !ferror(stdout); i++)
		print_object(c, &c->objects[i]);
}

/* ---- Prometheus ---- */

/* With a bucket for each power of two, whatever was recorded: bounds must not change. */
static void print_histogram_prometheus(const struct near_region_object *o,
				       const struct near_snapshot *s)
{
	uint64_t below = 0, bound = 1;
	char le[24];

	for (unsigned i = 0; i < s->buckets; i++) {
		struct near_range r = near_snapshot_bucket(s, i);

		below += s->counts[i];
		if (r.high != bound)
			continue;
		snprintf(le, sizeof(le), "%" PRIu64, bound);
		print_name(o, "_bucket", "le", le);
		printf(" %" PRIu64 "\n", below);
		bound = bound * 2 + 1;
	}
	print_name(o, "_bucket", "le", "+Inf");
	printf(" %" PRIu64 "\n", s->count);
	print_name(o, "_sum", NULL, NULL);
	printf(" %.17g\n", s->sum);
	print_name(o, "_count", NULL, NULL);
	printf(" %" PRIu64 "\n", s->count);
}

/* Objects of a name are next to each other, as the format wants it. A directory that is damaged may
 * have several kinds of them: those of the first are printed. The help text is the same for all
 * regions: collectors compare those of the files that they read. */
static void print_group(struct content *c, const struct near_region_object *o, unsigned count)
{
	bool is_histogram = o->kind == NEAR_REGION_HISTOGRAM;
	struct near_snapshot s;

	if (!is_histogram && !counters_of(o))
		return;
	printf("# HELP %s %s\n", o->name,
	       is_histogram ? "A near_histogram(3) in a region." : "A near_shared(3) counter.");
	printf("# TYPE %s %s\n", o->name, is_histogram ? "histogram" : "counter");
	for (const struct near_region_object *end = o + count; o < end && !ferror(stdout); o++) {
		for (size_t n = 0; !is_histogram && n < counters_of(o); n++) {
			print_counter_name(o, n);
			printf(" %" PRId64 "\n", counter_value(c, o, n));
		}
		if (is_histogram && read_histogram(c, o, &s)) {
			print_histogram_prometheus(o, &s);
			near_snapshot_free(&s);
		}
	}
}

void print_prometheus(struct content *c)
{
	unsigned next;

	for (unsigned i = 0; i < c->count; i = next) {
		for (next = i + 1; next < c->count; next++)
			if (strcmp(c->objects[next].name, c->objects[i].name) != 0)
				break;
		print_group(c, &c->objects[i], next - i);
	}
}
