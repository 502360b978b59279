/* SPDX-License-Identifier: MIT */
/* nearcpu stats as text, and in Prometheus' text format. */
#include "stats/stats.h"

#include <inttypes.h>

#include "common/text.h"

/* The label `index` distinguishes several counters of an object. */
static void print_counter_name(const struct near_region_object *o, size_t i)
{
	print_name(o, "", counters_of(o) > 1 ? "index" : NULL, word("%zu", i).text);
}

/* ---- text ---- */

static void print_head(const struct content *c)
{
	const struct near_region_stats *s = &c->status;

	printf("%-14s%s\n", "region", c->path);
	printf("%-14s%s by %s, process %" PRIu64 "\n", "made", date(s->created_ns).text, s->program,
	       s->creator);
	printf("%-14s%u of %u\n", "objects", c->count, s->objects);
	printf("%-14s%u of %u CPUs, %u of %u fallbacks, each %zu bytes\n", "copies", s->cpus_used,
	       s->cpus, s->fallbacks_used, s->cpus, c->region.size);
	printf("%-14s%" PRIu64 " KiB of %" PRIu64 " KiB\n\n", "allocated", s->allocated / 1024,
	       s->total / 1024);
}

static void print_histogram_text(struct content *c, const struct near_region_object *o)
{
	struct near_histogram_snapshot s;
	char line[400] = "is damaged";

	if (read_histogram(c, o, &s)) {
		near_histogram_snapshot_text(&s, line, sizeof(line));
		near_histogram_snapshot_free(&s);
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
		printf("%s\n", o->flags & NEAR_REGION_COMMON ? ", once" : "");
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
				       const struct near_histogram_snapshot *s)
{
	uint64_t below = 0, bound = 1;

	for (unsigned i = 0; i < s->buckets; i++) {
		struct near_histogram_range r = near_histogram_snapshot_bucket(s, i);

		below += s->counts[i];
		if (r.high != bound)
			continue;
		print_name(o, "_bucket", "le", word("%" PRIu64, bound).text);
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

/* Of objects of several kinds those of the first are printed. The help text is the same for all
 * regions: collectors compare those of the files that they read. */
static void print_group(struct content *c, const struct near_region_object *o, unsigned count)
{
	bool is_histogram = o->kind == NEAR_REGION_HISTOGRAM;
	struct near_histogram_snapshot s;

	printf("# HELP %s %s\n", o->name,
	       is_histogram ? "A near_histogram(3) in a region."
			    : "A near_shared_counters(3) counter.");
	printf("# TYPE %s %s\n", o->name, is_histogram ? "histogram" : "counter");
	for (const struct near_region_object *end = o + count; o < end && !ferror(stdout); o++) {
		for (size_t n = 0; !is_histogram && n < counters_of(o); n++) {
			print_counter_name(o, n);
			printf(" %" PRId64 "\n", counter_value(c, o, n));
		}
		if (is_histogram && read_histogram(c, o, &s)) {
			print_histogram_prometheus(o, &s);
			near_histogram_snapshot_free(&s);
		}
	}
}

void print_prometheus(struct content *c)
{
	each_name(c, print_group);
}
