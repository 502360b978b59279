/* SPDX-License-Identifier: MIT */
/* usage: region_seed FILE
 *
 * Makes a small region that has one of everything. */
#include <nearcpu/histogram.h>
#include <nearcpu/shared_counters.h>

#include <stdio.h>
#include <stdlib.h>

static struct near_region region;

static void must(int error)
{
	if (error) {
		fprintf(stderr, "region_seed: %s\n", near_region_error(&region) ?: "error");
		exit(1);
	}
}

static void add(const char *name, const char *labels, size_t counters, int64_t n)
{
	const struct near_shared_counters_options options = {.count = counters};
	struct near_shared_counters s;

	must(near_shared_counters_open(&s, &region, name, labels, &options));
	for (size_t i = 0; i < counters; i++)
		near_shared_counters_add(&s, i, n + (int64_t)i);
}

static void record(const char *name, const char *labels, bool exact_sum)
{
	struct near_histogram_options options = {
		.precision = 2, .max = 1000, .exact_sum = exact_sum};
	struct near_histogram h;

	must(near_histogram_open(&h, &region, name, labels, &options));
	for (uint64_t i = 0; i < 100; i++)
		near_histogram_record(&h, i);
}

static void define(const char *name, uint64_t size, uint32_t flags)
{
	struct near_region_object o = {
		.name = name, .kind = NEAR_REGION_PRIVATE, .flags = flags, .size = size};

	must(near_region_open_object(&region, &o));
}

/* Eight values, of the owners at that offset + 1. */
static void publish(const char *name, bool is_gauge, uint64_t owners, unsigned n, int64_t value)
{
	struct near_region_object o = {.name = name,
				       .kind = NEAR_REGION_VALUES,
				       .flags = NEAR_REGION_COMMON,
				       .size = 64,
				       .about = {is_gauge, owners}};

	must(near_region_open_object(&region, &o));
	((int64_t *)(void *)near_region_common(&region, o.offset))[n] = value;
}

int main(int argc, char **argv)
{
	struct near_region_options options = {
		.flags = NEAR_CREATE, .size = 2048, .common_size = 8192, .max_objects = 16};

	if (argc != 2)
		return 2;
	must(near_region_open(&region, argv[1], &options));
	add("requests", "code=\"500\"", 1, 3);
	record("latency", "path=\"/b\"", true);
	add("requests", "code=\"200\",path=\"a \\\"b\\\" \\\\ \\n \xc3\xa9\"", 1, 1000);
	record("latency", "path=\"/a\"", false);
	add("many", NULL, 3, -1);
	define("bytes", 16, 0);
	define("table", 64, NEAR_REGION_COMMON);
	define("owners", 64, NEAR_REGION_COMMON);
	publish("heap_total", false, 64 + 1, 1, 7);
	publish("heap_level", true, 64 + 1, 1, 7); /* its owner never was */
	publish("level", true, 0, 2, -2);
	define("rings", 4096, NEAR_REGION_COMMON | NEAR_REGION_SPARSE);
	near_region_close(&region);
	return 0;
}
