/* SPDX-License-Identifier: MIT */
/* usage: stats_region FILE
 * Makes the region that stats_forms_test.py knows the values of. */
#include <nearcpu/histogram.h>
#include <nearcpu/shared_counters.h>

#include <stdio.h>

static int define(struct near_histogram *h, struct near_region *r, const char *labels,
		  const struct near_histogram_options *options)
{
	return near_histogram_open(h, r, "latency_ns", labels, options);
}

int main(int argc, char **argv)
{
	static const struct near_histogram_options with_sum = {
		.precision = 7, .max = 1000, .exact_sum = true};
	static const struct near_shared_counters_options two = {.count = 2};
	static const struct near_region_options create = {.flags = NEAR_CREATE};
	struct near_histogram get, put, none;
	struct near_shared_counters requests;
	struct near_region r;

	if (argc != 2 || near_region_open(&r, argv[1], &create) ||
	    define(&get, &r, "op=\"get\",path=\"/a \\\"b\\\\c\"", NULL) ||
	    define(&put, &r, "op=\"put\"", &with_sum) ||
	    near_histogram_open(&none, &r, "sizes", NULL, NULL) ||
	    near_shared_counters_open(&requests, &r, "requests", NULL, &two))
		return 1;
	for (uint64_t i = 0; i < 1000; i++) {
		near_histogram_record(&get, i * i * 7 % 1000003);
		near_histogram_record(&put, 2 * i);
		near_shared_counters_add(&requests, i % 2, 1);
	}
	near_histogram_record(&get, (uint64_t)-1);
	near_region_close(&r);
	return 0;
}
