/* SPDX-License-Identifier: MIT */
/* nearcpu stats as text, and in Prometheus' text format. */
#include "stats/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <nearcpu/metrics.h>

#include "common/text.h"

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
	print_name(o->name, o->labels);
	printf("\n%22s%s\n", "", line);
}

/* Of values only those that are not 0: most places and size classes are not in use. */
static void print_number(struct content *c, const struct near_region_object *o, size_t i)
{
	struct number n;

	if (!read_number(c, o, i, &n) || (!n.value && o->kind == NEAR_REGION_VALUES))
		return;
	printf("%20" PRId64 "  ", n.value);
	print_name(o->name, n.labels);
	putchar('\n');
}

static void print_object(struct content *c, const struct near_region_object *o)
{
	size_t numbers = numbers_of(o);

	if (o->kind == NEAR_REGION_HISTOGRAM) {
		print_histogram_text(c, o);
	} else if (numbers == 0) {
		printf("%14" PRIu64 " bytes  ", o->size);
		print_name(o->name, o->labels);
		printf("%s\n", o->flags & NEAR_REGION_COMMON ? ", once" : "");
	}
	for (size_t i = 0; i < numbers && !ferror(stdout); i++)
		print_number(c, o, i);
}

void print_text(struct content *c)
{
	print_head(c);
	for (unsigned i = 0; i < c->count && !ferror(stdout); i++)
		print_object(c, &c->objects[i]);
}

/* ---- Prometheus ---- */

static int print_piece(void *unused, const char *text, size_t size)
{
	(void)unused;
	return fwrite(text, 1, size, stdout) == size ? 0 : -EIO;
}

/* What fails besides is found when standard output is closed. */
void print_prometheus(struct content *c, bool as_openmetrics)
{
	struct near_metric region = {.kind = NEAR_METRIC_REGION, .object = &c->region};
	struct near_metrics all = {&region};
	int err = near_metrics_write(
		&all, as_openmetrics ? NEAR_METRICS_OPENMETRICS : NEAR_METRICS_PROMETHEUS,
		print_piece, NULL);

	if (err == -ENOMEM)
		out_of_memory();
	c->damaged = err == -EBADMSG;
}
